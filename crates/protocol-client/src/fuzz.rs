//! The functions of the fuzz targets in `fuzz/`, one for each. Compiled only for them and for the
//! test that replays their corpora.

use crate::sse::SseParser;

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("sse", sse)];

/// Checks that an event stream gives the same events however it is split into pieces. The first
/// byte is the size of the pieces.
pub fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = events(stream, stream.len().max(1));
    assert_eq!(events(stream, usize::from(*size).max(1)), whole);
}

/// Returns the events of a stream in pieces of `piece` bytes, and the state at its end; nothing
/// after an event that is too long.
fn events(stream: &[u8], piece: usize) -> Vec<(String, Vec<u8>)> {
    let mut parser = SseParser::new(512);
    let mut events = Vec::new();
    for piece in stream.chunks(piece) {
        let pushed =
            parser.push(piece, |event| events.push((event.name.to_owned(), event.data.to_owned())));
        if pushed.is_err() {
            events.push(("too long".to_owned(), Vec::new()));
            return events;
        }
    }
    events.push((format!("{:?} {:?}", parser.last_id, parser.retry), Vec::new()));
    events
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
