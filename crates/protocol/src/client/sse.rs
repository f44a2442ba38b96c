//! Server-sent events, read piece by piece.

/// Puts events together from the pieces of a stream. Only what the protocol uses is kept: `data`, `id`, `retry`.
pub(super) struct SseParser {
    buffer: Vec<u8>,
    /// How much of the buffer was searched for the end of a line.
    searched: usize,
    data: Vec<u8>,
    has_data: bool,
    started: bool,
    most: usize,
}

/// An event is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl SseParser {
    /// Events of at most `most` bytes of data.
    pub(super) fn new(most: usize) -> Self {
        Self {
            buffer: Vec::new(),
            searched: 0,
            data: Vec::new(),
            has_data: false,
            started: false,
            most,
        }
    }

    /// Takes a piece; gives the data of each event that it completes to `event`.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        mut event: impl FnMut(&[u8]),
    ) -> Result<(), TooLong> {
        self.buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let rest = &self.buffer[start..];
            let searched = self.searched.saturating_sub(start);
            let Some(end) = rest[searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))
            else {
                break;
            };
            let end = searched + end;
            let width = match (rest[end], rest.get(end + 1)) {
                (b'\r', Some(b'\n')) => 2,
                // The other half of a line end may be in the next piece.
                (b'\r', None) => break,
                _ => 1,
            };
            let line = start..start + end;
            start += end + width;
            self.searched = start;
            let line = &self.buffer[line];
            let line = if self.started {
                line
            } else {
                line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
            };
            self.started = true;
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    event(&self.data);
                }
                self.data.clear();
            } else if let Some(value) = field(line, b"data") {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                if self.data.len() > self.most {
                    return Err(TooLong);
                }
            }
        }
        self.buffer.drain(..start);
        self.searched =
            self.buffer.iter().position(|byte| *byte == b'\r').unwrap_or(self.buffer.len());
        // A field's name and the end of a line are not part of the data.
        if self.buffer.len() > self.most + 16 { Err(TooLong) } else { Ok(()) }
    }
}

/// The value of a line `name: value`.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_may_end_in_any_of_three_ways() {
        check("data: a\n\ndata:b\r\n\r\ndata: c\r\r", &["a", "b", "c"]);
        check("\u{feff}data: a\ndata:  b\n\n", &["a\n b"]);
        check(": comment\nevent: message\nid: 7\nretry: 5\ndata\n\n", &[""]);
        check("datax: 1\n\n: nothing\n\n\n\ndata: unfinished\n", &[]);
    }

    #[test]
    fn length_is_bounded() {
        let mut parser = SseParser::new(8);
        assert_eq!(parser.push(b"data: 123456789\n\n", |_| panic!("too long")), Err(TooLong));
        let mut parser = SseParser::new(8);
        assert_eq!(parser.push(&[b'x'; 100], |_| panic!("no event")), Err(TooLong));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "(data: ?[a-z\u{e4}]{0,4}|id: 1|:c|\r|\n|\r\n){0,20}", cut in 1_usize..7) {
            prop_assert_eq!(events(text.as_bytes(), cut), events(text.as_bytes(), usize::MAX));
        }
    }

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        for cut in [1, 2, 3, usize::MAX] {
            assert_eq!(events(text.as_bytes(), cut), want, "{cut}");
        }
    }

    /// A stream that ends in a carriage return has said all: what the tests mean by it is the end of a line.
    fn events(text: &[u8], cut: usize) -> Vec<String> {
        let mut parser = SseParser::new(1_000);
        let mut events = Vec::new();
        for piece in text.chunks(cut.min(text.len().max(1))).chain([&b":"[..]]) {
            parser
                .push(piece, |event| events.push(String::from_utf8_lossy(event).into_owned()))
                .unwrap();
        }
        events
    }
}
