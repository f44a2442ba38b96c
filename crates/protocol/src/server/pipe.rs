//! A server on a pair of pipes: one message a line.

use std::{io, time::Duration};

use bytes::Buf as _;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};
#[cfg(all(feature = "stdio", target_os = "linux"))]
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
#[cfg(feature = "stdio")]
use tokio_util::task::AbortOnDropHandle;

use super::{Server, channel::Channel, outgoing::Outgoing};
use crate::{
    RpcError,
    line::{Line, read_line},
};

/// Serves one client on standard input and output, until the input ends or `stop` is cancelled.
///
/// # Errors
/// As [`serve_pipe`].
#[cfg(feature = "stdio")]
pub async fn serve_stdio(server: &Server, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = standard_pipes();
    let server = server.clone();
    // On a task of the runtime's own: the thread that only waits for it would have to be woken for every message.
    let served = tokio::spawn(async move { serve_pipe(&server, input, output, stop).await });
    AbortOnDropHandle::new(served).await.map_err(io::Error::other)?
}

/// Standard input and output without a thread in between, where they are pipes: a message through such a thread takes
/// two wake-ups, and that is most of what a small call costs. They are opened anew, so that whoever shares the old ones
/// with us does not find them non-blocking.
#[cfg(all(feature = "stdio", target_os = "linux"))]
fn standard_pipes() -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
    use tokio::net::unix::pipe::OpenOptions;
    let input = match OpenOptions::new().open_receiver("/proc/self/fd/0") {
        Ok(input) => Either::Left(input),
        Err(_) => Either::Right(tokio::io::stdin()),
    };
    let output = match OpenOptions::new().open_sender("/proc/self/fd/1") {
        Ok(output) => Either::Left(output),
        Err(_) => Either::Right(tokio::io::stdout()),
    };
    (input, output)
}

#[cfg(all(feature = "stdio", not(target_os = "linux")))]
fn standard_pipes() -> (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Serves one client on any pair of pipes, until the input ends or `stop` is cancelled.
///
/// Requests run side by side. After the end, those in flight may finish within [`Limits::shutdown_grace`].
///
/// [`Limits::shutdown_grace`]: super::Limits::shutdown_grace
///
/// # Errors
/// When reading fails. That the client no longer reads is an end like any other.
pub async fn serve_pipe<R, W>(
    server: &Server,
    reader: R,
    writer: W,
    stop: CancellationToken,
) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let limits = server.limits();
    let (pipe, queue) = Channel::new(server.clone(), None);
    // Whoever drops this future half-way ends the conversation all the same.
    let _end = pipe.conversation.ending.clone().drop_guard();
    let gone = CancellationToken::new();
    let write = tokio::spawn(write_lines(writer, queue, gone.clone()));

    let ended = tokio::select! {
        ended = read(&pipe, reader) => ended,
        () = gone.cancelled() => Ok(()),
        () = stop.cancelled() => Ok(()),
    };

    let Channel { conversation, outbound, calls, .. } = pipe;
    conversation.ending.cancel();
    drop(outbound);
    calls.close();
    if gone.is_cancelled()
        || tokio::time::timeout(limits.shutdown_grace, calls.wait()).await.is_err()
    {
        conversation.end();
        if tokio::time::timeout(LAST_WORDS, calls.wait()).await.is_err() {
            // Answers wait for a client that reads no more. Without the writer they have nowhere to go.
            write.abort();
            calls.wait().await;
        }
    }
    // The last sender is gone with the last call, so the writer ends when it has written all, or soon for a client
    // that reads no more.
    let abort = write.abort_handle();
    if tokio::time::timeout(limits.shutdown_grace, write).await.is_err() {
        abort.abort();
    }
    ended
}

/// How long cancelled calls may take to leave.
const LAST_WORDS: Duration = Duration::from_secs(1);

async fn read(pipe: &Channel, reader: impl AsyncRead + Unpin) -> io::Result<()> {
    let most = pipe.server.limits().max_message_bytes;
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let mut buffer = Vec::new();
    loop {
        match read_line(&mut reader, &mut buffer, most).await? {
            Line::End => return Ok(()),
            Line::Blank => {}
            Line::TooLong => {
                let error =
                    RpcError::limit_exceeded(format!("message is longer than {most} bytes"));
                pipe.send(Outgoing::error(None, &error)).await;
            }
            Line::Whole => pipe.take(&buffer).await,
        }
        // One large message must not keep its memory for the life of the pipe.
        if buffer.capacity() > 1 << 20 {
            buffer = Vec::new();
        }
    }
}

/// Writes message after message, as many at a time as wait; cancels `gone` when the client no longer reads.
async fn write_lines(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Outgoing>,
    gone: CancellationToken,
) {
    const AT_ONCE: usize = 64 << 10;
    let mut buffer = Vec::new();
    while let Some(message) = queue.recv().await {
        buffer.clear();
        if message.bytes.len() >= AT_ONCE / 2 {
            // A long one is not copied.
            let mut line = message.bytes.chain(&b"\n"[..]);
            if let Err(error) = writer.write_all_buf(&mut line).await {
                tracing::debug!(%error, "the client reads no more");
                gone.cancel();
                return;
            }
            _ = writer.flush().await;
            continue;
        }
        buffer.extend_from_slice(&message.bytes);
        buffer.push(b'\n');
        while buffer.len() < AT_ONCE {
            let Ok(message) = queue.try_recv() else { break };
            buffer.extend_from_slice(&message.bytes);
            buffer.push(b'\n');
        }
        let written = async {
            writer.write_all(&buffer).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the client reads no more");
            gone.cancel();
            return;
        }
        if buffer.capacity() > 1 << 20 {
            buffer = Vec::new();
        }
    }
    _ = writer.shutdown().await;
}
