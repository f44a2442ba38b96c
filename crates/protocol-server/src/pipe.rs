//! A server on a pair of pipes: one message on each line.

use std::{io, time::Duration};

use bytes::Buf as _;
use marquetry_protocol_wire::{
    RequestId, RpcError,
    line::{Line, read_line},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};
#[cfg(all(feature = "stdio", target_os = "linux"))]
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
#[cfg(feature = "stdio")]
use tokio_util::task::AbortOnDropHandle;

use super::{Peer, Server, channel::Channel, outgoing::Outgoing};

/// Serves one client on standard input and output, until the input ends or `stop` is cancelled.
///
/// # Errors
/// Returns an error if reading fails.
#[cfg(feature = "stdio")]
pub async fn serve_stdio(server: &Server, stop: CancellationToken) -> io::Result<()> {
    let (input, output) = standard_pipes();
    let server = server.clone();
    // On a task of the runtime: the calling thread only waits, and would have to be woken for every
    // message.
    let served = tokio::spawn(async move { serve_pipe(&server, input, output, stop).await });
    AbortOnDropHandle::new(served).await.map_err(io::Error::other)?
}

/// Opens standard input and output for asynchronous use if they are pipes. Tokio's own way goes
/// through a thread: two wake-ups for each message, most of the cost of a small call. They are
/// opened again, so that programs that share the old descriptors do not find them non-blocking.
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
/// Requests run concurrently. After the end, those in flight may finish within
/// [`Limits::shutdown_grace`]; then each gets an error as its answer.
///
/// [`Limits::shutdown_grace`]: super::Limits::shutdown_grace
///
/// # Errors
/// Returns an error if reading fails. A client that no longer reads is a normal end.
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
    serve_pipe_of(Peer::local(), server, reader, writer, stop).await
}

/// Serves one client as [`serve_pipe`] does, for example one that has selected a profile of the
/// server.
///
/// # Errors
/// Returns an error as [`serve_pipe`] does.
pub async fn serve_pipe_of(
    client: Peer,
    server: &Server,
    reader: impl AsyncRead + Unpin + Send,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    stop: CancellationToken,
) -> io::Result<()> {
    let limits = server.limits();
    let (pipe, queue) = Channel::new(server.clone(), client);
    // Dropping this future ends the conversation, too.
    let _end = pipe.conversation.ending.clone().drop_guard();
    let gone = CancellationToken::new();
    let write = tokio::spawn(write_lines(writer, queue, gone.clone()));

    let ended = tokio::select! {
        ended = read(&pipe, reader) => ended,
        () = gone.cancelled() => Ok(()),
        () = stop.cancelled() => Ok(()),
    };

    let Channel { conversation, outbound, calls, peer, .. } = pipe;
    conversation.ending.cancel();
    drop(outbound);
    calls.close();
    if gone.is_cancelled()
        || tokio::time::timeout(limits.shutdown_grace, calls.wait()).await.is_err()
    {
        // Each call in flight gets an error as its answer, if the client still reads.
        peer.cut.cancel();
        if !gone.is_cancelled() {
            _ = tokio::time::timeout(CANCELLED_GRACE, calls.wait()).await;
        }
        conversation.end();
        if tokio::time::timeout(CANCELLED_GRACE, calls.wait()).await.is_err() {
            // Answers wait for a client that no longer reads. Without the writer they are dropped.
            write.abort();
            calls.wait().await;
        }
    }
    // The last sender is dropped with the last call, so the writer ends when it has written
    // everything, or soon if the client no longer reads.
    let abort = write.abort_handle();
    if tokio::time::timeout(limits.shutdown_grace, write).await.is_err() {
        abort.abort();
    }
    ended
}

/// Time for the answers of calls that the end has cut off, and for cancelled calls.
const CANCELLED_GRACE: Duration = Duration::from_secs(1);

async fn read(pipe: &Channel, reader: impl AsyncRead + Unpin) -> io::Result<()> {
    let max = pipe.server.limits().max_message_bytes;
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let mut buffer = Vec::new();
    loop {
        match read_line(&mut reader, &mut buffer, max).await? {
            Line::End => return Ok(()),
            Line::Blank => {}
            Line::TooLong => {
                let error = RpcError::limit_exceeded(format!("message is longer than {max} bytes"));
                pipe.send(Outgoing::error(id_of_long(&buffer).as_ref(), &error)).await;
            }
            Line::Whole => pipe.take(&buffer).await,
        }
        // A large message must not keep its memory as long as the pipe exists.
        if buffer.capacity() > 1 << 20 {
            buffer = Vec::new();
        }
    }
}

/// Returns the id of a request of which only the first and last bytes are known, so that its caller
/// gets the error. Clients write the id before or after the parameters, which are the long part.
fn id_of_long(ends: &[u8]) -> Option<RequestId> {
    const KEY: &str = r#""id":"#;
    const VERSION: &str = r#""jsonrpc":"2.0""#;
    /// Parses the value at the start of a text; returns the rest, too.
    fn value(text: &str) -> Option<(RequestId, &str)> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter();
        let id = values.next()?.ok()?;
        Some((id, text[values.byte_offset()..].trim()))
    }
    let text = String::from_utf8_lossy(ends);
    let (start, end) = text.split_once('\0')?;
    let before = start.split(r#""params""#).next().unwrap_or_default();
    if let Some(at) = before.find(KEY) {
        return Some(value(&before[at + KEY.len()..])?.0);
    }
    // The id may be after the parameters: then a brace is before it, and only the message's own
    // brace after it. An `id` inside of the parameters has two braces after it.
    let (members, _) = end.rsplit_once('}')?;
    let at = members.rfind(KEY)?;
    let (id, rest) = value(&members[at + KEY.len()..])?;
    let before_id = members[..at].trim_end().trim_end_matches(',').trim_end();
    let params = match before_id.strip_suffix(VERSION) {
        Some(params) => params.trim_end().trim_end_matches(','),
        None => before_id,
    };
    let is_last = rest.is_empty() || rest.strip_prefix(',').is_some_and(|it| it.trim() == VERSION);
    (is_last && params.trim_end().ends_with('}')).then_some(id)
}

/// Writes messages, all waiting ones in one write; cancels `gone` when the client no longer reads.
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
            // Long messages are not copied.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_say_whose_they_are_at_either_end() {
        for (start, end, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"a":"#, r#""x"}}"#, "7"),
            (r#"{"method":"a","id": "é","params":{"id":1,"#, r#""}}"#, r#""é""#),
            (r#"{"method":"a","params":{"a":"#, r#"","id":1},"jsonrpc":"2.0","id":7}"#, "7"),
            (r#"{"method":"a","params":{"a":"#, r#"","id":1},"id":-7,"jsonrpc":"2.0"}"#, "-7"),
            (r#"{"method":"a","params":{"id":1,"a":"#, r#"","id":2}}"#, "null"),
            (r#"{"method":"a","params":{"id":1,"a":"#, r#"","b":{},"id":2}}"#, "null"),
            (r#"{"method":"a","params":"#, r#"{"b":{},"jsonrpc":"2.0","id":2}}"#, "null"),
            (r#"{"method":"a","id":{},"params":"#, "}", "null"),
            ("", "", "null"),
        ] {
            let ends = format!("{start}\0{end}");
            let found = serde_json::to_string(&id_of_long(ends.as_bytes())).unwrap();
            assert_eq!(found, id, "{ends}");
        }
    }
}
