//! Options of a protected resource.

use std::{path::PathBuf, time::Duration};

use marquetry_protocol::client::Network;

use super::static_token::StaticToken;

/// Options of a [`ResourceServer`](super::ResourceServer): accepted tokens and required scopes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceServerOptions {
    /// The issuer whose tokens are accepted; none by default.
    pub issuer: Option<TokenIssuer>,
    /// Static tokens.
    pub static_tokens: Vec<StaticToken>,
    /// The scopes that every request needs.
    pub required_scopes: Vec<String>,
    /// Further scopes that the metadata lists for clients to request.
    pub optional_scopes: Vec<String>,
    /// The claim with the names of a user's groups, perhaps a path with dots. Default: `groups`.
    pub groups_claim: String,
    /// The display name of the resource.
    pub name: Option<String>,
    /// Largest difference between the issuer's clock and ours. Default: 60 s.
    pub clock_skew: Duration,
    /// The longest token to accept, in bytes. Default: 16 KiB.
    pub max_token_bytes: usize,
    /// The longest key set or metadata to read, in bytes. Default: 256 KiB.
    pub max_key_bytes: usize,
    /// Time limit of a request for the issuer's keys. Default: 10 s.
    pub key_timeout: Duration,
    /// The proxy to reach the issuer through, and the certificate authorities to trust.
    pub network: Network,
    /// Time after which keys are fetched again. Default: 10 minutes.
    pub key_lifetime: Duration,
    /// Longest use of keys that cannot be fetched again. Default: 24 hours.
    pub key_max_age: Duration,
    /// The shortest time between two fetches that tokens cause. Default: 30 s.
    pub key_pause: Duration,
}

/// An issuer of tokens for this server.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    /// Identifier of the issuer, a URL.
    pub issuer: String,
    /// The URL of this server: the audience that its tokens must have.
    pub resource: String,
    /// Source of the issuer's public keys.
    pub keys: KeySource,
}

/// Source of an issuer's public keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// The URL in the issuer's metadata (RFC 8414, OpenID Connect Discovery).
    Discovered,
    /// This URL, which is `https:` or on this machine.
    Url(String),
    /// This JWK set, for servers that cannot reach the issuer.
    File(PathBuf),
}

/// Why a [`ResourceServer`](super::ResourceServer) cannot be created from these options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceServerError {
    /// The options accept no token at all.
    #[error("neither an issuer nor a static token is configured")]
    NoTokenSource,
    /// A URL cannot be used.
    #[error("{what} '{url}': {why}")]
    Url {
        /// The option that contains it.
        what: &'static str,
        /// The URL.
        url: String,
        /// The reason.
        why: &'static str,
    },
    /// A scope contains characters that RFC 6749 does not allow.
    #[error(
        "scope '{0}' contains characters that are not allowed in a scope (RFC 6749, section 3.3)"
    )]
    Scope(String),
    /// Two static tokens have one name.
    #[error("there are two tokens with the name '{0}'")]
    SameName(String),
    /// Two static tokens have the same text, so that their holders cannot be distinguished.
    #[error("'{0}' and '{1}' have the same token; give each holder a different token")]
    SameToken(String, String),
}

impl Default for ResourceServerOptions {
    fn default() -> Self {
        Self {
            issuer: None,
            static_tokens: Vec::new(),
            required_scopes: Vec::new(),
            optional_scopes: Vec::new(),
            groups_claim: "groups".to_owned(),
            name: None,
            clock_skew: Duration::from_mins(1),
            max_token_bytes: 16 << 10,
            max_key_bytes: 256 << 10,
            key_timeout: Duration::from_secs(10),
            network: Network::default(),
            key_lifetime: Duration::from_mins(10),
            key_max_age: Duration::from_hours(24),
            key_pause: Duration::from_secs(30),
        }
    }
}
