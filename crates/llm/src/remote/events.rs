//! Server-sent events with a limit (WHATWG HTML, "Server-sent events"): the data of each event.

use reqwest::Response;

/// The least limit of an event: JSON around a short text needs some space.
pub(super) const MIN_EVENT_BYTES: usize = 64 << 10;

/// The events of an answer.
pub(super) struct Events {
    response: Response,
    lines: Lines,
}

/// Why an event cannot be read.
pub(super) enum Error {
    Connection(reqwest::Error),
    /// An event exceeds the limit.
    TooLong,
}

impl Events {
    pub(super) fn new(response: Response, max_bytes: usize) -> Self {
        Self { response, lines: Lines::new(max_bytes) }
    }

    /// Returns the data of the next event; `None` at the end. Events without data are skipped. An
    /// endless series of comments is an error once it exceeds the limit.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(data) = self.lines.event().map_err(|TooLong| Error::TooLong)? {
                return Ok(Some(data));
            }
            match self.response.chunk().await.map_err(Error::Connection)? {
                Some(chunk) => self.lines.push(&chunk),
                None => return Ok(self.lines.end()),
            }
        }
    }
}

/// Reads the data of all events of a stream that arrives in pieces.
#[cfg(any(test, fuzzing))]
pub(super) fn in_pieces(
    bytes: &[u8],
    piece: usize,
    max_bytes: usize,
) -> (Vec<String>, Result<(), TooLong>) {
    let mut lines = Lines::new(max_bytes);
    let mut events = Vec::new();
    for bytes in bytes.chunks(piece) {
        lines.push(bytes);
        loop {
            match lines.event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
        assert!(lines.buffer.len() <= max_bytes, "bytes without end are kept");
    }
    events.extend(lines.end());
    (events, Ok(()))
}

/// An event exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Bytes that are read line by line.
struct Lines {
    buffer: Vec<u8>,
    /// Index of the first byte that was not searched for a line end.
    searched: usize,
    data: Option<Vec<u8>>,
    /// Bytes since the last event with data.
    skipped: usize,
    max_bytes: usize,
}

impl Lines {
    fn new(max_bytes: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, data: None, skipped: 0, max_bytes }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the data of the next event that has arrived completely.
    fn event(&mut self) -> Result<Option<String>, TooLong> {
        let mut start = 0;
        let found = loop {
            let rest = &self.buffer[start.max(self.searched)..];
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                break Ok(None);
            };
            let end = start.max(self.searched) + end;
            let line = &self.buffer[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.skipped += end + 1 - start;
            let is_blank = line.is_empty();
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
            start = end + 1;
            self.searched = start;
            if self.skipped > self.max_bytes {
                break Err(TooLong);
            }
            if is_blank && let Some(data) = self.data.take() {
                self.skipped = 0;
                break Ok(Some(String::from_utf8_lossy(&data).into_owned()));
            }
        };
        self.buffer.drain(..start);
        self.searched = self.searched.saturating_sub(start);
        match found {
            Ok(None) if self.buffer.len() + self.skipped > self.max_bytes => Err(TooLong),
            found => found,
        }
    }

    /// Returns the data of a last event that no blank line ends.
    fn end(&mut self) -> Option<String> {
        self.push(b"\n\n");
        self.event().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], chunk: usize, max: usize) -> Result<Vec<String>, TooLong> {
        let (events, end) = in_pieces(bytes, chunk, max);
        end.map(|()| events)
    }

    #[test]
    fn events_are_read_in_any_chunks() {
        let text = ": hi\r\n\r\nevent: x\ndata: {\"a\": 1}\n\nid: 7\r\ndata:two\r\ndata: lines\r\n\r\n\n\ndata: [DONE]";
        for chunk in 1..text.len() {
            let events = all(text.as_bytes(), chunk, 1000).unwrap();
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
            assert_eq!(all(endless.as_bytes(), 7, 100), Err(TooLong), "{}", &endless[..7]);
        }
        let many = "data: x\n\n".repeat(1000);
        assert_eq!(all(many.as_bytes(), 7, 100).unwrap().len(), 1000);
    }
}
