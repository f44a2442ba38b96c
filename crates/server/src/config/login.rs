//! How this server gets in at an upstream.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_oauth::client::{
    ClientProof, DirectoryStore, Grant, OAuth, OAuthOptions, RegisteredClient, UserAgent,
};
use marquetry_protocol::client::{AuthorizationError, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment;

/// How this server gets in at an upstream that wants OAuth 2.1: by a person's login (`marquetry login`), or with credentials of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LoginConfig {
    /// The id that the authorization server knows this server by, where it does not register clients by itself.
    pub client_id: Option<String>,
    /// The environment variable with the secret that goes with the id.
    pub client_secret_env: Option<String>,
    /// The issuer that gave the id; no other one sees it. Needed with a secret; else, when absent, the first that the upstream names.
    pub issuer: Option<String>,
    /// The URL of a document about this server, which is its id where authorization servers read such documents.
    pub client_metadata_url: Option<String>,
    /// Scopes to ask for beside those that the upstream names.
    pub scopes: Vec<String>,
    /// "person" logs in with `marquetry login`; "client_credentials" needs id and secret, and nobody.
    pub grant: LoginGrant,
}

/// By what this server gets tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoginGrant {
    /// A person logs in.
    #[default]
    Person,
    /// The server itself has the permission.
    ClientCredentials,
}

impl LoginConfig {
    /// What gets tokens for `url`, keeps them in `directory`, and asks a person by `user_agent` if there is one.
    pub(crate) fn authorizer(
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
                    environment(name)
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

    /// Says what can never work.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match (self.grant, &self.client_id, &self.client_secret_env) {
            (LoginGrant::ClientCredentials, None, _) | (LoginGrant::ClientCredentials, _, None) => {
                Err("grant \"client_credentials\" needs \"client_id\" and \"client_secret_env\"")
            }
            (_, None, Some(_)) => Err("\"client_secret_env\" needs \"client_id\""),
            // Else the upstream could name one that is only after the secret.
            (_, _, Some(_)) if self.issuer.is_none() => {
                Err("\"client_secret_env\" needs \"issuer\", the authorization server that gave it")
            }
            _ => Ok(()),
        }
    }
}

/// Returns the user's directory for tokens of upstreams: below `$XDG_STATE_HOME` or `~/.local/state`.
pub(super) fn credentials_directory() -> Option<PathBuf> {
    let state = environment("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(environment("HOME")?).join(".local/state"));
    let state = state.filter(|path| path.is_absolute()).or_else(home)?;
    Some(state.join("marquetry/credentials"))
}
