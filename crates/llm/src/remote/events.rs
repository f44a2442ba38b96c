//! Parses server-sent events of limited size (WHATWG HTML, "Server-sent events").

use std::ops::Range;

use reqwest::Response;

/// Minimum of the limit of an event: JSON around a short text needs some space.
pub(super) const MIN_EVENT_BYTES: usize = 64 << 10;

/// The events of a response.
pub(super) struct EventStream {
    response: Response,
    parser: EventParser,
}

/// Why an event cannot be read.
pub(super) enum Error {
    Connection(reqwest::Error),
    /// An event exceeds the limit.
    TooLong,
}

impl EventStream {
    pub(super) fn new(response: Response, max_bytes: usize) -> Self {
        Self { response, parser: EventParser::new(max_bytes) }
    }

    /// Returns the data of the next event; `None` at the end. Events without data are skipped. An
    /// endless series of comments is an error once it exceeds the limit.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(data) = self.parser.next_event().map_err(|TooLong| Error::TooLong)? {
                return Ok(Some(data));
            }
            match self.response.chunk().await.map_err(Error::Connection)? {
                Some(chunk) => self.parser.push(&chunk),
                None => return Ok(self.parser.finish()),
            }
        }
    }
}

/// Returns the data of all events of a stream that arrives in pieces.
#[cfg(any(test, fuzzing))]
pub(super) fn parse_in_pieces(
    bytes: &[u8],
    piece: usize,
    max_bytes: usize,
) -> (Vec<String>, Result<(), TooLong>) {
    let mut parser = EventParser::new(max_bytes);
    let mut events = Vec::new();
    for bytes in bytes.chunks(piece) {
        parser.push(bytes);
        loop {
            match parser.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
        assert!(parser.buffer.len() <= max_bytes, "the buffer exceeds the limit of an event");
    }
    events.extend(parser.finish());
    (events, Ok(()))
}

/// An event exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Parses a stream line by line.
struct EventParser {
    buffer: Vec<u8>,
    /// Index of the first byte that was not searched for a line end.
    searched: usize,
    /// Data of the event whose lines are being read.
    data: Option<Vec<u8>>,
    /// Bytes of the lines since the last event with data.
    pending_bytes: usize,
    max_bytes: usize,
}

impl EventParser {
    fn new(max_bytes: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, data: None, pending_bytes: 0, max_bytes }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the data of the next event that has arrived completely.
    fn next_event(&mut self) -> Result<Option<String>, TooLong> {
        let mut start = 0;
        let mut event = None;
        while event.is_none()
            && let Some(end) = self.find_line_end()
        {
            event = self.read_line(start..end)?;
            start = end + 1;
        }
        // Not after each line: it moves the rest of the buffer.
        self.buffer.drain(..start);
        self.searched -= start;
        if event.is_none() && self.buffer.len() + self.pending_bytes > self.max_bytes {
            return Err(TooLong);
        }
        Ok(event)
    }

    /// Returns the index of the first line end that was not found before.
    fn find_line_end(&mut self) -> Option<usize> {
        let length = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = length.map(|length| self.searched + length);
        self.searched = end.map_or(self.buffer.len(), |end| end + 1);
        end
    }

    /// Reads a line of the buffer. Returns the data of an event if the line ends one.
    fn read_line(&mut self, span: Range<usize>) -> Result<Option<String>, TooLong> {
        self.pending_bytes += span.len() + 1;
        if self.pending_bytes > self.max_bytes {
            return Err(TooLong);
        }
        let line = &self.buffer[span];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            let Some(data) = self.data.take() else { return Ok(None) };
            self.pending_bytes = 0;
            return Ok(Some(String::from_utf8_lossy(&data).into_owned()));
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        Ok(None)
    }

    /// Ends the stream. Returns the data of a last event that no blank line ends.
    fn finish(&mut self) -> Option<String> {
        self.push(b"\n\n");
        self.next_event().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8], chunk: usize, max: usize) -> Result<Vec<String>, TooLong> {
        let (events, end) = parse_in_pieces(bytes, chunk, max);
        end.map(|()| events)
    }

    #[test]
    fn events_are_read_in_any_chunks() {
        let text = ": hi\r\n\r\nevent: x\ndata: {\"a\": 1}\n\nid: 7\r\ndata:two\r\ndata: lines\r\n\r\n\n\ndata: [DONE]";
        for chunk in 1..text.len() {
            let events = parse(text.as_bytes(), chunk, 1000).unwrap();
            assert_eq!(events, ["{\"a\": 1}", "two\nlines", "[DONE]"], "{chunk}");
        }
    }

    #[test]
    fn endless_events_are_refused_at_the_limit() {
        for endless in [
            "data: x".repeat(100),
            ": comment\n".repeat(100),
            "data: x\n".repeat(100),
            "\n".repeat(1000),
        ] {
            assert_eq!(parse(endless.as_bytes(), 7, 100), Err(TooLong), "{}", &endless[..7]);
        }
        let many = "data: x\n\n".repeat(1000);
        assert_eq!(parse(many.as_bytes(), 7, 100).unwrap().len(), 1000);
    }
}
