//! The HTTP endpoint.

use std::{
    sync::{Arc, Once},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request as HttpRequest, StatusCode, header, request::Parts,
};
use http_body::Body;
use marquetry_protocol_callers::session_slots::IdleSessions as _;
use marquetry_protocol_wire::{
    Era, Incoming, Message, Request, RequestId, Revision, RpcError, error_code,
    members::Members,
    standard_headers,
    types::{RequestMeta, meta_key},
};
use serde::Deserialize;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Authenticator,
    authentication::{principal, step_up},
    body::{BodyEnd, ResponseBody},
    connection::{Connection, ConnectionInfo},
    guard::HostGuard,
    pulse::Pulse,
    receive::{ReceiveError, Received},
    replay::{Replay, ReplayStore},
    response::{Response, answered, empty, events, not_allowed, refused, retry_later},
    running::Running,
    sessions::{Session, Sessions},
};
use crate::{
    HeaderArguments, Principal, Server,
    call::stateless_revision,
    conversation::Conversation,
    event_id::EventId,
    fair::Full,
    in_place,
    notifier::Listener,
    outgoing::{Kind, Outgoing, detached},
    peer::Peer,
};

/// Options of an HTTP endpoint.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Allowed `Host` and `Origin` values; loopback by default. A missing `Origin` passes.
    pub guard: HostGuard,
    /// Authenticates requests; without it, requests have no principal.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Maximum time for a message to arrive: 30 s.
    pub body_timeout: Duration,
    /// Time after which a pending answer becomes an event stream, so that the connection does not
    /// look dead: 5 s.
    pub stream_after: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            guard: HostGuard::loopback(),
            authenticator: None,
            body_timeout: Duration::from_secs(30),
            stream_after: Duration::from_secs(5),
        }
    }
}

/// An endpoint for Streamable HTTP, cheap to clone. It can be mounted at any path.
#[derive(Clone)]
pub struct HttpEndpoint {
    shared: Arc<EndpointShared>,
}

/// The parts that all clones of an endpoint share.
struct EndpointShared {
    server: Server,
    options: HttpOptions,
    sessions: Arc<Sessions>,
    replay: Arc<ReplayStore>,
    /// Starts the task that ends expired sessions, with the first session.
    sweeps: Once,
    /// Cancelled by [`HttpEndpoint::close`].
    closed: CancellationToken,
    /// Times the waits before answers become streams.
    pulse: Pulse,
}

/// The extension of an HTTP request that selects a profile of the server, as by its URL; see
/// [`Peer::in_profile`]. A session that was opened in one profile is unknown in others.
#[derive(Clone, Debug)]
pub struct SelectedProfile(pub Arc<str>);

/// The sender of a request and its connection.
pub(super) struct Client {
    pub(super) peer: Peer,
    /// Set if [`serve`](super::serve) has accepted it.
    pub(super) connection: Option<Arc<Connection>>,
}

impl Client {
    /// Creates the sender of a request with this head, which its handler can read.
    pub(super) fn new(principal: Option<Arc<Principal>>, head: &Arc<Parts>) -> Self {
        let connection = connection_of(&head.extensions);
        let peer = Peer::of_connection(principal, connection.as_ref());
        let profile = head.extensions.get::<SelectedProfile>().map(|it| it.0.clone());
        Self { peer: Peer { http: Some(head.clone()), profile, ..peer }, connection }
    }

    pub(super) fn principal(&self) -> Option<&Principal> {
        self.peer.principal.as_deref()
    }

    /// Completes when the client has shut down its writing side.
    async fn half_closed(&self) {
        match &self.connection {
            Some(connection) => connection.half_closed.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl Peer {
    /// Creates the sender of an HTTP request with these extensions: its address is known if
    /// [`serve`](super::serve) has accepted it.
    #[must_use]
    pub fn over_http(principal: Option<Arc<Principal>>, extensions: &http::Extensions) -> Self {
        Self::of_connection(principal, connection_of(extensions).as_ref())
    }

    fn of_connection(
        principal: Option<Arc<Principal>>,
        connection: Option<&Arc<Connection>>,
    ) -> Self {
        let address = connection.map(|it| ConnectionInfo(it.clone()).address().ip());
        let cut = connection.map(|it| it.cut.clone()).unwrap_or_default();
        Self { cut, ..Self::new(principal, address) }
    }
}

/// Returns the connection of a request that [`serve`](super::serve) has accepted.
pub(super) fn connection_of(extensions: &http::Extensions) -> Option<Arc<Connection>> {
    extensions.get::<ConnectionInfo>().map(|info| info.0.clone())
}

const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";

impl HttpEndpoint {
    /// Creates an endpoint of `server`.
    #[must_use]
    pub fn new(server: Server, options: HttpOptions) -> Self {
        let limits = server.limits();
        let slots = server.shared.shares.sessions.clone();
        let sessions = Sessions::new(slots, limits.session_idle);
        let replay = ReplayStore::new(limits);
        let period = options.stream_after / 4;
        let pulse = Pulse::new(period.clamp(Duration::from_millis(1), Duration::from_secs(1)));
        Self {
            shared: Arc::new(EndpointShared {
                server,
                options,
                sessions,
                replay,
                sweeps: Once::new(),
                closed: CancellationToken::new(),
                pulse,
            }),
        }
    }

    /// Ends every session and stream, and cancels requests in flight. Later requests get status
    /// 503.
    pub fn close(&self) {
        self.shared.closed.cancel();
        self.shared.sessions.end_all();
    }

    /// Answers one HTTP request.
    pub async fn handle<B>(&self, request: HttpRequest<B>) -> Response
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Err(refusal) = self.shared.options.guard.check_request(&request) {
            return refused(StatusCode::FORBIDDEN, refusal);
        }
        if self.shared.closed.is_cancelled() {
            return closed();
        }
        let (head, body) = request.into_parts();
        let authenticator = self.shared.options.authenticator.as_ref();
        let principal = match principal(authenticator, &head).await {
            Ok(principal) => principal,
            Err(denied) => return *denied,
        };
        let head = Arc::new(head);
        let client = Client::new(principal, &head);
        match head.method {
            Method::POST => self.post(client, &head.headers, body).await,
            Method::GET => self.get(&client, &head.headers),
            Method::DELETE => self.delete(&client.peer, &head.headers),
            _ => not_allowed("GET, POST, DELETE"),
        }
    }

    async fn post<B>(&self, client: Client, headers: &HeaderMap, body: B) -> Response
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !is_json(headers) {
            return refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-type must be application/json",
            );
        }
        if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
            && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
        {
            return refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "content-encoding is not supported; send the message uncompressed",
            );
        }
        let accepts = Accepts::of(headers);
        if !accepts.json && !accepts.events {
            return refused(
                StatusCode::NOT_ACCEPTABLE,
                "accept must name application/json and text/event-stream",
            );
        }
        let EndpointShared { server, options, .. } = &*self.shared;
        let received = match read_body(body, server, options, &client.peer).await {
            Ok(received) => received,
            Err(response) => return *response,
        };
        let bytes = received.bytes();
        let max_nesting = server.limits().max_nesting;
        match in_place(bytes.len(), || Incoming::parse(bytes, max_nesting)) {
            Ok(Incoming::Message(Message::Request(request))) => {
                self.request(&client, headers, &request, accepts).await
            }
            Ok(Incoming::Message(Message::Notification(_))) if names_stateless_version(headers) => {
                // Stateless HTTP cancels by closing the connection, and has no other notifications.
                empty(StatusCode::ACCEPTED)
            }
            Ok(incoming) => match self.session(&client.peer, headers) {
                Ok(session) => self.without_answer(&session, &client, incoming, accepts).await,
                Err((status, why)) => refused(status, why),
            },
            Err(error) => bad_request(error.id.as_ref(), &error.error),
        }
    }

    async fn request(
        &self,
        client: &Client,
        headers: &HeaderMap,
        request: &Request<'_>,
        accepts: Accepts,
    ) -> Response {
        let length = request.params.map_or(0, |params| params.get().len());
        let members = in_place(length, || Members::of(request.params));
        if let Err(error) = members.check_size() {
            return bad_request(Some(&request.id), &error);
        }
        match version_in_meta(&members) {
            Some(version) => {
                self.stateless(client, headers, request, &members, &version, accepts).await
            }
            // The header alone is not enough in 2026-07-28. Without this case the client would be
            // told to open a session, which its revision does not have.
            None if names_stateless_version(headers) => {
                let version = meta_key::PROTOCOL_VERSION;
                let error = RpcError::invalid_params(format!("_meta lacks '{version}'"));
                bad_request(Some(&request.id), &error)
            }
            None if request.method == "initialize" => {
                self.initialize(client, request, &members).await
            }
            None => match self.session(&client.peer, headers) {
                Ok(session) => self.in_session(&session, client, request, &members, accepts).await,
                Err((status, why)) => refused(status, why),
            },
        }
    }

    /// Handles messages of a session that are not requests: notifications, answers to questions,
    /// batches.
    async fn without_answer(
        &self,
        session: &Session,
        client: &Client,
        incoming: Incoming<'_>,
        accepts: Accepts,
    ) -> Response {
        let conversation = &session.conversation;
        let messages = match incoming {
            Incoming::Batch(messages) => messages,
            Incoming::Message(message) => {
                match message {
                    Message::Notification(notification) => {
                        self.shared.server.notified(conversation, &notification);
                    }
                    Message::Response(response) => conversation.questions.answered(response),
                    // Handled above.
                    Message::Request(_) => {}
                }
                return empty(StatusCode::ACCEPTED);
            }
        };
        match self.shared.server.accept_batch(conversation, &client.peer, messages) {
            Ok(batch) if !batch.wants_answer() => empty(StatusCode::ACCEPTED),
            Ok(batch) => {
                let on_disconnect = session_stream(session);
                self.run(|before| batch.run(before), client, accepts, on_disconnect).await
            }
            Err(refused) => answered(StatusCode::BAD_REQUEST, refused.bytes),
        }
    }

    async fn stateless(
        &self,
        client: &Client,
        headers: &HeaderMap,
        request: &Request<'_>,
        members: &Members<'_>,
        version: &str,
        accepts: Accepts,
    ) -> Response {
        let headers_agree = standard_headers::check(headers, request, members, version)
            .and_then(|()| stateless_revision(version))
            .and_then(|_| called_tool(request, members));
        let tool = match headers_agree {
            Ok(tool) => tool,
            Err(error) => return bad_request(Some(&request.id), &error),
        };
        if let Some(tool) = tool {
            let marks = match self.header_arguments(&tool, members, &client.peer).await {
                Ok(marks) => marks,
                Err(full) => return overloaded(Some(&request.id), &full),
            };
            let checked = marks.map(|it| standard_headers::check_params(headers, members, &it));
            if let Some(Err(error)) = checked {
                return bad_request(Some(&request.id), &error);
            }
        }
        // A subscription lasts as long as its client listens, so it must not take a slot of the
        // requests, which are expected to end.
        let listens = request.method == "subscriptions/listen";
        if listens && !accepts.events {
            return refused(StatusCode::NOT_ACCEPTABLE, "accept must name text/event-stream");
        }
        let shares = &self.shared.server.shared.shares;
        let slots = if listens { &shares.listening } else { &shares.calls };
        let slot = match slots.enter(&client.peer.caller, 1).await {
            Ok(slot) => slot,
            Err(full) => return overloaded(Some(&request.id), &full),
        };
        // Ids are unique for each client, and each request may come from another client: each gets
        // its own conversation.
        let conversation = Arc::new(Conversation::new(None, 1).of_peer(&client.peer));
        let accepted =
            self.shared.server.accept(&conversation, &client.peer, request, members, Some(slot));
        match accepted {
            Ok(call) => {
                // Closing the connection cancels its request.
                let time_left =
                    client.principal().filter(|_| listens).and_then(Principal::time_left);
                let on_disconnect =
                    OnDisconnect::Cancel { on_drop: call.cancellation().drop_guard(), time_left };
                self.run(|before| call.run(before), client, accepts, on_disconnect).await
            }
            Err(refused) => answered(refused_status(refused.kind), refused.bytes),
        }
    }

    /// Returns the arguments of a tool that headers must repeat; waits until the handler knows the
    /// tool.
    async fn header_arguments(
        &self,
        tool: &str,
        members: &Members<'_>,
        sender: &Peer,
    ) -> Result<Option<Arc<HeaderArguments>>, Full> {
        let handler = &self.shared.server.shared.handler;
        let Some(headers) = handler.tool_headers() else {
            // A tool with invalid marks is not listed, so its author notices.
            let schema = handler.input_schema(tool);
            return Ok(schema.and_then(|schema| HeaderArguments::of(&schema).ok().flatten()));
        };
        let meta = members.read::<RequestMeta>("_meta").ok().flatten().unwrap_or_default();
        let client = meta.client_info.as_ref();
        if let Some(marks) = headers.arguments(tool, client, sender) {
            return Ok(Some(marks));
        }
        headers.known(tool, sender).await?;
        Ok(headers.arguments(tool, client, sender))
    }

    async fn initialize(
        &self,
        client: &Client,
        request: &Request<'_>,
        members: &Members<'_>,
    ) -> Response {
        let Some(id) = session_id() else {
            return refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the system gives no random numbers",
            );
        };
        let limits = self.shared.server.limits();
        let conversation = Conversation::new(Some(id.clone()), limits.max_in_flight);
        let conversation = Arc::new(conversation.of_peer(&client.peer));
        let server = &self.shared.server;
        let caller = &client.peer.caller;
        let slot = match server.shared.shares.calls.enter(caller, 1).await {
            Ok(slot) => slot,
            Err(full) => return overloaded(Some(&request.id), &full),
        };
        let accepted = server.accept(&conversation, &client.peer, request, members, Some(slot));
        let call = match accepted {
            Ok(call) => call,
            Err(refused) => return answered(StatusCode::OK, refused.bytes),
        };
        // The answer is plain JSON with the session's id in its head: nothing is sent before it.
        let Some(answer) = call.run(detached()).await else { return empty(StatusCode::ACCEPTED) };
        if answer.kind != Kind::Answer(None) {
            return answered(StatusCode::OK, answer.bytes);
        }
        let replay = self.shared.replay.add_session();
        let sessions = &self.shared.sessions;
        if let Err(full) = sessions.insert(id.clone(), conversation, caller.clone(), replay) {
            return overloaded(Some(&request.id), &full);
        }
        self.sweep();
        // If the endpoint was closed meanwhile, the new session must end, too.
        if self.shared.closed.is_cancelled() {
            self.shared.sessions.end_all();
            return closed();
        }
        let mut response = answered(StatusCode::OK, answer.bytes);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
    }

    /// Starts the task that ends expired sessions, as long as the endpoint exists. Some clients
    /// never delete their session (openai/codex#41600).
    fn sweep(&self) {
        self.shared.sweeps.call_once(|| {
            let limits = self.shared.server.limits();
            let shortest = limits.session_idle.min(limits.replay_time);
            let pause = (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(30));
            let shared = Arc::downgrade(&self.shared);
            let closed = self.shared.closed.clone();
            tokio::spawn(closed.run_until_cancelled_owned(async move {
                loop {
                    tokio::time::sleep(pause).await;
                    let Some(shared) = shared.upgrade() else { return };
                    shared.sessions.end_expired();
                    shared.replay.drop_expired();
                }
            }));
        });
    }

    async fn in_session(
        &self,
        session: &Session,
        client: &Client,
        request: &Request<'_>,
        members: &Members<'_>,
        accepts: Accepts,
    ) -> Response {
        let conversation = &session.conversation;
        // If no slot is free, the request waits for one in `run_in_turn`, after it is accepted:
        // only then can a `notifications/cancelled` reach it while it waits.
        let slot = self.shared.server.shared.shares.calls.try_enter(&client.peer.caller, 1).ok();
        match self.shared.server.accept(conversation, &client.peer, request, members, slot) {
            Ok(call) => {
                let on_disconnect = session_stream(session);
                self.run(|before| call.run_in_turn(before), client, accepts, on_disconnect).await
            }
            Err(refused) => answered(StatusCode::OK, refused.bytes),
        }
    }

    /// Runs work in the task of its connection, which costs no wake-up of another thread: a
    /// stateless echo takes 19 µs of CPU instead of 29 (2026-11-21). If the work takes longer than
    /// the connection waits, it goes on in a task of its own.
    async fn run<F>(
        &self,
        work: impl FnOnce(mpsc::Sender<Outgoing>) -> F,
        client: &Client,
        accepts: Accepts,
        on_disconnect: OnDisconnect,
    ) -> Response
    where
        F: Future<Output = Option<Outgoing>> + Send + 'static,
    {
        let (sender, mut messages) = mpsc::channel(self.shared.server.limits().queue());
        // A client that does not accept events loses the messages before the answer.
        let work = work(if accepts.events { sender.clone() } else { detached() });
        let mut running = Running::new(work, sender, self.shared.closed.clone());
        // A stream begins with status 200, so it begins as late as possible: until then, an error
        // can still have the status that its revision requires.
        let answer = tokio::select! {
            biased;
            Some(first) = messages.recv() => {
                return on_disconnect.stream(Some(first), messages, client);
            }
            answer = running.answer() => answer,
            () = self.shared.closed.cancelled() => return closed(),
            () = self.shared.pulse.wait(self.shared.options.stream_after), if accepts.events => {
                return on_disconnect.stream(None, messages, client);
            }
            // Only writes to a stream show whether a client that has shut down its writing side
            // still reads.
            () = client.half_closed(), if accepts.events => {
                return on_disconnect.stream(None, messages, client);
            }
        };
        // A cancelled request has no answer, but HTTP requires one.
        let Some(answer) = answer else { return empty(StatusCode::ACCEPTED) };
        // Unlike `try_recv`, this forgets the connection's task if there is no message: otherwise
        // the end of the channel schedules the task again, and wakes a second thread for it.
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(first)) = messages.poll_recv(&mut cx) {
            // Other tasks of the handler may have filled the queue.
            if let Err(TrySendError::Full(answer)) = running.answers.try_send(answer) {
                let answers = running.answers.clone();
                tokio::spawn(async move { answers.send(answer).await });
            }
            return on_disconnect.stream(Some(first), messages, client);
        }
        if let Some(scopes) = &answer.scopes {
            let authenticator = self.shared.options.authenticator.as_deref();
            return step_up(authenticator, scopes, answer.bytes);
        }
        match answer.kind {
            Kind::Answer(error) if accepts.json => {
                answered(on_disconnect.status(error), answer.into_counted_bytes())
            }
            _ => on_disconnect.whole(answer),
        }
    }

    fn get(&self, client: &Client, headers: &HeaderMap) -> Response {
        if names_stateless_version(headers) {
            return not_allowed("POST");
        }
        if !Accepts::of(headers).events {
            return refused(StatusCode::NOT_ACCEPTABLE, "accept must name text/event-stream");
        }
        let session = match self.session(&client.peer, headers) {
            Ok(session) => session,
            Err((status, why)) => return refused(status, why),
        };
        if let Some(id) = headers.get("last-event-id") {
            let last = id.to_str().ok().and_then(EventId::parse);
            let max_queued = self.shared.server.limits().queue();
            return match last.and_then(|last| session.replay.resume(last, max_queued)) {
                Some(messages) => {
                    let body = ResponseBody::events(None, messages, BodyEnd::default());
                    events(body.probing(client.connection.as_ref()))
                }
                // Not 404, which means that the session has ended: the client would initialise
                // again (2025-11-25, "Session Management").
                None => refused(
                    StatusCode::BAD_REQUEST,
                    "events after Last-Event-ID are no longer available",
                ),
            };
        }
        let Some(listener) = session.conversation.session.get().map(|facts| facts.listener.clone())
        else {
            return refused(StatusCode::BAD_REQUEST, "the session is not initialized");
        };
        let (sender, messages) = mpsc::channel(1);
        let stream_open = session.open_stream();
        let ending = session.conversation.ending.clone();
        let shutdown = self.shared.server.shared.shutdown.clone();
        let replaced = stream_open.clone();
        let cut = client.peer.cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = forward(&listener, sender) => {}
                () = ending.cancelled() => {}
                () = shutdown.cancelled() => {}
                () = replaced.cancelled() => {}
                () = cut.cancelled() => {}
            }
        });
        let end = BodyEnd { _on_drop: Some(stream_open.drop_guard()), until_answered: false };
        let body = ResponseBody::events(None, messages, end)
            .within(client.principal().and_then(Principal::time_left))
            .probing(client.connection.as_ref());
        events(body)
    }

    fn delete(&self, sender: &Peer, headers: &HeaderMap) -> Response {
        if names_stateless_version(headers) {
            return not_allowed("POST");
        }
        match headers.get(SESSION_ID).and_then(|id| id.to_str().ok()) {
            None => refused(StatusCode::BAD_REQUEST, "header 'Mcp-Session-Id' is missing"),
            Some(id) if self.shared.sessions.end(id, sender) => empty(StatusCode::NO_CONTENT),
            Some(_) => refused(StatusCode::NOT_FOUND, "unknown session"),
        }
    }

    #[cfg(test)]
    pub(super) fn session_of(&self, id: &str) -> Option<Arc<Session>> {
        self.shared.sessions.get(id, &Peer::local())
    }

    #[cfg(test)]
    pub(super) fn replay_bytes(&self) -> usize {
        self.shared.replay.bytes()
    }

    /// Returns the session in the headers, or the status and the reason of a refusal.
    fn session(
        &self,
        sender: &Peer,
        headers: &HeaderMap,
    ) -> Result<Arc<Session>, (StatusCode, &'static str)> {
        if let Some(version) = headers.get(PROTOCOL_VERSION) {
            let known = version.to_str().ok().and_then(|version| version.parse::<Revision>().ok());
            if known.is_none() {
                return Err((
                    StatusCode::BAD_REQUEST,
                    "header 'Mcp-Protocol-Version' does not name a known revision",
                ));
            }
        }
        let Some(id) = headers.get(SESSION_ID) else {
            return Err((
                StatusCode::BAD_REQUEST,
                "header 'Mcp-Session-Id' is missing: send initialize first, or name a revision without sessions in 'MCP-Protocol-Version'",
            ));
        };
        let session = id.to_str().ok().and_then(|id| self.shared.sessions.get(id, sender));
        session.ok_or((StatusCode::NOT_FOUND, "unknown session; it may have ended"))
    }
}

/// Forwards announcements until the receiver is dropped.
async fn forward(listener: &Listener, sender: mpsc::Sender<Outgoing>) {
    loop {
        // Reserve a slot first: a message that is taken from the queue must be sent.
        let Ok(room) = sender.reserve().await else { return };
        tokio::select! {
            message = listener.next() => room.send(Outgoing::notification(message)),
            () = sender.closed() => return,
        }
    }
}

/// Returns the complete message within the limits of size, time and total bytes; or a refusal.
pub(super) async fn read_body<B>(
    body: B,
    server: &Server,
    options: &HttpOptions,
    peer: &Peer,
) -> Result<Received, Box<Response>>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let max_bytes = server.limits().max_message_bytes;
    let error = match server.receive(peer, body, max_bytes, options.body_timeout).await {
        Ok(received) => return Ok(received),
        Err(error) => error,
    };
    Err(Box::new(match error {
        ReceiveError::TooLong { .. } => {
            let error = RpcError::limit_exceeded(error.to_string());
            let mut response =
                answered(StatusCode::PAYLOAD_TOO_LARGE, Outgoing::error(None, &error).bytes);
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
        ReceiveError::Broken(_) => refused(StatusCode::BAD_REQUEST, error),
        ReceiveError::Late => refused(StatusCode::REQUEST_TIMEOUT, error),
        ReceiveError::Full(full) => overloaded(None, &full),
    }))
}

/// The forms of answers that a client accepts.
#[derive(Clone, Copy)]
struct Accepts {
    json: bool,
    events: bool,
}

impl Accepts {
    fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self { json: false, events: false };
        let mut named = false;
        for value in headers.get_all(header::ACCEPT) {
            named = true;
            for range in value.to_str().unwrap_or_default().split(',') {
                let range = range.split(';').next().unwrap_or_default().trim();
                if range == "*/*" {
                    return Self { json: true, events: true };
                }
                accepts.json |= is_one_of(range, ["application/json", "application/*"]);
                accepts.events |= is_one_of(range, ["text/event-stream", "text/*"]);
            }
        }
        if named { accepts } else { Self { json: true, events: false } }
    }
}

fn is_one_of(range: &str, names: [&str; 2]) -> bool {
    names.iter().any(|name| range.eq_ignore_ascii_case(name))
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

fn names_stateless_version(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    version
        .and_then(|version| version.parse::<Revision>().ok())
        .is_some_and(|known| known.era() == Era::Stateless)
}

/// Returns the revision in a request's `_meta`, which marks the stateless era.
fn version_in_meta(members: &Members<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: Option<String>,
    }
    members.read::<Meta>("_meta").ok()??.version
}

/// Returns a new session id: 128 random bits.
pub(super) fn session_id() -> Option<Arc<str>> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}

/// Returns the status of a request that was refused before its method was called.
fn refused_status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Answer(Some(error_code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        Kind::Answer(_) | Kind::Notification | Kind::Close(_) => StatusCode::BAD_REQUEST,
    }
}

/// The handling of a stream whose connection breaks.
enum OnDisconnect {
    /// The request is cancelled: the stateless era.
    Cancel {
        on_drop: DropGuard,
        /// Maximum time that the stream stays open.
        time_left: Option<Duration>,
    },
    /// The work continues, and its messages are stored for a client that returns: a session.
    Replay {
        replay: Arc<Replay>,
        /// Whether the stream starts with an opening event; clients before 2025-11-25 do not expect
        /// one.
        opening: bool,
    },
}

fn session_stream(session: &Session) -> OnDisconnect {
    let revision = session.conversation.session.get().map(|facts| facts.revision);
    let opening = revision.is_some_and(|revision| revision >= Revision::V2025_11_25);
    OnDisconnect::Replay { replay: session.replay.clone(), opening }
}

impl OnDisconnect {
    /// Returns the HTTP status of an answer. Only the stateless era has others than 200
    /// (2026-07-28, "Streamable HTTP").
    fn status(&self, error: Option<i32>) -> StatusCode {
        match (self, error) {
            (Self::Cancel { .. }, Some(error_code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
            (
                Self::Cancel { .. },
                Some(
                    error_code::HEADER_MISMATCH
                    | error_code::MISSING_CAPABILITY
                    | error_code::UNSUPPORTED_VERSION,
                ),
            ) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        }
    }

    /// Returns the response with an answer that is ready and has no messages before it.
    fn whole(self, answer: Outgoing) -> Response {
        events(match self {
            Self::Cancel { .. } => ResponseBody::event(answer, None, false),
            Self::Replay { replay, opening } => {
                ResponseBody::event(answer, Some(&replay.open()), opening)
            }
        })
    }

    fn stream(
        self,
        first: Option<Outgoing>,
        messages: mpsc::Receiver<Outgoing>,
        client: &Client,
    ) -> Response {
        let body = match self {
            Self::Cancel { on_drop, time_left } => {
                let end = BodyEnd { _on_drop: Some(on_drop), until_answered: true };
                ResponseBody::events(first, messages, end).within(time_left)
            }
            Self::Replay { replay, opening } => {
                let end = BodyEnd { _on_drop: None, until_answered: true };
                ResponseBody::events(first, messages, end).logged(replay.open(), opening)
            }
        };
        events(body.probing(client.connection.as_ref()))
    }
}

/// Returns the tool of a request, if the request calls one.
fn called_tool(request: &Request<'_>, members: &Members<'_>) -> Result<Option<String>, RpcError> {
    match &*request.method {
        "tools/call" => standard_headers::target(request, members),
        _ => Ok(None),
    }
}

/// Refuses a message with an error.
fn bad_request(id: Option<&RequestId>, error: &RpcError) -> Response {
    answered(StatusCode::BAD_REQUEST, Outgoing::error(id, error).bytes)
}

/// Refuses a request because of load.
fn overloaded(id: Option<&RequestId>, full: &Full) -> Response {
    let error = RpcError::too_many_requests(full.to_string());
    let json = Outgoing::error(id, &error).bytes;
    retry_later(answered(StatusCode::SERVICE_UNAVAILABLE, json))
}

/// Returns the response of a closed endpoint.
fn closed() -> Response {
    refused(StatusCode::SERVICE_UNAVAILABLE, "the server is going down")
}
