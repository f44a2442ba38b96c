//! Lines of bounded length.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What [`read_line`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line, now in the buffer without its end.
    Whole,
    /// Nothing but white space.
    Blank,
    /// A line over the limit; it was read to its end and thrown away.
    TooLong,
    /// The input has ended.
    End,
}

/// Reads one line of at most `most` bytes into `buffer`. A last line without a line feed counts as one.
pub(crate) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    buffer: &mut Vec<u8>,
    most: usize,
) -> io::Result<Line> {
    buffer.clear();
    let mut too_long = false;
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
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if !too_long {
            if buffer.len() + part.len() > most {
                too_long = true;
                *buffer = Vec::new();
            } else {
                buffer.extend_from_slice(part);
            }
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(match too_long {
        true => Line::TooLong,
        false if buffer.trim_ascii().is_empty() => Line::Blank,
        false => Line::Whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
                (Line::TooLong, ""),
                (Line::Blank, ""),
                (Line::Whole, "two"),
                (Line::Whole, "last"),
                (Line::End, ""),
            ];
            assert_eq!(seen, want.map(|(line, text)| (line, text.to_owned())));
        }
    }
}
