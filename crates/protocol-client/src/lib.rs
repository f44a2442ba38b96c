#![doc = include_str!("../README.md")]

#[cfg(feature = "http")]
mod authorization;
#[cfg(feature = "http")]
mod authorizer;
#[cfg(feature = "stdio")]
mod child;
mod error;
mod events;
#[cfg(all(any(test, fuzzing), feature = "http"))]
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod handshake;
#[cfg(feature = "http")]
mod http;
mod link;
mod lists;
mod log_rate;
mod methods;
#[cfg(feature = "http")]
mod network;
mod options;
mod params;
mod pipe;
mod questions;
#[cfg(feature = "schema")]
mod results;
mod shared;
#[cfg(feature = "skills")]
mod skills;
#[cfg(feature = "http")]
mod sse;
mod subscribing;
mod tasks;
mod upgrade;

use std::{pin::Pin, sync::Arc, time::Duration};

use marquetry_protocol_wire::{Era, error_code, types::CallToolParams};
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
use self::authorization::authorized;
#[cfg(feature = "stdio")]
pub use self::child::{Stderr, StdioCommand};
#[cfg(feature = "skills")]
pub use self::skills::{LoadedSkill, SKILLS_EXTENSION, SkillEntry, SkillError, SkillFile};
#[cfg(feature = "http")]
pub use self::{
    authorizer::{AuthorizationError, Authorizer, Interaction, Refusal},
    http::HttpTarget,
    network::{Connector, Network, NetworkError, without_secrets},
};
pub use self::{
    error::ClientError,
    events::{CloseReason, Progress, ServerNotification},
    handler::ClientHandler,
    lists::Fetched,
    options::{CallOptions, ClientOptions, RevisionChoice, ServerPeer},
    tasks::{StartedCall, TaskHandle},
};
use self::{
    link::Link,
    params::ResultKind,
    questions::InputRequired,
    shared::{RequestState, Shared},
    tasks::CancelOnDrop,
};

/// A connection to one MCP server. Cheap to clone; when the last clone is dropped the connection closes, and a child
/// process or an HTTP session ends, in the background. [`Self::close`] waits for that.
///
/// An HTTP session that the server has forgotten is opened anew, once a request: with its log level and subscriptions,
/// and with notifications that all lists may have changed.
///
/// Dropping the future of a call cancels it at the server.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    server: ServerPeer,
    options: ClientOptions,
    watched: tokio::sync::Mutex<subscribing::Watched>,
    #[cfg(feature = "schema")]
    schemas: results::Schemas,
}

impl Client {
    /// Starts a server as a child process and connects to its standard input and output.
    ///
    /// # Errors
    /// When the program cannot be started, ends, or does not introduce itself in time.
    #[cfg(feature = "stdio")]
    pub async fn spawn(command: StdioCommand, options: ClientOptions) -> Result<Self, ClientError> {
        let link = Link::Pipe(child::start(command, &options)?);
        Self::shake_hands(link, options).await
    }

    /// Connects over any pair of pipes.
    ///
    /// # Errors
    /// When the server ends or does not introduce itself in time.
    pub async fn connect<R, W>(
        reader: R,
        writer: W,
        options: ClientOptions,
    ) -> Result<Self, ClientError>
    where
        R: tokio::io::AsyncRead + Unpin + Send + 'static,
        W: tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let shared = Arc::new(Shared::new(&options));
        let link = Link::Pipe(pipe::PipeLink::start(reader, writer, shared, &options));
        Self::shake_hands(link, options).await
    }

    /// Connects over Streamable HTTP; where the server does not know it, over HTTP+SSE, the transport of 2024-11-05.
    ///
    /// # Errors
    /// When the URL is invalid, the server cannot be reached, or it does not speak MCP.
    #[cfg(feature = "http")]
    pub async fn http(target: HttpTarget, options: ClientOptions) -> Result<Self, ClientError> {
        let link = Link::Http(http::HttpLink::new(&target, &options)?);
        match Self::shake_hands(link, options.clone()).await {
            // No server of Streamable HTTP refuses a POST like this (2025-11-25, "Backwards Compatibility").
            Err(ClientError::Http { status, body }) if matches!(status, 400 | 404 | 405) => {
                match http::connect_legacy(&target, &options).await {
                    Ok(Some(link)) => Self::shake_hands(Link::Pipe(link), options).await,
                    _ => Err(ClientError::Http { status, body }),
                }
            }
            shaken => shaken,
        }
    }

    async fn shake_hands(link: Link, options: ClientOptions) -> Result<Self, ClientError> {
        let mut authorizations = 0;
        let server = loop {
            let outcome = handshake::introduce(&link, &options).await;
            if let Some(server) = authorized(outcome, &options, &mut authorizations).await? {
                break server;
            }
        };
        link.listen(&server, &options).await;
        let inner = Inner {
            link,
            server,
            options,
            watched: Default::default(),
            #[cfg(feature = "schema")]
            schemas: Default::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the server's description of itself.
    #[must_use]
    pub fn server(&self) -> &ServerPeer {
        &self.inner.server
    }

    /// Calls a tool; the answer is the result object as the server wrote it, for programs that pass it on.
    /// [`Self::call_tool`] and [`Self::call_tool_as`] read it. Where the server goes on with the call as a task, this follows it to its end ([`Self::start_tool`] gives the task instead).
    ///
    /// # Errors
    /// As [`Self::request`]. A tool that failed is a result, not an error. [`ClientError::OutputSchema`], which has the
    /// result all the same, when it is not what the tool's `outputSchema` promises: for tools that this client has
    /// [listed](Self::list_tools), unless the [options](ClientOptions::check_results) say otherwise.
    pub async fn call_tool_raw(
        &self,
        call: &CallToolParams,
        options: CallOptions,
    ) -> Result<Box<RawValue>, ClientError> {
        let params = serde_json::value::to_raw_value(call)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let result = self.request("tools/call", Some(&params), options).await?;
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            return self.inner.schemas.check(&call.name, result);
        }
        Ok(result)
    }

    /// Sends a request; `params` is a JSON object.
    ///
    /// # Errors
    /// The server's own error, or what kept its answer from coming.
    pub async fn request(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Box<RawValue>, ClientError> {
        let cancel = options.cancel.unwrap_or_default();
        let CallOptions {
            timeout, progress, handler, capabilities, log_level, pass_questions, ..
        } = options;
        let over = CancellationToken::new();
        let own = RequestState { progress, handler, capabilities, log_level, pass_questions, over };
        let work = async {
            let result = self.rounds(method, params, timeout, &own).await?;
            if !self.is_task(&result) {
                return Ok(result);
            }
            let task = TaskHandle::created(self, method, &result, &own)?;
            // If this ends before the task, nothing asks for its result.
            let cancel = CancelOnDrop::new(task.clone());
            let timeout = timeout.unwrap_or(self.inner.options.task_timeout);
            let result = tokio::time::timeout(timeout, task.follow(own.progress.clone()))
                .await
                .map_err(|_| ClientError::Timeout(timeout))?;
            if matches!(result, Ok(_) | Err(ClientError::Rpc(_) | ClientError::TaskCancelled)) {
                cancel.forget();
            }
            result
        };
        // To leave this select drops the exchange, which cancels the request at the server.
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ClientError::Cancelled),
            result = work => result,
        }
    }

    /// Boxed, because listing is requests again.
    fn list_again(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if let Err(error) = self.list_tools().await {
                tracing::debug!(%error, "tools cannot be listed");
            }
        })
    }

    /// Whether the server answers anything at all within `limit`: to `ping` in a session, to `server/discover` without
    /// one. An error is an answer.
    pub async fn is_alive(&self, limit: Duration) -> bool {
        let method = match self.inner.server.revision.era() {
            Era::Session => "ping",
            Era::Stateless => "server/discover",
        };
        let options = CallOptions { timeout: Some(limit), ..CallOptions::default() };
        !matches!(
            self.request(method, None, options).await,
            Err(ClientError::Timeout(_) | ClientError::Closed(_) | ClientError::Io { .. })
        )
    }

    /// Sends a request as often as the server asks for input first.
    async fn rounds(
        &self,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
        own: &RequestState,
    ) -> Result<Box<RawValue>, ClientError> {
        let defaults = &self.inner.options;
        let mut next: Option<Box<RawValue>> = None;
        let mut authorizations = 0;
        for _ in 0..defaults.max_rounds {
            let params = next.as_deref().or(params);
            let result = self.once(method, params, timeout, own, &mut authorizations).await?;
            if self.inner.server.revision.era() == Era::Session {
                return Ok(result);
            }
            match ResultKind::of(&result) {
                ResultKind::InputRequired => {}
                ResultKind::Complete | ResultKind::Task => return Ok(result),
                ResultKind::Unknown => {
                    let why =
                        format!("result of '{method}' has a type that this client does not know");
                    return Err(ClientError::Protocol(why));
                }
            }
            let asked: InputRequired = serde_json::from_str(result.get())
                .map_err(|error| ClientError::Protocol(error.to_string()))?;
            // One that asks nothing merely wants to be sent again.
            if own.pass_questions && asked.asks() {
                return Ok(result);
            }
            let handler = own.handler.as_ref().unwrap_or(&defaults.handler);
            next = Some(questions::next_round(&**handler, params, asked).await?);
        }
        Err(ClientError::TooManyRounds(defaults.max_rounds))
    }

    /// Sends a request once, or again after an authorization that it needed.
    async fn once(
        &self,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
        own: &RequestState,
        authorizations: &mut usize,
    ) -> Result<Box<RawValue>, ClientError> {
        let Inner { link, server, options: defaults, .. } = &*self.inner;
        let timeout = timeout.unwrap_or(defaults.request_timeout);
        let mut listed = false;
        loop {
            let answer = link.request(server, defaults, method, params, own);
            // To log in may take longer than a request.
            let outcome = tokio::time::timeout(timeout, answer)
                .await
                .unwrap_or(Err(ClientError::Timeout(timeout)));
            // The server misses a header that only its list of tools tells of (2026-07-28, "Client Behavior").
            if method == "tools/call"
                && !listed
                && matches!(&outcome, Err(ClientError::Rpc(error)) if error.code == error_code::HEADER_MISMATCH)
            {
                listed = true;
                self.list_again().await;
                continue;
            }
            if let Some(result) = authorized(outcome, defaults, authorizations).await? {
                return Ok(result);
            }
        }
    }

    /// Whether the server goes on with a call as a task.
    fn is_task(&self, result: &RawValue) -> bool {
        self.inner.server.revision.era() == Era::Stateless
            && ResultKind::of(result) == ResultKind::Task
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn notify(&self, method: &str, params: Option<&RawValue>) -> Result<(), ClientError> {
        self.inner.link.notify(&self.inner.server, method, params).await
    }

    /// The server's notifications from now on, but for progress, which goes to its call. A receiver that lags behind
    /// by more than 256 misses the oldest.
    #[must_use]
    pub fn notifications(&self) -> broadcast::Receiver<ServerNotification> {
        self.inner.link.shared().notifications.subscribe()
    }

    /// Completes when the connection is closed, with the reason.
    pub async fn closed(&self) -> CloseReason {
        self.inner.link.shared().closed().await
    }

    /// Whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.link.shared().is_closed()
    }

    /// Closes the connection: ends an HTTP session; asks a child process to end, then makes it.
    pub async fn close(&self) {
        self.inner.link.close().await;
    }
}

/// Nothing but HTTP knows authorization.
#[cfg(not(feature = "http"))]
async fn authorized<T>(
    outcome: Result<T, ClientError>,
    _: &ClientOptions,
    _: &mut usize,
) -> Result<Option<T>, ClientError> {
    outcome.map(Some)
}
