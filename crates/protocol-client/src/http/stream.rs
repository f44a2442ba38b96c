//! Event streams: those of answers, and the stream of notifications.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Incoming;
use marquetry_protocol_callers::in_place;
use marquetry_protocol_wire::{
    EnvelopeError, Era, Message, RequestId, Revision, envelope::looks_like_answer,
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{
    body::Body,
    endpoint::{Endpoint, is_events},
    session::{SessionStatus, is_temporary},
};
use crate::{
    answer_memory::AnswerCount,
    authorization::authorized_by,
    error::{ClientError, ProtocolError},
    log_rate::LogRate,
    shared::{Outgoing, RequestState, each},
    sse::{Event, SseParser, TooLong},
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A stream of notifications that ends sooner keeps the growing pause before the next one.
const LONG_STREAM: Duration = Duration::from_secs(5);

/// Outcome of one request for the stream of notifications.
pub(super) enum ListenOutcome {
    /// The stream was open for longer than [`LONG_STREAM`]. The next request may follow after the
    /// shortest pause.
    LongStream,
    /// The stream was short, or the server refused it and may grant a later request.
    RetryLater,
    /// The server has no such stream.
    Unsupported,
}

/// State of the announcements' stream across connections.
pub(super) struct Announcements {
    parser: SseParser,
    /// The session of the parser's last id.
    session: Option<HeaderValue>,
    /// Whether the stream was ever open.
    opened: bool,
    /// Fires after the first answer.
    pub(super) first: Option<oneshot::Sender<()>>,
}

impl Announcements {
    pub(super) fn new(max_message_bytes: usize, first: Option<oneshot::Sender<()>>) -> Self {
        let parser = SseParser::new(max_message_bytes);
        Self { parser, session: None, opened: false, first }
    }

    pub(super) fn was_opened(&self) -> bool {
        self.opened
    }

    /// Returns the server's reconnection time.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.parser.retry
    }
}

impl Endpoint {
    /// Reads a stream until the answer arrives. A broken stream of the session era is resumed at
    /// the last event, after the server's reconnection time (2025-11-25, "Resumability and
    /// Redelivery"); a server may also close it on purpose. Without new events the pauses grow, and
    /// after several attempts the call fails.
    pub(super) async fn answer_from_events(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        outgoing: &Outgoing<'_>,
    ) -> Result<Box<RawValue>, ClientError> {
        let mut found = None;
        let mut parser = SseParser::new(self.max_message_bytes);
        let mut response = Some(response);
        let mut attempts = 0;
        let mut authorizations = 0;
        loop {
            let before = parser.last_id.clone();
            if let Some(response) = response.take() {
                let read = self
                    .events(revision, response, &mut parser, Some(outgoing), |message| {
                        // An error without an id concerns the request of the stream.
                        if let Message::Response(answer) = message
                            && answer.id.as_ref().is_none_or(|id| *id == outgoing.id)
                        {
                            found = Some(answer.outcome.map(ToOwned::to_owned));
                        }
                        found.is_none()
                    })
                    .await;
                match found.take() {
                    Some(Ok(result)) => return Ok(result),
                    Some(Err(error)) => return Err(ClientError::Rpc(error)),
                    None => {}
                }
                if let Err(error @ (ClientError::Protocol(_) | ClientError::Rpc(_))) = read {
                    return Err(error);
                }
                if revision.era() == Era::Stateless || parser.last_id.is_none() {
                    read?;
                    return Err(ProtocolError::StreamEnded.into());
                }
            }
            if parser.last_id != before {
                attempts = 0;
            }
            if attempts == self.max_reconnects {
                return Err(ProtocolError::StreamNotResumed { attempts }.into());
            }
            tokio::time::sleep(pause(parser.retry, attempts)).await;
            attempts += 1;
            let last_id = parser.last_id.as_deref().unwrap_or_default();
            match self.resume(revision, last_id, &mut authorizations).await {
                Ok(resumed) if resumed.status().is_success() && is_events(&resumed) => {
                    parser.restart();
                    response = Some(resumed);
                }
                Ok(refused) if !is_temporary(refused.status()) => {
                    let refusal = format!("HTTP status {}", refused.status().as_u16());
                    return Err(ProtocolError::ResumeRefused { refusal }.into());
                }
                Ok(_) => {}
                Err(error @ ClientError::Io { .. }) => {
                    tracing::debug!(%error, "failed to resume a stream; trying again");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Requests the rest of a stream, with authorization if the server requires it now. A refusal
    /// is never returned as [`ClientError::Unauthorized`]: the caller would repeat the call while
    /// this one is still running.
    async fn resume(
        &self,
        revision: Revision,
        last_id: &str,
        authorizations: &mut usize,
    ) -> Result<Response<Incoming>, ClientError> {
        let id = HeaderValue::from_str(last_id).map_err(|_| ProtocolError::EventId)?;
        loop {
            let mut request = self.get(revision);
            request.headers_mut().insert(LAST_EVENT_ID, id.clone());
            let sent = self.send(request).await;
            let again = authorized_by(sent, self.authorizer.as_deref(), authorizations).await;
            match again {
                Ok(None) => {}
                Ok(Some(response)) => return Ok(response),
                Err(ClientError::Unauthorized(refusal)) => {
                    let refusal = refusal.to_string();
                    return Err(ProtocolError::ResumeRefused { refusal }.into());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads events until the stream ends or `on_response` returns false. Handles notifications and
    /// requests; on the stream `of` a call they belong to that call.
    async fn events(
        self: &Arc<Self>,
        revision: Revision,
        response: Response<Incoming>,
        parser: &mut SseParser,
        of: Option<&Outgoing<'_>>,
        mut on_response: impl FnMut(Message<'_>) -> bool,
    ) -> Result<(), ClientError> {
        let (head, body) = response.into_parts();
        let mut body = Body::new(&head.headers, body)
            .map_err(|error| ClientError::io(format!("stream of {}", self.shown), error))?;
        let memory = of.and_then(|outgoing| outgoing.own.memory.as_ref());
        let mut count = AnswerCount::new(memory);
        let mut more = true;
        let mut fault = None;
        let invalid_messages = LogRate::default();
        while more {
            let piece = body.next().await;
            let piece = piece
                .map_err(|error| ClientError::io(format!("stream of {}", self.shown), error))?;
            let Some(data) = piece else { break };
            count.count(parser.held() + data.len()).await.map_err(ClientError::Rpc)?;
            // Only the last piece of a long event is long work.
            let length = if data.contains(&b'\n') { parser.held() + data.len() } else { 0 };
            let parsed = in_place(length, || {
                parser.push(&data, |Event { data, .. }| {
                // A priming event has no data (2025-11-25).
                if data.trim_ascii().is_empty() {
                    return;
                }
                each(data, |message| match message {
                    Ok(message @ Message::Response(_)) => more = more && on_response(message),
                    Ok(message) => self.handle_message(revision, message, of),
                    // An invalid answer; no other will come.
                    Err(error) if is_answer(&error, data, of) => {
                        more = false;
                        fault = Some(error);
                    }
                    Err(error) => {
                        if let Some(count) = invalid_messages.count() {
                            tracing::warn!(%error, count, "server sent an event that is not a message");
                        }
                    }
                });
            })
            });
            if parsed == Err(TooLong) {
                return Err(ProtocolError::MessageTooLong { limit: self.max_message_bytes }.into());
            }
        }
        match fault {
            Some(error) => Err(ProtocolError::Message(error.to_string()).into()),
            None => Ok(()),
        }
    }

    /// Handles a notification or a request of the server, for the call `of` if there is one.
    pub(super) fn handle_message(
        self: &Arc<Self>,
        revision: Revision,
        message: Message<'_>,
        of: Option<&Outgoing<'_>>,
    ) {
        let own = of.map(|outgoing| outgoing.own);
        match message {
            Message::Notification(notification) => {
                self.shared.notified(&notification, own, |token, progress| {
                    if let Some(Outgoing { id, own, .. }) = of
                        && token == id
                        && let Some(sender) = &own.progress
                    {
                        _ = sender.try_send(progress);
                    }
                });
            }
            Message::Request(request) => {
                let endpoint = self.clone();
                self.shared.answer(&request, own, async move |answer| {
                    if let Err(error) = endpoint.tell(revision, answer).await {
                        tracing::debug!(%error, "an answer was not delivered");
                    }
                });
            }
            // The caller has handled the responses that it waits for.
            Message::Response(_) => {}
        }
    }

    /// Reads announcements until their stream ends.
    pub(super) async fn listen(
        self: &Arc<Self>,
        revision: Revision,
        id: RequestId,
        params: Option<&RawValue>,
        announcements: &mut Announcements,
    ) -> Result<ListenOutcome, ClientError> {
        let request = match revision.era() {
            Era::Session => {
                let session = self.session.id();
                if session != announcements.session {
                    announcements.parser = SseParser::new(self.max_message_bytes);
                    announcements.session = session;
                }
                let mut request = self.get(revision);
                let last_id = announcements.parser.last_id.as_deref().map(HeaderValue::from_str);
                if let Some(Ok(last_id)) = last_id {
                    request.headers_mut().insert(LAST_EVENT_ID, last_id);
                }
                request
            }
            Era::Stateless => {
                let own = &RequestState::default();
                let outgoing = Outgoing { id, method: "subscriptions/listen", params, own };
                self.request(revision, &outgoing)?
            }
        };
        let response = self.send(request).await;
        if let Some(first) = announcements.first.take() {
            // The receiver may have been dropped.
            _ = first.send(());
        }
        let response = response?;
        if !response.status().is_success() || !is_events(&response) {
            let had_last_id = announcements.parser.last_id.take().is_some();
            let status = response.status();
            return match &announcements.session {
                // An ingress whose server is starting answers so.
                _ if is_temporary(status) => Ok(ListenOutcome::RetryLater),
                // If the stream never opened, the server does not support it. If it did, the
                // session may be lost.
                Some(lost) if announcements.opened && may_mean_session(status) => {
                    const PING_TIMEOUT: Duration = Duration::from_secs(30);
                    // The refusal may concern only the stream. A new session would not help, so
                    // the ping decides.
                    let pinged =
                        tokio::time::timeout(PING_TIMEOUT, self.session_status(revision)).await;
                    // A session of unknown status is left to the calls, which renew it if they need
                    // to.
                    if let Ok(status) = pinged
                        && status? == SessionStatus::Lost
                    {
                        self.renew(revision, lost).await?;
                    }
                    Ok(ListenOutcome::RetryLater)
                }
                // The server may have refused only that id.
                _ if had_last_id => Ok(ListenOutcome::RetryLater),
                _ => Ok(ListenOutcome::Unsupported),
            };
        }
        announcements.opened = true;
        announcements.parser.restart();
        let opened_at = std::time::Instant::now();
        // The stream was open, so the server is running, however the stream ends.
        let read = self.events(revision, response, &mut announcements.parser, None, |_| true).await;
        if let Err(error) = read {
            tracing::debug!(%error, "the stream of notifications broke");
        }
        Ok(if opened_at.elapsed() > LONG_STREAM {
            ListenOutcome::LongStream
        } else {
            ListenOutcome::RetryLater
        })
    }
}

/// Returns whether the refusal of a stream may mean its session. 405 says that there are no
/// streams.
fn may_mean_session(status: StatusCode) -> bool {
    status.is_client_error() && status != StatusCode::METHOD_NOT_ALLOWED
}

/// Returns whether an invalid message answers the request `of`. On the stream of a request, an
/// answer without an id is its answer.
fn is_answer(error: &EnvelopeError, message: &[u8], of: Option<&Outgoing<'_>>) -> bool {
    let Some(of) = of else { return false };
    match &error.answers {
        Some(id) => *id == of.id,
        None => looks_like_answer(message),
    }
}

/// Returns the pause before a stream is resumed, after `attempts` without new events: at least the
/// server's reconnection time.
fn pause(retry: Option<Duration>, attempts: usize) -> Duration {
    const USUAL: Duration = Duration::from_secs(1);
    /// Minimum pause, even if the server asks for none.
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(30);
    let first = retry.unwrap_or(USUAL).max(SHORTEST);
    let growth = 2_u32.saturating_pow(u32::try_from(attempts).unwrap_or(u32::MAX));
    first.saturating_mul(growth).min(LONGEST.max(first))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use marquetry_protocol_callers::{
        Caller, RequestMemory,
        fair::{FairBounds, FairLimiter},
    };
    use tokio::time::Instant;

    use super::*;
    use crate::{
        answer_memory::AnswerMemory, http::HttpTarget, options::ClientOptions, shared::Shared,
    };

    /// Starts a server that answers one request after another, each on a connection of its own.
    /// Returns its endpoint.
    fn endpoint_that_answers(answers: &'static [&'static str]) -> Arc<Endpoint> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = String::new();
                let mut part = [0; 4_096];
                while request
                    .split_once("\r\n\r\n")
                    .is_none_or(|(head, body)| !head.starts_with("GET") && !body.ends_with('}'))
                {
                    let bytes = stream.read(&mut part).unwrap();
                    request.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
                }
                let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
                // The client may not read all of it.
                _ = write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\n\r\n{body}");
            }
        });
        let options = ClientOptions::default();
        let target = HttpTarget { url, ..HttpTarget::default() };
        let endpoint =
            crate::http::endpoint(&target, Arc::new(Shared::new(&options)), &options).unwrap();
        endpoint.session.begin(Some(HeaderValue::from_static("s1")), None);
        Arc::new(endpoint)
    }

    /// A server that refuses both the stream and the ping may serve calls. Failures would close the
    /// connection.
    #[tokio::test]
    async fn an_error_status_of_the_ping_is_no_failure_of_the_stream() {
        let endpoint = endpoint_that_answers(&[
            "200 OK\r\ncontent-type: text/event-stream",
            "404 Not Found\r\ncontent-length: 0",
            "501 Not Implemented\r\ncontent-length: 0",
        ]);
        let mut announcements = Announcements::new(endpoint.max_message_bytes, None);
        for number in 1..=2 {
            let id = endpoint.shared.next_id();
            let outcome =
                endpoint.listen(Revision::V2025_11_25, id, None, &mut announcements).await;
            assert!(
                matches!(outcome, Ok(ListenOutcome::RetryLater)),
                "{number}: {:?}",
                outcome.err()
            );
        }
        assert!(!endpoint.shared.is_closed());
    }

    /// The answers come in one piece of known length, in pieces, and as an event.
    #[tokio::test]
    async fn a_long_answer_waits_for_memory() {
        const JSON: &str = "content-type: application/json";
        let text = "x".repeat(200_000);
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":"{text}"}}}}"#);
        let length = body.len();
        for answer in [
            format!("200 OK\r\n{JSON}\r\ncontent-length: {length}\r\n\r\n{body}"),
            format!("200 OK\r\n{JSON}\r\n\r\n{body}"),
            format!("200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {body}\n\n"),
        ] {
            let answers: &'static [&'static str] = vec![&*answer.leak(); 2].leak();
            let endpoint = endpoint_that_answers(answers);
            let limiter = FairLimiter::new(FairBounds {
                what: "bytes are in use",
                total_setting: "max_work_bytes",
                per_caller_setting: "max_work_bytes_per_caller",
                total: 1_000_000,
                per_caller: 1_000_000,
                queued: usize::MAX,
                wait: Duration::ZERO,
            });
            let others = limiter.try_enter(&Caller::Local, 900_000).unwrap();
            let error = call(&endpoint, &limiter).await.unwrap_err();
            assert!(error.to_string().contains("(max_work_bytes)"), "{error}");
            drop(others);
            let account = call(&endpoint, &limiter).await.unwrap();
            assert!(limiter.used() > 2 * length, "{} bytes are counted", limiter.used());
            drop(account);
            assert_eq!(limiter.used(), 0);
        }
    }

    /// Makes a request; returns the account of its memory.
    async fn call(
        endpoint: &Arc<Endpoint>,
        limiter: &FairLimiter,
    ) -> Result<RequestMemory, ClientError> {
        let account = RequestMemory::new(limiter, &Caller::Local);
        let until = Instant::now() + Duration::from_millis(50);
        let mut own = RequestState::default();
        own.memory = Some(AnswerMemory { account: account.clone(), until });
        let id = RequestId::from(1_u64);
        let outgoing = Outgoing { id, method: "tools/call", params: None, own: &own };
        endpoint.exchange(Revision::V2025_11_25, &outgoing).await?;
        Ok(account)
    }

    #[test]
    fn pauses_start_as_the_server_wants_and_grow() {
        for (retry, attempts, want) in [
            (None, 0, 1_000),
            (None, 2, 4_000),
            (None, 400, 30_000),
            (Some(500), 0, 500),
            (Some(500), 3, 4_000),
            (Some(0), 0, 50),
            (Some(90_000), 0, 90_000),
            (Some(90_000), 5, 90_000),
        ] {
            let got = pause(retry.map(Duration::from_millis), attempts).as_millis();
            assert_eq!(got, want, "{retry:?} {attempts}");
        }
    }
}
