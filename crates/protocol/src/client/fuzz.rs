//! What the fuzz targets reach of the client.

use super::sse::SseParser;

/// The events of a stream that comes in pieces of so many bytes, with what is known when it ends; none from an event on
/// that is too long.
pub(crate) fn sse(stream: &[u8], piece: usize) -> Vec<(String, Vec<u8>)> {
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
