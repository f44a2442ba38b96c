//! How a client gets its authorization.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;

use marquetry_protocol::client::{AuthorizationError, Network};

use super::{CredentialStore, MemoryStore, UserAgent};
use crate::{Secret, SigningKey};

/// How a client gets its authorization, and what it puts up with.
#[derive(Clone)]
#[non_exhaustive]
pub struct OAuthOptions {
    /// By what it gets tokens: by a person who logs in, by default.
    pub grant: Grant,
    /// Where a person logs in; nowhere, by default, so that only stored tokens are used.
    pub user_agent: Option<Arc<dyn UserAgent>>,
    /// Where registrations and tokens are kept: in memory, by default.
    pub store: Arc<dyn CredentialStore>,
    /// Who we are, where an authorization server knows us already.
    pub client: Option<RegisteredClient>,
    /// Whether a client's secret without an [`issuer`](RegisteredClient::issuer) goes to whichever authorization server
    /// the MCP server names first: no. It is for whoever trusts the MCP server with that secret.
    pub secret_for_first_issuer: bool,
    /// An `https:` URL with a document about us, which is our id where an authorization server reads such documents
    /// (Client ID Metadata Document).
    pub client_metadata_url: Option<String>,
    /// What we call ourselves where we register: `marquetry`.
    pub client_name: String,
    /// Scopes to ask for, whatever the server says.
    pub scopes: Vec<String>,
    /// Whether to ask for a token that lasts beyond the login, where the authorization server has the scope
    /// `offline_access`: yes.
    pub offline_access: bool,
    /// Whether to prove possession of a key with each request where the server asks for it (RFC 9449): yes.
    pub proof_of_possession: bool,
    /// By which proxy authorization servers are reached, and which certificate authorities are trusted.
    pub network: Network,
    /// The longest document or answer to read from an authorization server, in bytes: 256 KiB.
    pub max_document_bytes: usize,
    /// How long an authorization server may take for an answer: 15 s.
    pub document_timeout: Duration,
    /// How long a person may take to log in: 10 minutes.
    pub login_timeout: Duration,
}

impl Default for OAuthOptions {
    fn default() -> Self {
        Self {
            grant: Grant::Login,
            user_agent: None,
            store: Arc::new(MemoryStore::default()),
            client: None,
            secret_for_first_issuer: false,
            client_metadata_url: None,
            client_name: "marquetry".to_owned(),
            scopes: Vec::new(),
            offline_access: true,
            proof_of_possession: true,
            network: Network::default(),
            max_document_bytes: 256 << 10,
            document_timeout: Duration::from_secs(15),
            login_timeout: Duration::from_secs(600),
        }
    }
}

/// By what a client gets tokens.
#[derive(Clone)]
#[non_exhaustive]
pub enum Grant {
    /// A person logs in (authorization code with PKCE).
    Login,
    /// The client itself is the one with the permission (extension OAuth Client Credentials). Needs
    /// [`OAuthOptions::client`].
    ClientCredentials,
    /// Somebody else vouches for the client: a platform for its workload, say (RFC 7523; extension Workload Identity
    /// Federation).
    JwtBearer(Arc<dyn Assertion>),
    /// A company's identity provider vouches for the person who has logged in there (extension Enterprise-Managed
    /// Authorization).
    EnterpriseManaged(IdentityProvider),
}

/// A company's identity provider.
#[derive(Clone)]
pub struct IdentityProvider {
    /// Where it exchanges tokens (RFC 8693).
    pub token_endpoint: String,
    /// The id that it knows us by.
    pub client_id: String,
    /// The secret that goes with the id, if there is one.
    pub client_secret: Option<Secret>,
    /// The id token of the person.
    pub id_token: Arc<dyn Assertion>,
}

/// A client that an authorization server knows already.
#[derive(Clone, Debug)]
pub struct RegisteredClient {
    /// Its id.
    pub id: String,
    /// How it proves to be the one.
    pub proof: ClientProof,
    /// The issuer of the authorization server that knows it, needed with a secret. Where this is absent, it is the first
    /// one that the client is sent to; another one never sees the id.
    pub issuer: Option<String>,
}

/// How a client proves at the token endpoint who it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientProof {
    /// It does not.
    None,
    /// By a password.
    Secret(Secret),
    /// By a signature (`private_key_jwt`, RFC 7523).
    Key(SigningKey),
}

/// Gets a signed token that somebody else has made.
#[async_trait]
pub trait Assertion: Send + Sync + 'static {
    /// A token for `audience`, the issuer of an authorization server. One that was made for somebody else in particular
    /// is refused there.
    ///
    /// # Errors
    /// When there is none.
    async fn assertion(&self, audience: &str) -> Result<Secret, AuthorizationError>;
}

/// A token that is there already.
#[async_trait]
impl Assertion for Secret {
    async fn assertion(&self, _: &str) -> Result<Self, AuthorizationError> {
        Ok(self.clone())
    }
}

/// A token that somebody keeps fresh in a file, as platforms do for their workloads. Read anew each time, at most 64 KiB.
#[async_trait]
impl Assertion for PathBuf {
    async fn assertion(&self, _: &str) -> Result<Secret, AuthorizationError> {
        use std::io::Read;
        const MOST: u64 = 64 << 10;
        let path = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            std::fs::File::open(path)?.take(MOST).read_to_string(&mut text)?;
            Ok(Secret::from(text.trim()))
        });
        read.await.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|source| {
            AuthorizationError::Io { what: format!("token in {}", self.display()), source }
        })
    }
}
