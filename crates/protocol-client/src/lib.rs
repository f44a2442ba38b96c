#![doc = include_str!("../README.md")]

#[cfg(feature = "http")]
mod authorization;
#[cfg(feature = "http")]
mod authorizer;
#[cfg(feature = "stdio")]
mod child;
#[cfg(feature = "stdio")]
mod environment;
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
mod list_item;
mod lists;
mod log_rate;
mod methods;
#[cfg(feature = "http")]
mod network;
mod options;
mod params;
mod pipe;
#[cfg(feature = "stdio")]
mod program;
mod questions;
#[cfg(feature = "schema")]
mod results;
#[cfg(feature = "http")]
mod server_url;
mod shared;
#[cfg(feature = "skills")]
mod skills;
#[cfg(feature = "http")]
mod sse;
mod subscribing;
mod tasks;
mod upgrade;

use std::{pin::Pin, sync::Arc, time::Duration};

use marquetry_protocol_wire::{
    Era, error_code, null_members::remove_null_members, types::CallToolParams,
};
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "http")]
use self::authorization::authorized;
#[cfg(feature = "http")]
pub use marquetry_redact::url_without_secrets as without_secrets;

#[cfg(feature = "skills")]
pub use self::skills::{LoadedSkill, SKILLS_EXTENSION, SkillEntry, SkillError, SkillFile};
#[cfg(feature = "http")]
pub use self::{
    authorizer::{AuthorizationError, Authorizer, Interaction, Refusal},
    http::HttpTarget,
    network::{Connector, Network, NetworkError},
    server_url::{ServerUrlError, parse_server_url},
};
#[cfg(feature = "stdio")]
pub use self::{
    child::{Stderr, StdioCommand},
    environment::{is_default_variable, variable_matches},
    program::{ProgramError, check_program},
};
pub use self::{
    error::{ClientError, ProtocolError},
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

/// A connection to one MCP server. Cheap to clone. Dropping the last clone closes the connection,
/// and ends a child process or an HTTP session in the background. [`Self::close`] waits for that.
///
/// If the server has dropped the HTTP session, the next request opens a new one with the same log
/// level and subscriptions, and notifications say that all lists may have changed.
///
/// Dropping the future of a call cancels it at the server.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientShared>,
}

struct ClientShared {
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
    /// Returns an error if the program cannot be started, exits, or does not answer the handshake
    /// in time.
    #[cfg(feature = "stdio")]
    pub async fn spawn(command: StdioCommand, options: ClientOptions) -> Result<Self, ClientError> {
        let link = Link::Pipe(child::start(command, &options)?);
        Self::shake_hands(link, options).await
    }

    /// Connects over any pair of pipes.
    ///
    /// # Errors
    /// Returns an error if the server ends the connection or does not answer the handshake in time.
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

    /// Connects over Streamable HTTP, or over HTTP+SSE (the transport of 2024-11-05) if the server
    /// supports only that.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, the server cannot be reached, or it does not speak
    /// MCP.
    #[cfg(feature = "http")]
    pub async fn http(target: HttpTarget, options: ClientOptions) -> Result<Self, ClientError> {
        let link = Link::Http(http::HttpLink::new(&target, &options)?);
        match Self::shake_hands(link, options.clone()).await {
            // A server with Streamable HTTP does not refuse a POST with these (2025-11-25,
            // "Backwards Compatibility").
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
        let inner = ClientShared {
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

    /// Calls a tool and returns the result object as the server wrote it, for programs that forward
    /// it. [`Self::call_tool`] and [`Self::call_tool_as`] parse it. If the server continues the
    /// call as a task, this waits for the task's result ([`Self::start_tool`] returns the task
    /// instead).
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does. A failed tool is a result, not an error.
    /// [`ClientError::OutputSchema`], which contains the result, if the result violates the tool's
    /// `outputSchema`: for tools that this client has [listed](Self::list_tools), unless the
    /// [options](ClientOptions::check_results) disable the check.
    pub async fn call_tool_raw(
        &self,
        call: &CallToolParams,
        options: CallOptions,
    ) -> Result<Box<RawValue>, ClientError> {
        let params = serde_json::value::to_raw_value(call).map_err(ClientError::params)?;
        let result = self.request("tools/call", Some(&params), options).await?;
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            return self.inner.schemas.check(&call.name, result);
        }
        Ok(result)
    }

    /// Sends any request, with JSON parameters (an object) and the result as JSON: the raw call
    /// behind the typed methods.
    ///
    /// # Errors
    /// Returns an error if the server answers with one, or does not answer.
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
            // If this future ends before the task, no one needs the task's result.
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
        // Leaving this select drops the exchange, which cancels the request at the server.
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ClientError::Cancelled),
            result = work => result.map(|result| self.without_nulls(method, result)),
        }
    }

    /// Removes the members of a result that are `null`, if the options say so.
    fn without_nulls(&self, method: &str, result: Box<RawValue>) -> Box<RawValue> {
        if !self.inner.options.remove_nulls {
            return result;
        }
        match remove_null_members(method, self.inner.server.revision.era(), &result) {
            Some(changed) => {
                tracing::debug!(method, "removed members that are null from a result");
                changed
            }
            None => result,
        }
    }

    /// Boxed, because listing makes requests in turn.
    fn list_again(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if let Err(error) = self.list_tools().await {
                tracing::debug!(%error, "tools cannot be listed");
            }
        })
    }

    /// Returns whether the server answers within `limit`: to `ping` in a session, to
    /// `server/discover` without one. An error is an answer, too.
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

    /// Sends a request, repeated as often as the server asks for input.
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
                    return Err(ProtocolError::ResultType { method: method.to_owned() }.into());
                }
            }
            let asked: InputRequired = serde_json::from_str(result.get())
                .map_err(|error| ClientError::result(method, error))?;
            // A result without a question only asks to repeat the request.
            if own.pass_questions && asked.asks() {
                return Ok(result);
            }
            let handler = own.handler.as_ref().unwrap_or(&defaults.handler);
            next = Some(questions::next_round(&**handler, params, asked).await?);
        }
        Err(ClientError::TooManyRounds(defaults.max_rounds))
    }

    /// Sends a request once, or again after it was authorized.
    async fn once(
        &self,
        method: &str,
        params: Option<&RawValue>,
        timeout: Option<Duration>,
        own: &RequestState,
        authorizations: &mut usize,
    ) -> Result<Box<RawValue>, ClientError> {
        let ClientShared { link, server, options: defaults, .. } = &*self.inner;
        let timeout = timeout.unwrap_or(defaults.request_timeout);
        let mut listed = false;
        loop {
            let answer = link.request(server, defaults, method, params, own);
            // A login may take longer than a request.
            let outcome = tokio::time::timeout(timeout, answer)
                .await
                .unwrap_or(Err(ClientError::Timeout(timeout)));
            // The server requires a header that only its list of tools describes (2026-07-28,
            // "Client Behavior").
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

    /// Returns whether the server continues a call as a task.
    fn is_task(&self, result: &RawValue) -> bool {
        self.inner.server.revision.era() == Era::Stateless
            && ResultKind::of(result) == ResultKind::Task
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// Returns an error if the connection is closed.
    pub async fn notify(&self, method: &str, params: Option<&RawValue>) -> Result<(), ClientError> {
        self.inner.link.notify(&self.inner.server, method, params).await
    }

    /// Returns a receiver of the server's notifications, except progress, which goes to its call. A
    /// receiver that lags by more than 256 misses the oldest.
    #[must_use]
    pub fn notifications(&self) -> broadcast::Receiver<ServerNotification> {
        self.inner.link.shared().notifications.subscribe()
    }

    /// Waits until the connection is closed, and returns the reason.
    pub async fn closed(&self) -> CloseReason {
        self.inner.link.shared().closed().await
    }

    /// Returns whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.link.shared().is_closed()
    }

    /// Closes the connection: ends an HTTP session; asks a child process to exit, then kills it.
    pub async fn close(&self) {
        self.inner.link.close().await;
    }
}

/// Only HTTP has authorization.
#[cfg(not(feature = "http"))]
async fn authorized<T>(
    outcome: Result<T, ClientError>,
    _: &ClientOptions,
    _: &mut usize,
) -> Result<Option<T>, ClientError> {
    outcome.map(Some)
}
