//! The authentication of HTTP requests: `[auth]`, an authenticator of the embedding program, or
//! none.

use std::sync::Arc;

use marquetry_config::Config;
use marquetry_console::Console;
use marquetry_oauth::server::{LoggingAuthenticator, ReplaceableAuthenticator, ResourceServer};
use marquetry_protocol::server::http::Authenticator;

use super::StartError;
use crate::console::ConsoleLoginAuthenticator;

/// The authentication that was configured or added.
pub(super) struct Access {
    /// Checks tokens as `[auth]` says, and has the metadata for clients that log in.
    pub(super) resource_server: Option<Arc<ResourceServer>>,
    /// [`None`] accepts every request.
    authenticator: Option<Arc<dyn Authenticator>>,
    /// The authenticator of `[auth]`, whose tokens may change.
    pub(super) reloadable: Option<Arc<ReplaceableAuthenticator>>,
}

impl Access {
    /// Reads `[auth]`, unless the embedding program has added its own authenticator.
    pub(super) fn new(
        config: &Config,
        added: Option<Arc<dyn Authenticator>>,
    ) -> Result<Self, StartError> {
        let resource_server = config.resource_server()?.map(Arc::new);
        if added.is_some() && resource_server.is_some() {
            return Err(StartError::TwoAuthenticators);
        }
        let configured = resource_server.clone().map(|server| server as Arc<dyn Authenticator>);
        let reloadable = configured.map(|server| Arc::new(ReplaceableAuthenticator::new(server)));
        let configured = reloadable.clone().map(|it| it as Arc<dyn Authenticator>);
        Ok(Self { resource_server, authenticator: added.or(configured), reloadable })
    }

    /// Fetches the issuer's signing keys in the background, so that the first request does not wait
    /// for them, and the server starts even if the issuer is down.
    pub(super) fn fetch_signing_keys(&self) {
        let Some(server) = self.resource_server.clone() else { return };
        tokio::spawn(async move {
            if let Err(problem) = server.warm_up().await {
                tracing::warn!(
                    problem,
                    "failed to fetch the issuer's signing keys; requests will try again"
                );
            }
        });
    }

    /// Returns the authenticator, which also accepts people who logged in to the console. A server
    /// without authentication needs no logins, and stays open.
    pub(super) fn with_logins(self, console: Option<&Console>) -> Option<Arc<dyn Authenticator>> {
        let authenticator = self.authenticator?;
        let inner: Arc<dyn Authenticator> = match console {
            Some(console) => {
                Arc::new(ConsoleLoginAuthenticator::new(console.clone(), authenticator))
            }
            None => authenticator,
        };
        Some(Arc::new(LoggingAuthenticator::new(inner)))
    }
}
