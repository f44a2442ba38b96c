//! The functions of the fuzz targets in `fuzz/`, one for each. Compiled only for them and for the
//! test that replays their corpora.

use crate::remote::stream_in_pieces;

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("model_stream", model_stream)];

/// Checks that a streamed answer gives the same result however it is split into pieces. The first
/// byte is the size of the pieces, and its lowest bit chooses the interface.
pub fn model_stream(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let is_anthropic = size & 1 == 1;
    let whole = stream_in_pieces(stream, stream.len().max(1), is_anthropic);
    let pieces = stream_in_pieces(stream, usize::from(*size).max(1), is_anthropic);
    assert_eq!(pieces, whole);
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
