//! Copies the messages of an agent on a pipe to the console's log of messages, while a page
//! listens.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Console, Direction};

/// An incomplete line, of which at most as much is stored as the log stores of one message.
struct Lines {
    console: Option<Console>,
    direction: Direction,
    line: Vec<u8>,
    bytes: usize,
}

impl Lines {
    const MAX_LINE: usize = 64 << 10;

    fn new(console: Option<Console>, direction: Direction) -> Self {
        Self { console, direction, line: Vec::new(), bytes: 0 }
    }

    fn take(&mut self, data: &[u8]) {
        let Some(console) = &self.console else { return };
        if !console.events().has_subscribers() {
            // The rest of a line is useless without its beginning.
            self.line = Vec::new();
            self.bytes = 0;
            return;
        }
        let console = console.clone();
        let direction = self.direction;
        self.split(data, |line, bytes| console.pipe_message(direction, line, bytes));
    }

    /// Finds the lines that end in `data`: the beginning of each, and its size.
    fn split(&mut self, data: &[u8], mut push: impl FnMut(Vec<u8>, usize)) {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.bytes += text.len();
            let room = Self::MAX_LINE.saturating_sub(self.line.len()).min(text.len());
            self.line.extend_from_slice(&text[..room]);
            if text.len() < part.len() {
                push(std::mem::take(&mut self.line), std::mem::take(&mut self.bytes));
            }
        }
    }
}

/// Reads an agent's messages, and logs them.
pub struct LoggedReader<R> {
    reader: R,
    lines: Lines,
}

impl<R> LoggedReader<R> {
    /// Wraps a reader. Without a console, nothing is logged.
    pub fn new(reader: R, console: Option<Console>) -> Self {
        Self { reader, lines: Lines::new(console, Direction::Received) }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for LoggedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.reader).poll_read(cx, buffer);
        if polled.is_ready() {
            self.lines.take(&buffer.filled()[before..]);
        }
        polled
    }
}

/// Writes messages to an agent, and logs them.
pub struct LoggedWriter<W> {
    writer: W,
    lines: Lines,
}

impl<W> LoggedWriter<W> {
    /// Wraps a writer. Without a console, nothing is logged.
    pub fn new(writer: W, console: Option<Console>) -> Self {
        Self { writer, lines: Lines::new(console, Direction::Sent) }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for LoggedWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.writer).poll_write(cx, data);
        if let Poll::Ready(Ok(written)) = polled {
            self.lines.take(&data[..written]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_are_cut() {
        let long = format!("{{\"c\":\"{}\"}}", "x".repeat(3 * Lines::MAX_LINE));
        let all = format!("{{\"a\":1}}\n\n{long}\nrest");
        for size in [1, 7, 4_096, all.len()] {
            let mut lines = Lines::new(None, Direction::Received);
            let mut found = Vec::new();
            for part in all.as_bytes().chunks(size) {
                lines.split(part, |line, bytes| found.push((line.len(), bytes)));
            }
            assert_eq!(found, [(7, 7), (0, 0), (Lines::MAX_LINE, long.len())], "{size}");
            assert_eq!((&lines.line[..], lines.bytes), (&b"rest"[..], 4));
        }
    }
}
