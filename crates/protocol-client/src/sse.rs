//! A parser of server-sent events that arrive in pieces.

use std::time::Duration;

/// Parses events from the pieces of a stream.
pub(super) struct SseParser {
    buffer: Vec<u8>,
    /// Number of bytes already searched for the end of a line.
    searched: usize,
    started: bool,
    max: usize,
    next: PartialEvent,
    /// The last event id, for resuming after a break.
    pub(super) last_id: Option<String>,
    /// The server's reconnection time.
    pub(super) retry: Option<Duration>,
}

/// An event.
#[derive(Debug)]
pub(super) struct Event<'a> {
    /// `message` if the stream names none.
    pub(super) name: &'a str,
    pub(super) data: &'a [u8],
}

/// The fields of an incomplete event.
#[derive(Default)]
struct PartialEvent {
    name: String,
    /// Used when the event is complete: an incomplete one must be sent again.
    id: Option<String>,
    data: Vec<u8>,
    has_data: bool,
}

/// An event exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl SseParser {
    /// Creates a parser for events with at most `max` bytes of data.
    pub(super) fn new(max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            searched: 0,
            started: false,
            max,
            next: PartialEvent::default(),
            last_id: None,
            retry: None,
        }
    }

    /// Drops an incomplete event: the stream has broken and starts again after the last id.
    pub(super) fn restart(&mut self) {
        let fresh = Self::new(self.max);
        *self = Self { last_id: self.last_id.take(), retry: self.retry, ..fresh };
    }

    /// Returns the bytes of the event that is not complete.
    pub(super) fn held(&self) -> usize {
        self.buffer.len() + self.next.data.len()
    }

    /// Parses a piece; passes each completed event to `event`.
    pub(super) fn push(
        &mut self,
        piece: &[u8],
        mut event: impl FnMut(Event<'_>),
    ) -> Result<(), TooLong> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let rest = &buffer[start..];
            let searched = self.searched.saturating_sub(start);
            let Some(end) = rest[searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))
            else {
                break;
            };
            let end = searched + end;
            let width = match (rest[end], rest.get(end + 1)) {
                (b'\r', Some(b'\n')) => 2,
                // The second half of the line end may be in the next piece.
                (b'\r', None) => break,
                _ => 1,
            };
            // For lines in one piece and in several.
            if end > self.max_line() {
                return Err(TooLong);
            }
            let line = &rest[..end];
            start += end + width;
            self.searched = start;
            let line = if self.started {
                line
            } else {
                line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line)
            };
            self.started = true;
            self.line(line, &mut event)?;
        }
        buffer.drain(..start);
        // No line ends in what is left, unless a `\r` at its end is half of one. Searching all of
        // it again with each piece would take time that grows with the square of the line.
        self.searched = buffer.len() - usize::from(buffer.ends_with(b"\r"));
        self.buffer = buffer;
        if self.searched > self.max_line() { Err(TooLong) } else { Ok(()) }
    }

    /// Returns the largest length of a line, in bytes. The name of the field does not count as
    /// data.
    fn max_line(&self) -> usize {
        self.max + 16
    }

    fn line(&mut self, line: &[u8], event: &mut impl FnMut(Event<'_>)) -> Result<(), TooLong> {
        let next = &mut self.next;
        if line.is_empty() {
            if let Some(id) = next.id.take() {
                // An empty id resets the last one (HTML, "Processing model" of `EventSource`).
                self.last_id = Some(id).filter(|id| !id.is_empty());
            }
            if next.has_data {
                let name = if next.name.is_empty() { "message" } else { &next.name };
                event(Event { name, data: &next.data });
            }
            next.name.clear();
            next.data.clear();
            next.has_data = false;
        } else if let Some(value) = field(line, b"data") {
            if std::mem::replace(&mut next.has_data, true) {
                next.data.push(b'\n');
            }
            next.data.extend_from_slice(value);
            if next.data.len() > self.max {
                return Err(TooLong);
            }
        } else if let Some(value) = field(line, b"event") {
            next.name = String::from_utf8_lossy(value).into_owned();
        } else if let Some(value) = field(line, b"id") {
            // An id with a NUL is ignored (HTML, "Interpreting an event stream").
            if !value.contains(&0) {
                next.id = Some(String::from_utf8_lossy(value).into_owned());
            }
        } else if let Some(value) = field(line, b"retry") {
            let millis = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            self.retry = millis.map(Duration::from_millis).or(self.retry);
        }
        Ok(())
    }
}

/// Returns the value of a line `name: value`.
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
    fn names_ids_and_pauses_are_kept() {
        let mut parser = SseParser::new(100);
        let mut names = Vec::new();
        let text = b"id: 1\nretry: 250\nevent: endpoint\ndata: /m\n\nretry: x\nid\ndata: b\n\n";
        parser.push(text, |event| names.push(event.name.to_owned())).unwrap();
        assert_eq!(names, ["endpoint", "message"]);
        assert_eq!((parser.last_id, parser.retry), (None, Some(Duration::from_millis(250))));
    }

    #[test]
    fn an_empty_id_resets_the_last_one() {
        let mut parser = SseParser::new(100);
        let mut last_ids = Vec::new();
        for event in
            ["id: 1\ndata: a\n\n", "data: b\n\n", "id:\ndata: c\n\n", "id: 2\n\n", "id\n\n"]
        {
            parser.push(event.as_bytes(), |_| {}).unwrap();
            last_ids.push(parser.last_id.clone());
        }
        assert_eq!(
            last_ids.iter().map(Option::as_deref).collect::<Vec<_>>(),
            [Some("1"), Some("1"), None, Some("2"), None]
        );
    }

    #[test]
    fn an_event_that_is_cut_has_no_id_yet() {
        let mut parser = SseParser::new(100);
        parser.push(b"id: 1\ndata: a\n\nid: 2\ndata: b", |_| {}).unwrap();
        assert_eq!(parser.last_id.as_deref(), Some("1"));
    }

    #[test]
    fn length_is_bounded() {
        let mut parser = SseParser::new(8);
        assert_eq!(parser.push(b"data: 123456789\n\n", |_| panic!("too long")), Err(TooLong));
        let mut parser = SseParser::new(8);
        assert_eq!(parser.push(&[b'x'; 100], |_| panic!("no event")), Err(TooLong));
    }

    /// Searched anew with each piece, this line would take a minute.
    #[test]
    fn a_long_line_in_small_pieces_is_searched_once() {
        let mut parser = SseParser::new(16 << 20);
        let started = std::time::Instant::now();
        for _ in 0..8 << 10 {
            parser.push(&[b'x'; 1 << 10], |_| panic!("no event")).unwrap();
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
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

    /// A carriage return at the end of the test's text ends a line.
    fn events(text: &[u8], cut: usize) -> Vec<String> {
        let mut parser = SseParser::new(1_000);
        let mut events = Vec::new();
        for piece in text.chunks(cut.min(text.len().max(1))).chain([&b":"[..]]) {
            parser
                .push(piece, |event| events.push(String::from_utf8_lossy(event.data).into_owned()))
                .unwrap();
        }
        events
    }
}
