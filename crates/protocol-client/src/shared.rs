//! State that every transport shares: the server's questions, notifications, and the end of the
//! connection.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use marquetry_protocol_wire::{
    DEFAULT_MAX_NESTING, EnvelopeError, Incoming, Message, Notification, Request, RequestId,
    Response, RpcError, envelope, nested_deeper_than,
    object::without_repeated_members,
    shortened,
    types::{ClientCapabilities, LogLevel},
    without_non_numbers, without_unpaired_surrogates,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    answer_memory::AnswerMemory,
    events::{CloseReason, Progress, ServerNotification},
    handler::ClientHandler,
    log_rate::LogRate,
    options::{CallOptions, ClientOptions},
    questions::{self, OwnedRequest},
    terminal_codes::without_terminal_codes,
};

/// State that the parts of a connection share.
pub(super) struct Shared {
    pub(super) notifications: broadcast::Sender<ServerNotification>,
    next_id: AtomicU64,
    end: CancellationToken,
    reason: OnceLock<CloseReason>,
    handler: Arc<dyn ClientHandler>,
    /// The server's questions that are being answered, so that the server can cancel them.
    open_questions: Mutex<HashMap<RequestId, CancellationToken>>,
    /// Limits the server's questions that are being answered.
    answering: Arc<Semaphore>,
    /// Limits refusals that are being sent.
    refusing: Arc<Semaphore>,
    /// Limits the log lines about questions that are not even refused.
    dropped: LogRate,
}

/// A request to send.
pub(super) struct Outgoing<'a> {
    pub(super) id: RequestId,
    pub(super) method: &'a str,
    pub(super) params: Option<&'a RawValue>,
    pub(super) own: &'a RequestState,
}

/// State of one call; see [`CallOptions`](super::CallOptions).
#[derive(Default)]
pub(super) struct RequestState {
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    pub(super) handler: Option<Arc<dyn ClientHandler>>,
    pub(super) capabilities: Option<ClientCapabilities>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) pass_questions: bool,
    pub(super) memory: Option<AnswerMemory>,
    /// Cancelled when the call has ended; ends the questions that came on its stream, too.
    pub(super) over: CancellationToken,
}

impl RequestState {
    pub(super) fn of(options: CallOptions) -> Self {
        Self {
            progress: options.progress,
            handler: options.handler,
            capabilities: options.capabilities,
            log_level: options.log_level,
            pass_questions: options.pass_questions,
            memory: options.memory,
            over: CancellationToken::new(),
        }
    }
}

impl Drop for RequestState {
    fn drop(&mut self) {
        self.over.cancel();
    }
}

impl Shared {
    pub(super) fn new(options: &ClientOptions) -> Self {
        const MAX_WAITING: usize = 256;
        const MAX_REFUSING: usize = 256;
        Self {
            notifications: broadcast::channel(MAX_WAITING).0,
            next_id: AtomicU64::new(1),
            end: CancellationToken::new(),
            reason: OnceLock::new(),
            handler: options.handler.clone(),
            open_questions: Mutex::default(),
            answering: Arc::new(Semaphore::new(MAX_ANSWERING)),
            refusing: Arc::new(Semaphore::new(MAX_REFUSING)),
            dropped: LogRate::default(),
        }
    }

    pub(super) fn next_id(&self) -> RequestId {
        self.next_id.fetch_add(1, Ordering::Relaxed).into()
    }

    /// Marks the connection as closed; only the first reason counts.
    pub(super) fn end(&self, reason: CloseReason) {
        _ = self.reason.set(reason);
        self.end.cancel();
    }

    /// Marks the connection as closed, for `reason` unless another one is given within `patience`:
    /// the exit status of a process says more than its closed pipes, and arrives later.
    pub(super) async fn end_within(&self, patience: Duration, reason: CloseReason) {
        _ = tokio::time::timeout(patience, self.end.cancelled()).await;
        self.end(reason);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.end.is_cancelled()
    }

    pub(super) fn ended(&self) -> &CancellationToken {
        &self.end
    }

    pub(super) fn reason(&self) -> CloseReason {
        self.reason.get().cloned().unwrap_or(CloseReason::Asked)
    }

    pub(super) async fn closed(&self) -> CloseReason {
        self.end.cancelled().await;
        self.reason()
    }

    /// Forwards a notification; progress goes to `progress`, which finds its call. `own` is the
    /// call on whose stream it came.
    pub(super) fn notified(
        &self,
        notification: &Notification<'_>,
        own: Option<&RequestState>,
        progress: impl FnOnce(&RequestId, Progress),
    ) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ProgressParams {
            progress_token: RequestId,
            #[serde(flatten)]
            progress: Progress,
        }
        if notification.method == "notifications/progress" {
            if let Some(Ok(params)) = notification
                .params
                .map(|params| serde_json::from_str::<ProgressParams>(params.get()))
            {
                progress(&own_id(params.progress_token), params.progress);
            } else {
                tracing::debug!("a progress notification without token or progress");
            }
            return;
        }
        if notification.method == "notifications/cancelled" {
            self.taken_back(notification);
        }
        // The number of waiting notifications is limited, so their size must be, too.
        const MAX_BYTES: usize = 64 << 10;
        if notification.params.is_some_and(|params| params.get().len() > MAX_BYTES) {
            tracing::warn!(
                method = &*notification.method,
                "a notification of more than 64 KiB is left out"
            );
            return;
        }
        let owned = ServerNotification {
            method: (&*notification.method).into(),
            params: notification.params.map(|params| params.to_owned().into()),
        };
        self.handler_of(own).notified(&owned);
        // Having no receiver is not an error.
        _ = self.notifications.send(owned);
    }

    /// Sends a notification of the client's own, for changes that the server does not announce.
    #[cfg(feature = "http")]
    pub(super) fn announce(&self, method: &str) {
        let notification = ServerNotification { method: method.into(), params: None };
        self.handler.notified(&notification);
        _ = self.notifications.send(notification);
    }

    /// Passes a line that is not a message on to the handler.
    pub(super) fn stray_output(&self, line: &[u8]) {
        self.handler.stray_output(shortened(String::from_utf8_lossy(line).trim()));
    }

    fn handler_of<'a>(&'a self, own: Option<&'a RequestState>) -> &'a Arc<dyn ClientHandler> {
        own.and_then(|own| own.handler.as_ref()).unwrap_or(&self.handler)
    }

    /// Handles the server's cancellation of one of its questions.
    fn taken_back(&self, notification: &Notification<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled {
            request_id: RequestId,
        }
        let cancelled = notification.params.map(|params| serde_json::from_str(params.get()));
        if let Some(Ok(Cancelled { request_id })) = cancelled
            && let Some(question) = self.open_questions().get(&request_id)
        {
            question.cancel();
        }
    }

    fn open_questions(&self) -> MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        self.open_questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request of the server through `send`, on its own task, because a person may be
    /// asked. `own` is the call on whose stream it came.
    pub(super) fn answer<F>(
        self: &Arc<Self>,
        request: &Request<'_>,
        own: Option<&RequestState>,
        send: impl FnOnce(Vec<u8>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let request = OwnedRequest::from(request);
        let Ok(room) = self.answering.clone().try_acquire_owned() else {
            return self.refuse(request, send);
        };
        let handler = self.handler_of(own).clone();
        let shared = self.clone();
        let id = request.id.clone();
        let taken_back = own.map_or_else(CancellationToken::new, |own| own.over.child_token());
        self.open_questions().insert(id.clone(), taken_back.clone());
        tokio::spawn(self.end.clone().run_until_cancelled_owned(async move {
            let answering = taken_back.run_until_cancelled(questions::response(&*handler, request));
            let answer = answering.await;
            shared.open_questions().remove(&id);
            if let Some(answer) = answer {
                // The question counts until its answer is sent: a server that does not read must
                // not make answers pile up.
                send(answer).await;
            }
            drop(room);
        }));
    }

    /// Refuses a question because too many are open.
    fn refuse<F>(&self, request: OwnedRequest, send: impl FnOnce(Vec<u8>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let Ok(room) = self.refusing.clone().try_acquire_owned() else {
            if let Some(count) = self.dropped.count() {
                tracing::warn!(count, "server floods us with questions; some are not even refused");
            }
            return;
        };
        let error =
            RpcError::too_many_requests(format!("more than {MAX_ANSWERING} questions are open"));
        let answer = envelope::write_error(Some(&request.id), &error);
        tokio::spawn(self.end.clone().run_until_cancelled_owned(async move {
            send(answer).await;
            drop(room);
        }));
    }
}

/// Maximum number of open questions of a server.
const MAX_ANSWERING: usize = 32;

/// Passes every message in some bytes to `take`: one, or those of a batch (2025-03-26).
///
/// Text that cannot be read does not spoil the rest of a message: bytes that are not UTF-8, which
/// programs on Windows write, and halves of surrogate pairs become U+FFFD; `NaN` and `Infinity`,
/// which Python writes, become `null`. Codes for a terminal before and after a message are left
/// out, and the last of repeated members counts.
pub(super) fn each(bytes: &[u8], mut take: impl FnMut(Result<Message<'_>, EnvelopeError>)) {
    /// Maximum number of messages in a batch.
    const MAX_IN_BATCH: usize = 1_000;
    let text = String::from_utf8_lossy(bytes);
    let text = without_terminal_codes(&text);
    let repaired = without_unpaired_surrogates(text);
    let text = repaired.as_deref().unwrap_or(text);
    // The words may stand in a string of valid JSON, too.
    let repaired =
        without_non_numbers(text).filter(|_| serde_json::from_str::<IgnoredAny>(text).is_err());
    let text = repaired.as_deref().unwrap_or(text);
    // Results are measured where they are used: one deep item of a list can be left out.
    match Incoming::parse(text.as_bytes(), usize::MAX) {
        Ok(Incoming::Batch(batch)) => match batch.messages(MAX_IN_BATCH) {
            Ok(messages) => messages.into_iter().for_each(|message| take(checked(message))),
            Err(error) => take(Err(error)),
        },
        Ok(Incoming::Message(message)) => take(checked(Ok(message))),
        Err(error) => {
            let single = without_repeated_members(text, "id");
            let read = single.as_deref().map(|text| Message::parse(text.as_bytes(), usize::MAX));
            match read {
                Some(Ok(message)) => take(checked(Ok(message))),
                _ => take(with_own_id(Err(error))),
            }
        }
    }
}

/// Refuses requests and notifications that are nested too deep, and removes such data of an error.
fn checked(mut message: Result<Message<'_>, EnvelopeError>) -> Result<Message<'_>, EnvelopeError> {
    let params = match &mut message {
        Ok(Message::Request(request)) => request.params,
        Ok(Message::Notification(notification)) => notification.params,
        Ok(Message::Response(Response { outcome: Err(error), .. })) => {
            error.data.take_if(|data| is_too_deep(data));
            None
        }
        _ => None,
    };
    if params.is_some_and(is_too_deep) {
        let why = format!("message is nested more than {DEFAULT_MAX_NESTING} levels deep");
        let error = RpcError::invalid_request(why);
        return Err(EnvelopeError { id: None, answers: None, error });
    }
    with_own_id(message)
}

/// Whether a part of a message is nested deeper than parsers of types can read.
pub(super) fn is_too_deep(part: &RawValue) -> bool {
    nested_deeper_than(part.get().as_bytes(), DEFAULT_MAX_NESTING)
}

/// Returns the message; the id of an answer is written as this client writes it.
fn with_own_id(
    mut message: Result<Message<'_>, EnvelopeError>,
) -> Result<Message<'_>, EnvelopeError> {
    let id = match &mut message {
        Ok(Message::Response(response)) => &mut response.id,
        Err(error) => &mut error.answers,
        Ok(_) => return message,
    };
    *id = id.take().map(own_id);
    message
}

/// Returns an id or a progress token of this client in the type in which it was sent. Some servers
/// keep ids as strings, and answer the request 7 with the id "7".
fn own_id(id: RequestId) -> RequestId {
    match &id {
        RequestId::String(text) => text.parse::<u64>().map_or(id, RequestId::from),
        RequestId::Number(_) => id,
    }
}
