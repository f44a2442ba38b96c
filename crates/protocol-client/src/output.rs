//! The writing half of a pipe: the caller writes its message itself if nothing waits before it.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use tokio::{
    io::AsyncWrite,
    sync::{AcquireError, Notify, Semaphore, TryAcquireError},
};

/// Maximum number of messages that wait while the other side does not read.
const MAX_WAITING: usize = 64;

/// The writing half.
///
/// A task of its own for each message would cost two wake-ups of a thread, so [`Self::drain`] only
/// writes what the pipe does not take at once.
pub(super) struct Output {
    state: Mutex<State>,
    /// One for each message that may wait.
    places: Semaphore,
    /// Notified when a message waits.
    waits: Notify,
}

struct State {
    /// [`None`] once the half is closed.
    writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    waiting: VecDeque<Line>,
    /// The last message was written, but not flushed.
    is_unflushed: bool,
}

/// A message with its line end.
struct Line {
    bytes: Vec<u8>,
    written: usize,
    has_place: bool,
}

/// The reason why a message was not accepted.
pub(super) enum Refused {
    /// Too many messages wait. Contains the message.
    Full(Vec<u8>),
    /// The half is closed.
    Closed,
}

impl Output {
    pub(super) fn new(writer: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let writer: Box<dyn AsyncWrite + Send + Unpin> = Box::new(writer);
        let state = State { writer: Some(writer), waiting: VecDeque::new(), is_unflushed: false };
        Self { state: Mutex::new(state), places: Semaphore::new(MAX_WAITING), waits: Notify::new() }
    }

    /// Writes a message, or waits for a place among the messages that wait. Messages are written in
    /// the order in which they were accepted. If this future is dropped, the message is not sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the half is closed.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), AcquireError> {
        let Some(line) = self.write_now(message) else { return Ok(()) };
        self.places.acquire().await?.forget();
        self.enqueue(Line { has_place: true, ..line });
        Ok(())
    }

    /// Writes a message, or lets it wait.
    ///
    /// # Errors
    ///
    /// Returns an error if the half is closed, or too many messages wait.
    pub(super) fn try_send(&self, message: Vec<u8>) -> Result<(), Refused> {
        let Some(mut line) = self.write_now(message) else { return Ok(()) };
        match self.places.try_acquire() {
            Ok(place) => place.forget(),
            Err(TryAcquireError::Closed) => return Err(Refused::Closed),
            Err(TryAcquireError::NoPermits) => {
                // `send` adds the line end again.
                line.bytes.pop();
                return Err(Refused::Full(line.bytes));
            }
        }
        self.enqueue(Line { has_place: true, ..line });
        Ok(())
    }

    /// Writes what waits, until writing fails. Dropping the future loses nothing.
    pub(super) async fn drain(&self) -> io::Error {
        loop {
            if let Err(error) = poll_fn(|cx| self.lock().poll_write(cx, &self.places)).await {
                return error;
            }
            self.waits.notified().await;
        }
    }

    /// Closes the pipe. Messages that wait are lost.
    pub(super) async fn close(&self) {
        self.places.close();
        poll_fn(|cx| {
            let mut state = self.lock();
            state.waiting.clear();
            if let Some(writer) = &mut state.writer {
                // A pipe that cannot be shut down is closed all the same.
                _ = ready!(Pin::new(writer).poll_shutdown(cx));
            }
            state.writer = None;
            Poll::Ready(())
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a message if nothing waits before it. Returns it if it must wait. What the pipe does
    /// not take at once of a message that was begun waits without a place.
    fn write_now(&self, mut message: Vec<u8>) -> Option<Line> {
        message.push(b'\n');
        let line = Line { bytes: message, written: 0, has_place: false };
        let mut state = self.lock();
        if state.writer.is_none() || !state.waiting.is_empty() || state.is_unflushed {
            return Some(line);
        }
        state.waiting.push_back(line);
        // `drain` polls again with its own waker, and reports an error.
        let mut cx = Context::from_waker(Waker::noop());
        if !matches!(state.poll_write(&mut cx, &self.places), Poll::Ready(Ok(()))) {
            drop(state);
            self.waits.notify_one();
        }
        None
    }

    fn enqueue(&self, line: Line) {
        self.lock().waiting.push_back(line);
        self.waits.notify_one();
    }
}

impl State {
    /// Writes and flushes everything that waits.
    fn poll_write(&mut self, cx: &mut Context<'_>, places: &Semaphore) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        while let Some(line) = self.waiting.front_mut() {
            while let rest @ [_, ..] = &line.bytes[line.written..] {
                match ready!(Pin::new(&mut *writer).poll_write(cx, rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => line.written += written,
                }
            }
            if line.has_place {
                places.add_permits(1);
            }
            self.waiting.pop_front();
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            ready!(Pin::new(writer).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn messages_that_fit_are_written_without_a_task() {
        let (near, mut far) = tokio::io::duplex(64);
        let output = Output::new(near);
        output.send(b"one".to_vec()).await.unwrap();
        output.send(b"two".to_vec()).await.unwrap();
        let mut read = [0; 8];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one\ntwo\n");
    }

    #[tokio::test(start_paused = true)]
    async fn messages_stay_whole_and_in_order_if_the_other_side_reads_slowly() {
        let (near, mut far) = tokio::io::duplex(7);
        let output = Arc::new(Output::new(near));
        let draining = output.clone();
        let drained = tokio::spawn(async move { draining.drain().await });
        let sending = output.clone();
        let sent = tokio::spawn(async move {
            for number in 0..500 {
                sending.send(format!("message {number}").into_bytes()).await.unwrap();
            }
        });
        let mut expected = String::new();
        for number in 0..500 {
            expected += &format!("message {number}\n");
        }
        let mut read = vec![0; expected.len()];
        tokio::time::timeout(Duration::from_secs(5), far.read_exact(&mut read))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), expected);
        sent.await.unwrap();
        drained.abort();
    }

    #[tokio::test]
    async fn messages_beyond_the_limit_are_refused_and_closed_pipes_take_none() {
        let (near, far) = tokio::io::duplex(1);
        let output = Output::new(near);
        // The first one is begun and has no place.
        for _ in 0..=MAX_WAITING {
            assert!(output.try_send(b"message".to_vec()).is_ok());
        }
        match output.try_send(b"message".to_vec()) {
            Err(Refused::Full(message)) => assert_eq!(message, b"message"),
            _ => panic!("the message was not refused"),
        }
        drop(far);
        assert_eq!(output.drain().await.kind(), io::ErrorKind::BrokenPipe);
        output.close().await;
        assert!(matches!(output.try_send(Vec::new()), Err(Refused::Closed)));
        assert!(output.send(Vec::new()).await.is_err());
    }
}
