//! The event stream of a batch.

use reqwest::Response;

use super::ClientError;

/// Events of a response, one after the other.
pub(super) struct Events {
    response: Response,
    buffer: Vec<u8>,
    /// Number of bytes at the start of the buffer that were searched and contain no end of an
    /// event.
    scanned: usize,
    /// Longest event, in bytes.
    limit: usize,
}

impl Events {
    pub(super) fn new(response: Response, limit: usize) -> Self {
        Self { response, buffer: Vec::new(), scanned: 0, limit }
    }

    /// Returns name and data of the next event; `None` at the end. An event that is incomplete when
    /// the stream ends is left out.
    pub(super) async fn next(&mut self) -> Result<Option<(String, String)>, ClientError> {
        loop {
            while let Some(block) = take_block(&mut self.buffer, &mut self.scanned) {
                if let Some(event) = parse(&block) {
                    return Ok(Some(event));
                }
            }
            if self.buffer.len() > self.limit {
                return Err(ClientError::TooLong(self.limit));
            }
            match self.response.chunk().await.map_err(|_| ClientError::CutStream)? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

/// Removes and returns the lines up to the next empty line.
fn take_block(buffer: &mut Vec<u8>, scanned: &mut usize) -> Option<Vec<u8>> {
    let found = buffer[*scanned..].windows(2).position(|pair| pair == b"\n\n");
    let Some(end) = found else {
        *scanned = buffer.len().saturating_sub(1);
        return None;
    };
    let rest = buffer.split_off(std::mem::take(scanned) + end + 2);
    Some(std::mem::replace(buffer, rest))
}

fn parse(block: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(block);
    let mut name = "message";
    let mut data = Vec::new();
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value,
            "data" => data.push(value),
            _ => {}
        }
    }
    // Comments keep the connection open; they are not events.
    (!data.is_empty()).then(|| (name.to_owned(), data.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_from_the_bytes() {
        let mut buffer =
            b": hello\n\nevent: a\ndata: {\"x\":\ndata: 1}\n\ndata:2\n\nevent: cut".to_vec();
        let mut seen = Vec::new();
        let mut scanned = 0;
        while let Some(block) = take_block(&mut buffer, &mut scanned) {
            seen.extend(parse(&block));
        }
        let want = [("a", "{\"x\":\n1}"), ("message", "2")];
        assert_eq!(seen, want.map(|(name, data)| (name.to_owned(), data.to_owned())));
        assert_eq!(buffer, b"event: cut");
    }
}
