//! A server on a pair of pipes: one message a line.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Server, conversation::Conversation, outgoing::Outgoing};
use crate::{
    Incoming, Message, RpcError,
    line::{Line, read_line},
};

/// Serves one client on standard input and output, until the input ends or `stop` is cancelled.
///
/// # Errors
/// As [`serve_pipe`].
#[cfg(feature = "stdio")]
pub async fn serve_stdio(server: &Server, stop: CancellationToken) -> io::Result<()> {
    serve_pipe(server, tokio::io::stdin(), tokio::io::stdout(), stop).await
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
    let (outbound, queue) = mpsc::channel::<Outgoing>(limits.max_queued_messages);
    let gone = CancellationToken::new();
    let write = tokio::spawn(write_lines(writer, queue, gone.clone()));
    let pipe = Pipe {
        server: server.clone(),
        conversation: Arc::new(Conversation::new(None, limits.max_in_flight)),
        outbound,
        calls: TaskTracker::new(),
    };

    let ended = tokio::select! {
        ended = pipe.read(reader) => ended,
        () = gone.cancelled() => Ok(()),
        () = stop.cancelled() => Ok(()),
    };

    let Pipe { conversation, outbound, calls, .. } = pipe;
    conversation.ending.cancel();
    drop(outbound);
    calls.close();
    if gone.is_cancelled()
        || tokio::time::timeout(limits.shutdown_grace, calls.wait()).await.is_err()
    {
        conversation.end();
        calls.wait().await;
    }
    // The last sender is gone with the last call, so the writer ends when it has written all, or soon for a client
    // that reads no more.
    let abort = write.abort_handle();
    if tokio::time::timeout(limits.shutdown_grace, write).await.is_err() {
        abort.abort();
    }
    ended
}

struct Pipe {
    server: Server,
    conversation: Arc<Conversation>,
    outbound: mpsc::Sender<Outgoing>,
    calls: TaskTracker,
}

impl Pipe {
    async fn read(&self, reader: impl AsyncRead + Unpin) -> io::Result<()> {
        let limits = self.server.limits();
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        let mut buffer = Vec::new();
        loop {
            match read_line(&mut reader, &mut buffer, limits.max_message_bytes).await? {
                Line::End => return Ok(()),
                Line::Blank => {}
                Line::TooLong => {
                    let error = RpcError::limit_exceeded(format!(
                        "message is longer than {} bytes",
                        limits.max_message_bytes
                    ));
                    self.send(Outgoing::error(None, &error)).await;
                }
                Line::Whole => self.take(&buffer).await,
            }
            // One large message must not keep its memory for the life of the pipe.
            if buffer.capacity() > 1 << 20 {
                buffer = Vec::new();
            }
        }
    }

    async fn take(&self, line: &[u8]) {
        match Incoming::parse(line, self.server.limits().max_nesting) {
            Ok(Incoming::Message(Message::Request(request))) => {
                match self.server.accept(&self.conversation, &request) {
                    // What comes after it counts on the session.
                    Ok(call) if request.method == "initialize" => {
                        self.answer(call.run(self.outbound.clone())).await;
                        self.forward_announcements();
                    }
                    Ok(call) => _ = self.calls.spawn(self.answer(call.run(self.outbound.clone()))),
                    Err(refused) => self.send(refused).await,
                }
            }
            Ok(Incoming::Message(Message::Notification(notification))) => {
                self.server.notified(&self.conversation, &notification);
            }
            Ok(Incoming::Message(Message::Response(response))) => {
                self.conversation.questions.answered(response)
            }
            Ok(Incoming::Batch(messages)) => match self
                .server
                .accept_batch(&self.conversation, messages)
            {
                Ok(batch) => _ = self.calls.spawn(self.answer(batch.run(self.outbound.clone()))),
                Err(refused) => self.send(refused).await,
            },
            Err(error) => self.send(Outgoing::error(error.id.as_ref(), &error.error)).await,
        }
    }

    /// Does some work and sends its answer.
    fn answer(
        &self,
        work: impl Future<Output = Option<Outgoing>> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let outbound = self.outbound.clone();
        async move {
            if let Some(answer) = work.await {
                _ = outbound.send(answer).await;
            }
        }
    }

    /// Sends the server's announcements from now on, until the pipe is left.
    fn forward_announcements(&self) {
        let Some(facts) = self.conversation.session.get() else { return };
        let (listener, outbound) = (facts.listener.clone(), self.outbound.clone());
        let ending = self.conversation.ending.clone();
        tokio::spawn(ending.run_until_cancelled_owned(async move {
            while outbound.send(Outgoing::notification(listener.next().await)).await.is_ok() {}
        }));
    }

    async fn send(&self, message: Outgoing) {
        _ = self.outbound.send(message).await;
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
