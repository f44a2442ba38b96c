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
    /// The display name of the resource.
    pub name: Option<String>,
    /// How far the issuer's clock may be from ours: 60 s.
    pub clock_skew: Duration,
    /// The longest token to look at, in bytes: 16 KiB.
    pub max_token_bytes: usize,
    /// The longest document of keys, in bytes: 256 KiB.
    pub max_key_bytes: usize,
    /// How long the issuer may take to give its keys: 10 s.
    pub key_timeout: Duration,
    /// By which proxy the issuer is reached, and which certificate authorities are trusted.
    pub network: Network,
    /// How long keys are used before they are fetched again: 10 minutes.
    pub key_lifetime: Duration,
    /// How long keys count at most while they cannot be fetched again: 24 hours.
    pub key_max_age: Duration,
    /// How long to wait at least between two fetches, whatever tokens come: 30 s.
    pub key_pause: Duration,
}

/// An issuer of tokens for this server.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    /// Its identifier, a URL.
    pub issuer: String,
    /// The URL of this server, which its tokens must be for (their audience).
    pub resource: String,
    /// Where its keys are.
    pub keys: KeySource,
}

/// Where an issuer's public keys are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySource {
    /// Where the issuer's metadata says (RFC 8414, OpenID Connect Discovery).
    Discovered,
    /// At this URL: `https:`, or on this machine.
    Url(String),
    /// In a file, as a JWK set: for where the issuer cannot be reached.
    File(PathBuf),
}

/// Why there is no [`ResourceServer`](super::ResourceServer) of such options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceServerError {
    /// The options accept no token at all.
    #[error("there is neither an issuer nor a token")]
    Nobody,
    /// A URL cannot be used.
    #[error("{what} '{url}': {why}")]
    Url {
        /// What it is.
        what: &'static str,
        /// The URL.
        url: String,
        /// The reason.
        why: &'static str,
    },
    /// A scope that no header can hold.
    #[error("scope '{0}' has characters that no scope has")]
    Scope(String),
    /// Two static tokens have one name.
    #[error("there are two tokens with the name '{0}'")]
    SameName(String),
    /// Two static tokens are the same text, so that nobody could tell their holders apart.
    #[error("'{0}' and '{1}' have the same token; give each holder one of its own")]
    SameToken(String, String),
}

impl Default for ResourceServerOptions {
    fn default() -> Self {
        Self {
            issuer: None,
            static_tokens: Vec::new(),
            required_scopes: Vec::new(),
            optional_scopes: Vec::new(),
            name: None,
            clock_skew: Duration::from_secs(60),
            max_token_bytes: 16 << 10,
            max_key_bytes: 256 << 10,
            key_timeout: Duration::from_secs(10),
            network: Network::default(),
            key_lifetime: Duration::from_secs(600),
            key_max_age: Duration::from_secs(24 * 3600),
            key_pause: Duration::from_secs(30),
        }
    }
}
