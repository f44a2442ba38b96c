//! The table `auth` of an upstream: OAuth 2.1.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_oauth::client::{
    ClientProof, DirectoryStore, Grant, OAuth, OAuthOptions, RegisteredClient, UserAgent,
};
use marquetry_protocol::client::{AuthorizationError, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{user_folder, variable};

/// OAuth 2.1 at an upstream: by a person's login (`marquetry login`), or with the server's own
/// credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LoginConfig {
    /// Client id of this server, if it is registered with the authorization server by hand.
    pub client_id: Option<String>,
    /// Environment variable with the client secret.
    pub client_secret_env: Option<String>,
    /// Issuer that the client id belongs to; no other issuer receives it. Required with a secret;
    /// by default the first issuer that the upstream names.
    pub issuer: Option<String>,
    /// URL of this server's client metadata document, which is the client id at authorization
    /// servers that support such documents.
    pub client_metadata_url: Option<String>,
    /// Scopes to request besides those that the upstream names.
    pub scopes: Vec<String>,
    /// "person" logs in with `marquetry login`; "client_credentials" needs a client id and a
    /// secret, but no person.
    pub grant: LoginGrant,
}

/// The grant by which this server gets tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginGrant {
    /// A person logs in with `marquetry login`.
    #[default]
    Person,
    /// The server's own credentials.
    ClientCredentials,
}

impl LoginConfig {
    /// Returns the authorizer for `url`. It stores tokens in `directory`, and asks a person through
    /// `user_agent` if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL or the client id cannot be used, or the variable with the secret
    /// is not set.
    pub fn authorizer(
        &self,
        url: &str,
        directory: Option<&Path>,
        user_agent: Option<Arc<dyn UserAgent>>,
        network: &Network,
    ) -> Result<OAuth, AuthorizationError> {
        let mut options = OAuthOptions::default();
        options.network = network.clone();
        options.user_agent = user_agent;
        if let Some(directory) = directory {
            options.store = Arc::new(DirectoryStore::new(directory));
        }
        if let Some(id) = &self.client_id {
            let proof = match &self.client_secret_env {
                None => ClientProof::None,
                Some(name) => ClientProof::Secret(
                    variable(name)
                        .ok_or_else(|| {
                            let problem = format!("the environment variable {name} is not set");
                            AuthorizationError::Credentials(problem)
                        })?
                        .into(),
                ),
            };
            options.client =
                Some(RegisteredClient { id: id.clone(), proof, issuer: self.issuer.clone() });
        }
        options.client_metadata_url.clone_from(&self.client_metadata_url);
        options.scopes.clone_from(&self.scopes);
        if self.grant == LoginGrant::ClientCredentials {
            options.grant = Grant::ClientCredentials;
        }
        OAuth::new(url, options)
    }

    /// Checks for combinations of keys that can never work.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match (self.grant, &self.client_id, &self.client_secret_env) {
            (LoginGrant::ClientCredentials, None, _) | (LoginGrant::ClientCredentials, _, None) => {
                Err("grant \"client_credentials\" needs \"client_id\" and \"client_secret_env\"")
            }
            (_, None, Some(_)) => Err("\"client_secret_env\" needs \"client_id\""),
            // Without `issuer`, the upstream could name an authorization server of its own and
            // receive the secret.
            (_, _, Some(_)) if self.issuer.is_none() => {
                Err("\"client_secret_env\" needs \"issuer\", the authorization server that gave it")
            }
            _ => Ok(()),
        }
    }
}

/// Returns the user's directory for tokens of upstreams: below `$XDG_STATE_HOME` or
/// `~/.local/state`.
pub(super) fn credentials_directory(
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<PathBuf> {
    Some(user_folder(variable, "XDG_STATE_HOME", ".local/state")?.join("marquetry/credentials"))
}
