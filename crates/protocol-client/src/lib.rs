#![doc = include_str!("../README.md")]

mod answer_memory;
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
mod list_item;
mod lists;
mod log_rate;
mod methods;
#[cfg(feature = "http")]
mod network;
mod options;
mod output;
mod pipe;
#[cfg(feature = "stdio")]
mod program;
#[cfg(feature = "stdio")]
mod program_error;
mod questions;
mod request;
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
mod terminal_codes;
#[cfg(feature = "http")]
mod unreached;
mod upgrade;

use std::{sync::Arc, time::Duration};

use marquetry_protocol_wire::Era;
use serde_json::value::RawValue;
use tokio::sync::broadcast;

#[cfg(feature = "http")]
use self::authorization::authorized;
#[cfg(feature = "http")]
pub use marquetry_redact::url_without_secrets as without_secrets;

#[cfg(feature = "skills")]
pub use self::skills::{LoadedSkill, SKILLS_EXTENSION, SkillEntry, SkillError, SkillFile};
pub use self::{
    answer_memory::AnswerMemory,
    error::{ClientError, ProtocolError},
    events::{CloseReason, Progress, ServerNotification},
    handler::ClientHandler,
    lists::{Fetched, SkippedItem},
    options::{CallOptions, ClientOptions, RevisionChoice, ServerPeer},
    tasks::{StartedCall, TaskHandle},
};
#[cfg(feature = "http")]
pub use self::{
    authorizer::{AuthorizationError, Authorizer, Interaction, Refusal},
    http::HttpTarget,
    network::{Connector, Network, NetworkError},
    server_url::{ServerUrlError, parse_server_url},
    unreached::UnreachedKind,
};
#[cfg(feature = "stdio")]
pub use self::{
    child::{Stderr, StdioCommand},
    environment::{is_default_variable, variable_matches},
    program::check_program,
    program_error::ProgramError,
};
use self::{request::Link, shared::Shared};

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
            // Servers without Streamable HTTP refuse a POST with 400, 404 or 405 (2025-11-25,
            // "Backwards Compatibility"), but some with 501 or 406.
            Err(ClientError::Http { status, body }) => {
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
