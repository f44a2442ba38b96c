//! What the fuzz targets of `fuzz/` do with their input, one function each. Built for them and for the test that
//! replays their corpus; not part of the crate otherwise.

use crate::sse::SseParser;

/// What is done with an input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("sse", sse)];

/// A stream of events reads the same, however it is cut into pieces. The first byte says how long they are.
pub fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = events(stream, stream.len().max(1));
    assert_eq!(events(stream, usize::from(*size).max(1)), whole);
}

/// The events of a stream that comes in pieces of so many bytes, with what is known when it ends; none from an event on
/// that is too long.
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
    /// What a target once choked on, it must not choke on again, whatever the compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
