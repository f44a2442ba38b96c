//! A common interface of the transports.

use std::sync::Arc;

use marquetry_protocol_wire::{Feature, RequestId, envelope, types::Tool};
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};

#[cfg(feature = "http")]
use super::http::HttpLink;
use super::{
    error::ClientError,
    options::{ClientOptions, ServerPeer},
    params::{self, Asks},
    pipe::PipeLink,
    shared::{Outgoing, RequestState, Shared},
    upgrade,
};

/// A transport.
pub(super) enum Link {
    Pipe(PipeLink),
    #[cfg(feature = "http")]
    Http(HttpLink),
}

impl Link {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        match self {
            Self::Pipe(link) => link.shared(),
            #[cfg(feature = "http")]
            Self::Http(link) => link.shared(),
        }
    }

    /// Sends a request in the form of the server's revision, and waits for its result.
    pub(super) async fn request(
        &self,
        server: &ServerPeer,
        options: &ClientOptions,
        method: &str,
        params: Option<&RawValue>,
        own: &RequestState,
    ) -> Result<Box<RawValue>, ClientError> {
        let shared = self.shared();
        let id = shared.next_id();
        let asks = Asks {
            revision: server.revision,
            options,
            capabilities: own.capabilities.as_ref(),
            log_level: own.log_level,
            progress_token: own.progress.is_some().then_some(&id),
            // Questions of a task could not be forwarded.
            tasks: options.tasks && !own.pass_questions,
        };
        let prepared = params::prepare(params, &asks)?;
        let params = prepared.as_deref().or(params);
        let outgoing = Outgoing { id: id.clone(), method, params, own };
        let result = match self {
            Self::Pipe(link) => link.request(outgoing).await,
            #[cfg(feature = "http")]
            Self::Http(link) => link.request(server.revision, outgoing).await,
        }?;
        match method {
            "tools/call" if !server.revision.has(Feature::ContentList) => {
                upgrade::tool_answer(result)
            }
            _ => Ok(result),
        }
    }

    /// Learns the headers for calls from a complete list of tools, and removes tools that cannot be
    /// called.
    pub(super) fn learn(&self, server: &ServerPeer, tools: &mut Vec<Tool>) {
        match self {
            #[cfg(feature = "http")]
            Self::Http(link)
                if server.revision.era() == marquetry_protocol_wire::Era::Stateless =>
            {
                link.learn(tools);
            }
            // Only HTTP requests have headers.
            _ => _ = (server, tools),
        }
    }

    pub(super) async fn notify(
        &self,
        server: &ServerPeer,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<(), ClientError> {
        let _ = server;
        let message = envelope::write_notification(method, params);
        match self {
            Self::Pipe(link) => link.send(message).await,
            #[cfg(feature = "http")]
            Self::Http(link) => link.notify(server.revision, method, message).await,
        }
    }

    /// Starts to receive announcements, if that needs a request.
    pub(super) async fn listen(&self, server: &ServerPeer, options: &ClientOptions) {
        match self {
            Self::Pipe(link) => link.listen(server, options),
            #[cfg(feature = "http")]
            Self::Http(link) => link.listen(server, options).await,
        }
    }

    /// Opens another stream of notifications of a stateless server, until the guard is dropped. Its
    /// id is that of the first attempt; over HTTP it is reopened when it breaks.
    pub(super) async fn open_stream(
        &self,
        server: &ServerPeer,
        options: &ClientOptions,
        params: &RawValue,
    ) -> Result<(RequestId, DropGuard), ClientError> {
        let asks = Asks {
            revision: server.revision,
            options,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: options.tasks,
        };
        let prepared = params::prepare(Some(params), &asks)?;
        let id = self.shared().next_id();
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        match self {
            Self::Pipe(link) => link.stream(id.clone(), prepared, stop).await?,
            #[cfg(feature = "http")]
            Self::Http(link) => link.stream(server.revision, id.clone(), prepared, stop, None),
        }
        Ok((id, guard))
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Pipe(link) => link.close().await,
            #[cfg(feature = "http")]
            Self::Http(link) => link.close().await,
        }
    }
}
