//! Options of a client.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;

use marquetry_protocol::client::{AuthorizationError, Network};

use super::{CredentialStore, MemoryStore, UserAgent};
use crate::{Secret, SigningKey};

/// Options of a client: the way to get tokens, and limits on size and time.
#[derive(Clone)]
#[non_exhaustive]
pub struct OAuthOptions {
    /// The way to get tokens. Default: a person logs in.
    pub grant: Grant,
    /// Opens the login page for a person. Default: none, and only stored tokens are used.
    pub user_agent: Option<Arc<dyn UserAgent>>,
    /// Stores registrations and tokens. Default: in memory.
    pub store: Arc<dyn CredentialStore>,
    /// The client's id, if it was registered at an authorization server beforehand.
    pub client: Option<RegisteredClient>,
    /// Whether a client secret without an [`issuer`](RegisteredClient::issuer) is sent to the
    /// authorization server that the MCP server names first. Default: false. Set it only if you
    /// trust the MCP server with that secret.
    pub secret_for_first_issuer: bool,
    /// The way to send a client secret. Default: the one that the authorization server names, and
    /// Basic authentication if it names none.
    pub secret_method: Option<SecretMethod>,
    /// Whether requests for tokens name the MCP server (`resource`, RFC 8707). Default: true.
    /// Entra ID refuses requests with that parameter.
    pub send_resource: bool,
    /// The `https:` URL of this client's metadata (Client ID Metadata Document). It is the client
    /// id at authorization servers that support such documents.
    pub client_metadata_url: Option<String>,
    /// The name to register under. Default: `marquetry`.
    pub client_name: String,
    /// Scopes to request in addition to those that the server names.
    pub scopes: Vec<String>,
    /// Whether to ask for the scope `offline_access`, which gives a refresh token, if the
    /// authorization server has it. Default: true.
    pub offline_access: bool,
    /// Whether to prove possession of a key (RFC 9449) with each request if the server asks for it.
    /// Default: true.
    pub proof_of_possession: bool,
    /// The proxy to reach authorization servers through, and the certificate authorities to trust.
    pub network: Network,
    /// The longest answer to read from an authorization server, in bytes. Default: 256 KiB.
    pub max_document_bytes: usize,
    /// Time limit of an answer of an authorization server. Default: 15 s.
    pub document_timeout: Duration,
    /// Time limit of a login by a person. Default: 10 minutes.
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
            secret_method: None,
            send_resource: true,
            client_metadata_url: None,
            client_name: "marquetry".to_owned(),
            scopes: Vec::new(),
            offline_access: true,
            proof_of_possession: true,
            network: Network::default(),
            max_document_bytes: 256 << 10,
            document_timeout: Duration::from_secs(15),
            login_timeout: Duration::from_mins(10),
        }
    }
}

/// A way to get tokens.
#[derive(Clone)]
#[non_exhaustive]
pub enum Grant {
    /// A person logs in (authorization code with PKCE).
    Login,
    /// The client acts for itself (extension OAuth Client Credentials). Needs
    /// [`OAuthOptions::client`].
    ClientCredentials,
    /// A third party vouches for the client, as a platform does for its workloads (RFC 7523;
    /// extension Workload Identity Federation).
    JwtBearer(Arc<dyn Assertion>),
    /// A company's identity provider vouches for a person who is logged in there (extension
    /// Enterprise-Managed Authorization).
    EnterpriseManaged(IdentityProvider),
}

/// A company's identity provider.
#[derive(Clone)]
pub struct IdentityProvider {
    /// The issuer's token endpoint, which exchanges tokens (RFC 8693).
    pub token_endpoint: String,
    /// This client's id at that issuer.
    pub client_id: String,
    /// The secret of that id, if it has one.
    pub client_secret: Option<Secret>,
    /// The person's id token.
    pub id_token: Arc<dyn Assertion>,
}

/// A client that was registered at an authorization server beforehand.
#[derive(Clone, Debug)]
pub struct RegisteredClient {
    /// Id of the client.
    pub id: String,
    /// The client's authentication.
    pub proof: ClientProof,
    /// The issuer of the authorization server at which it is registered. Required with a secret.
    /// Without it, the id belongs to the first issuer that the client is sent to, and is never
    /// shown to another.
    pub issuer: Option<String>,
}

/// The authentication of a client at the token endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientProof {
    /// No authentication: a public client.
    None,
    /// A client secret.
    Secret(Secret),
    /// A signed token (`private_key_jwt`, RFC 7523).
    Key(SigningKey),
}

/// A way to send a client secret to the token endpoint (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretMethod {
    /// In a header, with Basic authentication (`client_secret_basic`).
    Basic,
    /// In the body (`client_secret_post`).
    Post,
}

/// Gets a signed token from a third party.
#[async_trait]
pub trait Assertion: Send + Sync + 'static {
    /// Returns a token for `audience`, the issuer of an authorization server, which refuses tokens
    /// for others.
    ///
    /// # Errors
    /// Returns an error if the third party gives no token.
    async fn assertion(&self, audience: &str) -> Result<Secret, AuthorizationError>;
}

/// A token that is given beforehand.
#[async_trait]
impl Assertion for Secret {
    async fn assertion(&self, _: &str) -> Result<Self, AuthorizationError> {
        Ok(self.clone())
    }
}

/// A token in a file that a platform renews for its workload. The file is read for each use, at
/// most 64 KiB.
#[async_trait]
impl Assertion for PathBuf {
    async fn assertion(&self, _: &str) -> Result<Secret, AuthorizationError> {
        use std::io::Read;
        const MAX_BYTES: u64 = 64 << 10;
        let path = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            std::fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
            Ok(Secret::from(text.trim()))
        });
        read.await.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(|source| {
            AuthorizationError::Io { what: format!("token in {}", self.display()), source }
        })
    }
}
