//! The table `auth` of an upstream: OAuth 2.1.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_oauth::client::{
    ClientProof, DirectoryStore, Grant, LoopbackBrowser, OAuth, OAuthOptions, RegisteredClient,
    SecretMethod, UserAgent,
};
use marquetry_protocol::client::{AuthorizationError, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{user_folder, variable};

/// OAuth 2.1 at an upstream: by a person's login (`marquetry login`), or with the server's own
/// credentials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// "client_secret_basic" or "client_secret_post": the way to send the client secret; by default
    /// the one that the authorization server names.
    pub token_endpoint_auth_method: Option<SecretMethodName>,
    /// Redirect URI of `marquetry login`, if one was registered by hand:
    /// "http://localhost:8080/callback". Without a port a free one is taken, at 127.0.0.1 by
    /// default.
    pub redirect_uri: Option<String>,
    /// false leaves out the parameter `resource`, which Entra ID refuses.
    pub send_resource: bool,
    /// URL of this server's client metadata document, which is the client id at authorization
    /// servers that support such documents.
    pub client_metadata_url: Option<String>,
    /// Scopes to request besides those that the upstream names.
    pub scopes: Vec<String>,
    /// "person" logs in with `marquetry login`; "client_credentials" needs a client id and a
    /// secret, but no person.
    pub grant: LoginGrant,
}

impl Default for LoginConfig {
    fn default() -> Self {
        Self {
            client_id: None,
            client_secret_env: None,
            issuer: None,
            token_endpoint_auth_method: None,
            redirect_uri: None,
            send_resource: true,
            client_metadata_url: None,
            scopes: Vec::new(),
            grant: LoginGrant::default(),
        }
    }
}

/// A way to send the client secret (RFC 7591, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretMethodName {
    /// In a header, with Basic authentication.
    ClientSecretBasic,
    /// In the body.
    ClientSecretPost,
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
        options.secret_method = self.token_endpoint_auth_method.map(|method| match method {
            SecretMethodName::ClientSecretBasic => SecretMethod::Basic,
            SecretMethodName::ClientSecretPost => SecretMethod::Post,
        });
        options.send_resource = self.send_resource;
        options.client_metadata_url.clone_from(&self.client_metadata_url);
        options.scopes.clone_from(&self.scopes);
        if self.grant == LoginGrant::ClientCredentials {
            options.grant = Grant::ClientCredentials;
        }
        OAuth::new(url, options)
    }

    /// Checks for combinations of keys that can never work.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self
            .redirect_uri
            .as_ref()
            .is_some_and(|uri| LoopbackBrowser::check_redirect_uri(uri).is_err())
        {
            return Err("\"redirect_uri\" must be an http URL of this machine: \
                http://localhost:8080/callback");
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_login_are_named() {
        for (toml, want) in [
            ("", None),
            ("redirect_uri = 'http://localhost:8080/callback'", None),
            ("send_resource = false\ntoken_endpoint_auth_method = 'client_secret_basic'", None),
            (
                "redirect_uri = 'https://tools.example/callback'",
                Some(
                    "\"redirect_uri\" must be an http URL of this machine: http://localhost:8080/callback",
                ),
            ),
            (
                "grant = 'client_credentials'",
                Some("grant \"client_credentials\" needs \"client_id\" and \"client_secret_env\""),
            ),
        ] {
            let login: LoginConfig = toml::from_str(toml).unwrap();
            assert_eq!(login.check().err(), want, "{toml}");
        }
    }
}
