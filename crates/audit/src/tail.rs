//! The end of a file: its last whole line, and bytes after it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use crate::chain::{ChainEnd, LineHash, LineHead, MAX_EVENT_BYTES};

/// Bytes after the last whole line that are searched for it. It is more than one broken line.
const MAX_TORN_BYTES: u64 = 16 * MAX_EVENT_BYTES as u64;

/// The end of a file of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The last whole line.
    pub(crate) end: Option<ChainEnd>,
    /// Bytes after it, of a line that was not written completely.
    pub(crate) torn: Vec<u8>,
    /// Whether the last byte of the file is the end of a line. True for an empty file.
    pub(crate) is_ended: bool,
}

impl Tail {
    /// Reads the end of a file. Returns `None` if the file does not look like a log.
    pub(crate) fn read(file: &mut File) -> io::Result<Option<Self>> {
        const BLOCK: u64 = 64 << 10;
        let len = file.seek(SeekFrom::End(0))?;
        let mut bytes = Vec::new();
        let mut start = len;
        loop {
            let block = start.min(BLOCK);
            start -= block;
            file.seek(SeekFrom::Start(start))?;
            let mut more = vec![0; block as usize];
            file.read_exact(&mut more)?;
            more.extend_from_slice(&bytes);
            bytes = more;
            match Self::of(&bytes, start == 0) {
                Some(tail) => return Ok(Some(tail)),
                None if start == 0 || len - start > MAX_TORN_BYTES => return Ok(None),
                None => {}
            }
        }
    }

    /// Finds the last whole line in the last bytes of a file, or in all of them.
    fn of(bytes: &[u8], are_all: bool) -> Option<Self> {
        let is_ended = bytes.last().is_none_or(|byte| *byte == b'\n');
        let mut end = bytes.len();
        loop {
            let text = bytes[..end].strip_suffix(b"\n").unwrap_or(&bytes[..end]);
            let start = match text.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => at + 1,
                None if are_all => 0,
                None => return None,
            };
            let line = &text[start..];
            if let Some(head) = LineHead::of(line) {
                let end_of_chain = ChainEnd { seq: head.seq, hash: LineHash::of(line) };
                let torn = bytes[end..].to_vec();
                return Some(Self { end: Some(end_of_chain), torn, is_ended });
            }
            if start == 0 {
                let is_log = bytes.is_empty() || is_part_of_first_line(bytes);
                return is_log.then(|| Self { end: None, torn: bytes.to_vec(), is_ended });
            }
            end = start;
        }
    }
}

/// Returns whether a file was cut in its first line. Nothing else is continued as a log.
fn is_part_of_first_line(bytes: &[u8]) -> bool {
    const HEAD: &[u8] = br#"{"seq":"#;
    let len = bytes.len().min(HEAD.len());
    bytes[..len] == HEAD[..len]
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn tail(bytes: &[u8]) -> Option<Tail> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Tail::read(&mut file).unwrap()
    }

    fn log(lines: usize, event: &str) -> (Vec<u8>, ChainEnd) {
        let mut bytes = Vec::new();
        let mut end = ChainEnd::START;
        for _ in 0..lines {
            end.add("T", event.as_bytes(), &mut bytes);
        }
        (bytes, end)
    }

    #[test]
    fn the_last_whole_line_is_found() {
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(150 << 10));
        for event in ["{}", r#"{"a":1}"#, &long] {
            let (bytes, end) = log(3, event);
            let want = Tail { end: Some(end), torn: Vec::new(), is_ended: true };
            assert_eq!(tail(&bytes), Some(want.clone()));
            let line = &bytes[..bytes.len() - 1];
            assert_eq!(tail(line), Some(Tail { is_ended: false, ..want.clone() }));
            for torn in ["{", "\0\0", "x\n", "x\ny", "\n"] {
                let is_ended = torn.ends_with('\n');
                let torn = torn.as_bytes().to_vec();
                let cut = [&bytes[..], &torn].concat();
                assert_eq!(tail(&cut), Some(Tail { torn, is_ended, ..want.clone() }));
            }
        }
    }

    #[test]
    fn every_cut_leaves_the_lines_before_it() {
        let (bytes, _) = log(2, r#"{"a":"}\"{"}"#);
        let (first, end) = log(1, r#"{"a":"}\"{"}"#);
        for cut in first.len()..bytes.len() - 1 {
            let tail = tail(&bytes[..cut]).unwrap();
            assert_eq!(tail.end, Some(end), "{cut}");
            assert_eq!(tail.torn, bytes[first.len()..cut]);
        }
        for cut in 0..first.len() - 1 {
            let tail = tail(&bytes[..cut]).unwrap();
            assert_eq!((tail.end, &*tail.torn), (None, &bytes[..cut]));
        }
    }

    #[test]
    fn other_files_are_not_continued() {
        for other in ["root:x:0:0", "\n", "{}\n", "[]", r#"{"level":"info"}"#] {
            assert_eq!(tail(other.as_bytes()), None, "{other}");
        }
        let (bytes, _) = log(1, "{}");
        let garbage = [&bytes[..], &vec![b'x'; 6 << 20]].concat();
        assert_eq!(tail(&garbage), None);
    }
}
