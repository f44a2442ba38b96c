//! The client side of a pair of pipes: one message on each line, answers in any order.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use marquetry_protocol_callers::in_place;
use marquetry_protocol_wire::{
    EnvelopeError, Message, RequestId, RpcError,
    envelope::{self, looks_like_answer},
    error_code,
    line::{Line, read_line_or},
    shortened,
};
use serde_json::{json, value::RawValue};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument as _;

use super::{
    answer_memory::{AnswerCount, AnswerMemory},
    error::{ClientError, ProtocolError},
    events::{CloseReason, Progress},
    log_rate::LogRate,
    options::ClientOptions,
    output::{Output, Refused},
    shared::{Outgoing, Shared, each},
};

/// A connection over pipes.
pub(super) struct PipeLink {
    shared: Arc<Shared>,
    pending: Arc<Pending>,
    output: Arc<Output>,
    /// Cancelled to end the connection from our side. Dropping the link cancels it, too.
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    /// Notified when everything behind the link has ended, including a child process.
    gone: Arc<Notify>,
}

/// The requests that wait for their answers.
#[derive(Default)]
struct Pending {
    waiting: Mutex<HashMap<RequestId, Waiting>>,
}

struct Waiting {
    answer: oneshot::Sender<Answer>,
    progress: Option<mpsc::Sender<Progress>>,
    memory: Option<AnswerMemory>,
}

type Answer = Result<Box<RawValue>, ClientError>;

impl Waiting {
    /// Takes the answer from a line of `length` bytes, when there is memory for it. The next answer
    /// of the server is not read before, so one caller must not wait for long.
    async fn take(self, answer: Answer, length: usize) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let until = Instant::now() + PATIENCE;
        let memory = self.memory.map(|memory| AnswerMemory { until, ..memory });
        let counted = AnswerCount::new(memory.as_ref()).count(length).await;
        _ = self.answer.send(counted.map_err(ClientError::Rpc).and(answer));
    }
}

/// An in-flight request. If it is dropped before the answer, the request is cancelled at the
/// server.
struct PendingRequest {
    id: RequestId,
    pending: Arc<Pending>,
    output: Arc<Output>,
    /// `initialize` must not be cancelled (2025-11-25, "Cancellation").
    cancellable: bool,
}

impl PipeLink {
    pub(super) fn start<R, W>(
        reader: R,
        writer: W,
        shared: Arc<Shared>,
        options: &ClientOptions,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let stop = CancellationToken::new();
        let gone = Arc::new(Notify::new());
        let link = Self::over(reader, writer, shared, options, stop, gone.clone(), Duration::ZERO);
        // No process belongs to plain pipes.
        gone.notify_one();
        link
    }

    /// Starts as [`Self::start`] does, for a transport that watches `stop` and notifies `gone`
    /// itself. After the pipes have ended, it has the time `exit_wait` to say why.
    pub(super) fn over<R, W>(
        reader: R,
        writer: W,
        shared: Arc<Shared>,
        options: &ClientOptions,
        stop: CancellationToken,
        gone: Arc<Notify>,
        exit_wait: Duration,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let output = Arc::new(Output::new(writer));
        let pending = Arc::new(Pending::default());
        tokio::spawn(write(output.clone(), stop.clone(), shared.clone(), exit_wait));
        let reading = Reading {
            shared: shared.clone(),
            pending: pending.clone(),
            output: output.clone(),
            max: options.max_message_bytes,
            nonsense: LogRate::default(),
        };
        let ended = shared.clone();
        let stopped = stop.clone();
        let reading = async move {
            let reason = tokio::select! {
                reason = reading.run(reader) => reason,
                () = stopped.cancelled() => CloseReason::Asked,
                // A child process may have exited while its own child still holds the pipe.
                () = ended.ended().cancelled() => ended.reason(),
            };
            match reason {
                CloseReason::Ended(_) => ended.end_within(exit_wait, reason).await,
                _ => ended.end(reason),
            }
            // Waiting callers get an error, because their channels close.
            reading.pending.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        };
        // Log lines keep the span of the connection's caller: a gateway names the upstream there.
        tokio::spawn(reading.in_current_span());
        let guard = stop.clone().drop_guard();
        Self { shared, pending, output, stop, _stop_on_drop: guard, gone }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) async fn request(
        &self,
        outgoing: Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let message = envelope::write_request(&outgoing.id, outgoing.method, outgoing.params);
        let (sender, answer) = oneshot::channel();
        let request = self.pending.enter(
            outgoing.id,
            Waiting {
                answer: sender,
                progress: outgoing.own.progress.clone(),
                memory: outgoing.own.memory.clone(),
            },
            self.output.clone(),
            outgoing.method != "initialize",
        );
        self.send(message).await?;
        let answer = tokio::select! {
            // A server may send a last answer and exit at once; that answer is still delivered.
            biased;
            answer = answer => answer.ok(),
            () = self.shared.ended().cancelled() => None,
        };
        request.leave();
        match answer {
            Some(answer) => answer,
            None => Err(ClientError::Closed(self.shared.closed().await)),
        }
    }

    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), ClientError> {
        tokio::select! {
            sent = self.output.send(message) => if sent.is_ok() { return Ok(()) },
            () = self.shared.ended().cancelled() => {}
        }
        Err(ClientError::Closed(self.shared.closed().await))
    }

    /// Asks a stateless server for announcements; sessions get them without a request.
    pub(super) fn listen(&self, params: &RawValue) {
        let id = self.shared.next_id();
        let message = envelope::write_request(&id, "subscriptions/listen", Some(params));
        // The answer comes when the server stops; it has nothing of use.
        _ = self.output.try_send(message);
    }

    /// Opens a stream of notifications. It ends when `stop` is cancelled.
    pub(super) async fn stream(
        &self,
        id: RequestId,
        params: Option<Box<RawValue>>,
        stop: CancellationToken,
    ) -> Result<(), ClientError> {
        let message = envelope::write_request(&id, "subscriptions/listen", params.as_deref());
        self.send(message).await?;
        let output = self.output.clone();
        let shared = self.shared.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = shared.ended().cancelled() => return,
            }
            let params = json!({ "requestId": id, "reason": "the caller no longer waits" });
            let Ok(params) = serde_json::value::to_raw_value(&params) else { return };
            let message = envelope::write_notification("notifications/cancelled", Some(&params));
            _ = output.send(message).await;
        });
        Ok(())
    }

    pub(super) async fn close(&self) {
        self.shared.end(CloseReason::Asked);
        self.stop.cancel();
        self.gone.notified().await;
        self.gone.notify_one();
    }
}

impl Pending {
    fn enter(
        self: &Arc<Self>,
        id: RequestId,
        waiting: Waiting,
        output: Arc<Output>,
        cancellable: bool,
    ) -> PendingRequest {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), waiting);
        PendingRequest { id, pending: self.clone(), output, cancellable }
    }

    fn take(&self, id: &RequestId) -> Option<Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Returns the id of the request that waits, if there is only one.
    fn only(&self) -> Option<RequestId> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ids = waiting.keys();
        ids.next().filter(|_| ids.next().is_none()).cloned()
    }

    fn progress_of(&self, id: &RequestId) -> Option<mpsc::Sender<Progress>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get(id)?.progress.clone()
    }
}

impl PendingRequest {
    /// Ends the request without a cancellation: its answer has arrived, or will never arrive.
    fn leave(mut self) {
        self.cancellable = false;
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.pending.take(&self.id);
        if !self.cancellable {
            return;
        }
        let params = json!({ "requestId": self.id, "reason": "the caller no longer waits" });
        let Ok(params) = serde_json::value::to_raw_value(&params) else { return };
        let message = envelope::write_notification("notifications/cancelled", Some(&params));
        if let Err(Refused::Full(message)) = self.output.try_send(message) {
            let output = self.output.clone();
            tokio::spawn(async move { output.send(message).await });
        }
    }
}

/// The reading half of the connection.
struct Reading {
    shared: Arc<Shared>,
    pending: Arc<Pending>,
    output: Arc<Output>,
    max: usize,
    /// Limits the log lines about input that is not a message.
    nonsense: LogRate,
}

impl Reading {
    async fn run(&self, reader: impl AsyncRead + Unpin) -> CloseReason {
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        let mut buffer = Vec::new();
        loop {
            let mut reported = false;
            let read = read_line_or(&mut reader, &mut buffer, self.max, self.max, |start| {
                reported = self.fail_at_the_limit(start);
            });
            match read.await {
                // The call was failed when the limit was exceeded.
                Ok(Line::TooLong) if reported => {}
                Ok(Line::Whole) => {
                    let mut answers = Vec::new();
                    in_place(buffer.len(), || {
                        each(&buffer, |message| answers.extend(self.message(message, &buffer)));
                    });
                    for (waiting, answer) in answers {
                        waiting.take(answer, buffer.len()).await;
                    }
                }
                Ok(Line::Blank) => {}
                Ok(Line::TooLong) => {
                    let why = self.too_long();
                    let Some(waiting) = id_of_long(&buffer).and_then(|id| self.pending.take(&id))
                    else {
                        // The id of the answer is unknown, so its caller would wait for ever.
                        return CloseReason::Broken(why.to_string());
                    };
                    _ = waiting.answer.send(Err(why.into()));
                }
                Ok(Line::End) => {
                    return CloseReason::Ended("server has closed its output".to_owned());
                }
                // The message may have no end, and no other message can come before that.
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    return CloseReason::Broken(self.too_long().to_string());
                }
                Err(error) => {
                    return CloseReason::Ended(format!("cannot read from server: {error}"));
                }
            }
            if buffer.capacity() > 1 << 20 {
                buffer = Vec::new();
            }
        }
    }

    fn too_long(&self) -> ProtocolError {
        ProtocolError::MessageTooLong { limit: self.max }
    }

    /// Fails the call whose answer is too long as soon as the limit is exceeded, because the line
    /// may never end. The id is in the first bytes of the line; if not, the call is the only one in
    /// flight.
    fn fail_at_the_limit(&self, start: &[u8]) -> bool {
        let start = String::from_utf8_lossy(start);
        if !start.trim_start().starts_with('{') || start.contains(r#""method""#) {
            return false;
        }
        let id = id_of_long(format!("{start}\0").as_bytes()).or_else(|| self.pending.only());
        let waiting = id.and_then(|id| self.pending.take(&id));
        waiting.map(|waiting| waiting.answer.send(Err(self.too_long().into()))).is_some()
    }

    /// Returns the id of the request that an invalid message answers. If the message does not tell,
    /// that is the only request in flight.
    fn answered_by(&self, error: &EnvelopeError, line: &[u8]) -> Option<RequestId> {
        match &error.answers {
            Some(id) => Some(id.clone()),
            None if looks_like_answer(line) => self.pending.only(),
            None => None,
        }
    }

    /// Handles a message that was read from `line`; returns an answer with the request that waits
    /// for it.
    fn message(
        &self,
        message: Result<Message<'_>, EnvelopeError>,
        line: &[u8],
    ) -> Option<(Waiting, Answer)> {
        match message {
            Ok(Message::Response(response)) => {
                // These errors may have no id. Others without one may answer a notification.
                let is_unread = matches!(
                    &response.outcome,
                    Err(RpcError {
                        code: error_code::PARSE_ERROR | error_code::INVALID_REQUEST,
                        ..
                    })
                );
                let id = response.id.or_else(|| self.pending.only().filter(|_| is_unread));
                let Some(id) = id else {
                    tracing::warn!(error = ?response.outcome.err(), "server could not parse one of our messages");
                    return None;
                };
                // Either the request was cancelled, or its answer is late.
                let waiting = self.pending.take(&id)?;
                let answer = response.outcome.map(ToOwned::to_owned).map_err(ClientError::Rpc);
                return Some((waiting, answer));
            }
            Ok(Message::Notification(notification)) => {
                self.shared.notified(&notification, None, |token, progress| {
                    if let Some(sender) = self.pending.progress_of(token) {
                        _ = sender.try_send(progress);
                    }
                });
            }
            Ok(Message::Request(request)) => {
                let output = self.output.clone();
                self.shared.answer(&request, None, async move |answer| {
                    _ = output.send(answer).await;
                });
            }
            Err(error) => {
                let answered = self.answered_by(&error, line).and_then(|id| self.pending.take(&id));
                if let Some(waiting) = answered {
                    let fault = ProtocolError::Message(error.to_string());
                    _ = waiting.answer.send(Err(fault.into()));
                    return None;
                }
                // Servers print to standard output by mistake. The connection goes on.
                self.shared.stray_output(line);
                if let Some(count) = self.nonsense.count() {
                    let line = String::from_utf8_lossy(line);
                    let line = shortened(line.trim());
                    tracing::warn!(
                        line,
                        %error,
                        count,
                        "server wrote a line to standard output that is not a message of MCP"
                    );
                }
            }
        }
        None
    }
}

/// Returns the id of an answer of which only the first and the last bytes are known. Servers write
/// the id first or last.
fn id_of_long(ends: &[u8]) -> Option<RequestId> {
    const KEY: &str = r#""id":"#;
    fn number(text: &str) -> Option<(RequestId, &str)> {
        let text = text.trim_start();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        Some((text[..digits].parse::<u64>().ok()?.into(), text[digits..].trim_start()))
    }
    let text = String::from_utf8_lossy(ends);
    let (start, end) = text.split_once('\0')?;
    if start.contains(r#""method""#) {
        return None;
    }
    let first = start.find(KEY).filter(|at| !start[..*at].contains(r#""result""#));
    if let Some((id, _)) = first.and_then(|at| number(&start[at + KEY.len()..])) {
        return Some(id);
    }
    let (id, rest) = number(&end[end.rfind(KEY)? + KEY.len()..])?;
    (rest == "}" || rest == r#","jsonrpc":"2.0"}"#).then_some(id)
}

/// Writes what waits until the connection ends, and closes the pipe.
async fn write(
    output: Arc<Output>,
    stop: CancellationToken,
    shared: Arc<Shared>,
    exit_wait: Duration,
) {
    tokio::select! {
        error = output.drain() => {
            let reason = CloseReason::Ended(format!("cannot write to server: {error}"));
            shared.end_within(exit_wait, reason).await;
        }
        () = stop.cancelled() => {}
        () = shared.ended().cancelled() => {}
    }
    output.close().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_say_whose_they_are_at_either_end() {
        for (start, end, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"a":"#, r#""x"}}"#, Some(7)),
            (r#"{"result":{"id":1,"a":"#, r#""}]},"jsonrpc":"2.0","id":7}"#, Some(7)),
            (r#"{"result":{"a":"#, r#""}]},"id": 7,"jsonrpc":"2.0"}"#, Some(7)),
            (r#"{"result":{"id":1,"a":"#, r#""x","id":3}}"#, None),
            (r#"{"jsonrpc":"2.0","id":"a","result":"#, "", None),
            ("", "", None),
        ] {
            let ends = format!("{start}\0{end}");
            assert_eq!(id_of_long(ends.as_bytes()), id.map(RequestId::from), "{ends}");
        }
    }
}
