//! Lines of bounded length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The outcome of [`read_line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, now in the buffer without its end.
    Whole,
    /// A line with only white space.
    Blank,
    /// A line over the limit. It was read to its end and discarded, except for its first and last
    /// bytes, which are in the buffer with a NUL between them.
    TooLong,
    /// The input has ended.
    End,
}

/// Reads one line of at most `max` bytes into `buffer`. A last line without a line feed counts as
/// one.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    buffer: &mut Vec<u8>,
    max: usize,
) -> io::Result<Line> {
    read_line_or(reader, buffer, max, usize::MAX, |_| {}).await
}

/// Reads as [`read_line`] does, but reports a line that is too long at once: `too_long` gets its
/// first bytes. After `max_skipped` more bytes it returns an error, because such a line may have
/// no end.
///
/// # Errors
/// Returns an error if the input cannot be read, or a line has no end.
pub async fn read_line_or(
    reader: &mut (impl AsyncBufRead + Unpin),
    buffer: &mut Vec<u8>,
    max: usize,
    max_skipped: usize,
    mut too_long: impl FnMut(&[u8]),
) -> io::Result<Line> {
    buffer.clear();
    let mut skipped = 0_usize;
    let mut tail = None::<Vec<u8>>;
    let mut seen_any = false;
    loop {
        let available = reader.fill_buf().await?;
        if available.is_empty() {
            if !seen_any {
                return Ok(Line::End);
            }
            break;
        }
        seen_any = true;
        let end = memchr::memchr(b'\n', available);
        let part = &available[..end.unwrap_or(available.len())];
        match &mut tail {
            Some(tail) => {
                skipped += part.len();
                if skipped > max_skipped {
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a line without end"));
                }
                keep_end(tail, part);
            }
            None if buffer.len() + part.len() > max => {
                let mut end = Vec::new();
                keep_end(&mut end, buffer);
                keep_end(&mut end, part);
                let missing = ENDS.saturating_sub(buffer.len()).min(part.len());
                buffer.extend_from_slice(&part[..missing]);
                buffer.truncate(ENDS);
                buffer.shrink_to_fit();
                too_long(buffer);
                tail = Some(end);
            }
            None => buffer.extend_from_slice(part),
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(match tail {
        Some(tail) => {
            buffer.push(0);
            buffer.extend_from_slice(&tail);
            Line::TooLong
        }
        None if buffer.trim_ascii().is_empty() => Line::Blank,
        None => Line::Whole,
    })
}

/// Number of bytes that are kept from the start and from the end of a line that is too long.
const ENDS: usize = 256;

fn keep_end(tail: &mut Vec<u8>, part: &[u8]) {
    tail.extend_from_slice(&part[part.len().saturating_sub(ENDS)..]);
    let surplus = tail.len().saturating_sub(ENDS);
    tail.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_without_end_is_reported_and_abandoned() {
        let mut reader = tokio::io::BufReader::with_capacity(4, tokio::io::repeat(b'x'));
        let mut told = Vec::new();
        let mut buffer = Vec::new();
        let read = read_line_or(&mut reader, &mut buffer, 8, 100, |start| told.push(start.len()));
        assert_eq!(read.await.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(told, [12]);
    }

    #[tokio::test]
    async fn long_lines_are_skipped_and_the_rest_is_read() {
        let input: &[u8] = b"one\n\r\n123456789\n\ntwo\r\nlast";
        for capacity in [1, 3, 64] {
            let mut reader = tokio::io::BufReader::with_capacity(capacity, input);
            let mut buffer = Vec::new();
            let mut seen = Vec::new();
            loop {
                let line = read_line(&mut reader, &mut buffer, 8).await.unwrap();
                seen.push((line, String::from_utf8(buffer.trim_ascii().to_vec()).unwrap()));
                if line == Line::End {
                    break;
                }
            }
            let want = [
                (Line::Whole, "one"),
                (Line::Blank, ""),
                (Line::TooLong, "123456789\x00123456789"),
                (Line::Blank, ""),
                (Line::Whole, "two"),
                (Line::Whole, "last"),
                (Line::End, ""),
            ];
            assert_eq!(seen, want.map(|(line, text)| (line, text.to_owned())));
        }
    }
}
