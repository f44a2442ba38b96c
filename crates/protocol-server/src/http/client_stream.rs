//! The byte stream of a connection: writes to slow clients fail, and the end of the input is
//! detected.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Interval, MissedTickBehavior, Sleep},
};

use super::connection::Connection;

/// Minimum reading speed of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Writes fail if the client reads nothing for this time.
    pub(super) timeout: Duration,
    /// Writes also fail if the client reads fewer bytes a second over this time.
    pub(super) bytes_per_second: u64,
}

/// The stream of a client. A client that reads nothing, or almost nothing, must not hold its
/// answers for ever.
pub(super) struct ClientStream<S> {
    stream: S,
    pace: Pace,
    /// Present while written data waits for the client.
    backlog: Option<Backlog>,
    /// The connection, for HTTP/1.1. It notices the end of the input at once; HTTP notices it only
    /// when no answer is pending.
    connection: Option<Arc<Connection>>,
    has_ended: bool,
    /// After the end of the input: times of the checks whether the client has gone.
    checks: Option<Interval>,
    linger: Option<Linger>,
}

/// The bytes of a connection, encrypted or not, and the socket that carries them.
pub trait ClientSocket: AsyncRead + AsyncWrite + Send + Unpin {
    /// Returns the socket.
    fn tcp(&self) -> &TcpStream;
}

impl ClientSocket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

/// A connection that can detect whether the peer is still connected.
pub(super) trait ProbeClient {
    /// Starts periodic probes of the peer.
    fn start_probing(&self);

    /// Returns the error of a broken connection.
    fn failure(&self) -> Option<io::Error>;
}

/// Interval of TCP probes of a client that has shut down its writing side. A client that still
/// reads confirms. If it has gone, its system resets the connection once it has forgotten it, on
/// Linux after 60 s.
const PROBE_AFTER: Duration = Duration::from_secs(20);

/// Interval of checks for such a reset.
const CHECK: Duration = Duration::from_secs(1);

impl ProbeClient for Box<dyn ClientSocket> {
    fn start_probing(&self) {
        let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_AFTER);
        if let Err(error) = SockRef::from(self.tcp()).set_tcp_keepalive(&probes) {
            tracing::debug!(%error, "cannot ask whether a client is gone; its calls run to their end");
        }
    }

    fn failure(&self) -> Option<io::Error> {
        self.tcp().take_error().ok().flatten()
    }
}

/// A period in which data waited for the client.
struct Backlog {
    since: Instant,
    written: u64,
    last_progress: Instant,
    check: Pin<Box<Sleep>>,
}

/// Limits of time and bytes for discarding the rest of an unread request.
struct Linger {
    end: Pin<Box<Sleep>>,
    bytes_left: usize,
}

/// Closing a socket with unread input resets the connection, and the client may lose the answer.
/// Therefore, after an answer to a request whose body was not read, that much of it is discarded,
/// for this time at most. It is twice the default message size of servers, so that a client whose
/// message is somewhat too long still reads the status 413.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 32 << 20;

impl<S> ClientStream<S> {
    pub(super) fn new(stream: S, pace: Pace) -> Self {
        Self {
            stream,
            pace,
            backlog: None,
            connection: None,
            has_ended: false,
            checks: None,
            linger: None,
        }
    }

    /// Sends all answers over HTTP/1.1 to a client that has shut down its writing side, however
    /// long they take. A client that has gone is detected.
    pub(super) fn answering_to_the_end(self, connection: Arc<Connection>) -> Self {
        Self { connection: Some(connection), ..self }
    }

    fn wrote(
        &mut self,
        polled: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match polled {
            Poll::Ready(Ok(bytes)) => {
                if let Some(backlog) = &mut self.backlog {
                    backlog.written += bytes as u64;
                    backlog.last_progress = Instant::now();
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                ready!(self.is_too_slow(cx));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client reads too slowly",
                )))
            }
        }
    }

    /// Completes when the client has read too slowly.
    fn is_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Pace { timeout, bytes_per_second } = self.pace;
        let now = Instant::now();
        let backlog = self.backlog.get_or_insert_with(|| Backlog {
            since: now,
            written: 0,
            last_progress: now,
            check: Box::pin(tokio::time::sleep(timeout)),
        });
        loop {
            ready!(backlog.check.as_mut().poll(cx));
            let now = Instant::now();
            let idle = now.duration_since(backlog.last_progress);
            if idle >= timeout {
                return Poll::Ready(());
            }
            let time = now.duration_since(backlog.since);
            if time >= timeout {
                let wanted = time.as_secs_f64() * bytes_per_second as f64;
                if (backlog.written as f64) < wanted {
                    return Poll::Ready(());
                }
                backlog.since = now;
                backlog.written = 0;
            }
            let next = (backlog.last_progress + timeout).min(backlog.since + timeout);
            backlog.check.as_mut().reset(next);
        }
    }
}

impl<S: ProbeClient> ClientStream<S> {
    /// After the end of the input: completes when the connection can end because no answer is
    /// pending, or with an error because the client has gone.
    fn poll_end(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        connection.half_closed.cancel();
        if connection.poll_silent(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let stream = &self.stream;
        let checks = self.checks.get_or_insert_with(|| {
            stream.start_probing();
            let mut checks = tokio::time::interval(CHECK);
            checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            checks
        });
        loop {
            ready!(checks.poll_tick(cx));
            if let Some(failure) = stream.failure() {
                return Poll::Ready(Err(failure));
            }
        }
    }
}

impl<S: AsyncRead + ProbeClient + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let had_room = buf.remaining() > 0;
        if !self.has_ended {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            self.has_ended = had_room && buf.filled().len() == before;
        }
        match self.connection.clone() {
            // HTTP would take the end of the input for the end of the connection.
            Some(connection) if self.has_ended => self.poll_end(&connection, cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A flush means that everything has been written.
        self.backlog = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        if self.linger.is_none() {
            if !self.connection.as_ref().is_some_and(|connection| connection.body_is_open()) {
                return Poll::Ready(Ok(()));
            }
            let end = Box::pin(tokio::time::sleep(LINGER));
            self.linger = Some(Linger { end, bytes_left: LINGER_BYTES });
        }
        let Self { stream, linger, .. } = &mut *self;
        let Some(linger) = linger else { return Poll::Ready(Ok(())) };
        let mut thrown_away = [0; 8 << 10];
        loop {
            if linger.bytes_left == 0 || linger.end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buf = ReadBuf::new(&mut thrown_away);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {
                    linger.bytes_left = linger.bytes_left.saturating_sub(buf.filled().len());
                }
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for_and_a_dead_one_is_not() {
        let (mut theirs, mut ours) = pair(0);
        let reads = tokio::spawn(async move {
            let mut buffer = [0; 4];
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(8)).await;
                theirs.read_exact(&mut buffer).await.unwrap();
            }
            theirs
        });
        ours.write_all(&[0; 12]).await.unwrap();
        let _theirs = reads.await.unwrap();
        assert_eq!(ours.write_all(&[0; 12]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_next_to_nothing_is_not_waited_for() {
        for (bytes_per_second, is_fast_enough) in [(4, true), (5, false)] {
            let (mut theirs, mut ours) = pair(bytes_per_second);
            let reads = tokio::spawn(async move {
                let mut buffer = [0; 4];
                while theirs.read_exact(&mut buffer).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(999)).await;
                }
            });
            // More than a minute of data, with pauses in which nothing waits.
            for _ in 0..2 {
                let written = ours.write_all(&[0; 200]).await;
                assert_eq!(written.is_ok(), is_fast_enough, "{bytes_per_second}");
                ours.flush().await.unwrap();
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            reads.abort();
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_no_more_is_probed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let stream: Box<dyn ClientSocket> = Box::new(stream);
        stream.start_probing();
        let socket = SockRef::from(stream.tcp());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
        assert!(stream.failure().is_none());
    }

    fn pair(
        bytes_per_second: u64,
    ) -> (tokio::io::DuplexStream, ClientStream<tokio::io::DuplexStream>) {
        let (theirs, ours) = tokio::io::duplex(4);
        let pace = Pace { timeout: Duration::from_secs(10), bytes_per_second };
        (theirs, ClientStream::new(ours, pace))
    }
}
