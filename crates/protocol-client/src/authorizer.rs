//! Authorization of requests to an HTTP server.

use std::{fmt, io};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, request};
use marquetry_protocol_wire::auth::Challenge;

/// Authorizes requests to one server: signs each request, and gets new credentials when one is
/// refused.
///
/// `OAuth` of the crate `marquetry-oauth` implements it. A fixed token does not need it: use a
/// header of [`HttpTarget`](super::HttpTarget).
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Adds credentials to a request, without asking a user. Without credentials the request stays
    /// unchanged.
    ///
    /// # Errors
    /// Returns an error if the request must not be sent.
    async fn sign(&self, request: &mut request::Parts) -> Result<(), AuthorizationError>;

    /// Receives the head of each response. Returns whether the request should be signed and sent
    /// once more, for example because the response brings a new nonce.
    fn on_response(&self, uri: &Uri, status: StatusCode, headers: &HeaderMap) -> bool {
        let _ = (uri, status, headers);
        false
    }

    /// Gets the credentials that a refused request needs. The request is repeated afterwards.
    ///
    /// # Errors
    /// Returns an error if it has no such credentials.
    async fn authorize(
        &self,
        refusal: &Refusal,
        interaction: Interaction,
    ) -> Result<(), AuthorizationError>;
}

/// Whether a user may be asked to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// A user is waiting, and may be asked.
    Allowed,
    /// No user is waiting.
    Forbidden,
}

/// A response that refuses a request as unauthorized: status 401, or 403 with a challenge. The
/// default value asks for nothing in particular.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// The challenges of the server (`WWW-Authenticate`).
    pub challenges: Vec<Challenge>,
    /// The start of the body, for people.
    pub body: String,
    /// The refused `Authorization` header.
    presented: Option<HeaderValue>,
}

impl Refusal {
    /// Returns the refusal, if the answer is one.
    pub(super) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        presented: Option<HeaderValue>,
    ) -> Option<Self> {
        let challenges: Vec<Challenge> = headers
            .get_all(http::header::WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(Challenge::parse)
            .collect();
        let is_refusal = match status {
            StatusCode::UNAUTHORIZED => true,
            StatusCode::FORBIDDEN => !challenges.is_empty(),
            _ => false,
        };
        is_refusal.then(|| Self {
            status: status.as_u16(),
            challenges,
            body: String::new(),
            presented,
        })
    }

    /// Returns the first parameter with that name in any challenge.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.challenges.iter().find_map(|challenge| challenge.get(name))
    }

    /// Returns whether the token is valid but lacks a scope (RFC 6750, section 3.1).
    #[must_use]
    pub fn is_insufficient_scope(&self) -> bool {
        self.parameter("error") == Some("insufficient_scope")
    }

    /// Returns the refused `Authorization` header, if the request had one.
    #[must_use]
    pub fn presented(&self) -> Option<&HeaderValue> {
        self.presented.as_ref()
    }
}

/// Omits the refused header, which is a secret.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("challenges", &self.challenges)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.is_insufficient_scope(), self.presented.is_some()) {
            (true, _) => "server wants further permission",
            (_, true) => "server does not accept our authorization",
            (_, false) => "server wants authorization",
        })?;
        write!(f, " (HTTP status {}", self.status)?;
        if let Some(scope) = self.parameter("scope") {
            write!(f, ", scope '{}'", marquetry_protocol_wire::shortened(scope))?;
        }
        f.write_str(")")?;
        let description = self.parameter("error_description").unwrap_or(&self.body);
        if description.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", marquetry_protocol_wire::shortened(description))
        }
    }
}

/// Why authorization failed. No variant contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// A user has to log in, but no user may be asked.
    #[error("a login at {issuer} is needed")]
    LoginRequired {
        /// The authorization server.
        issuer: String,
    },
    /// A URL from a server is refused.
    #[error("{what} '{url}' is refused: {why}")]
    Url {
        /// The purpose of the URL.
        what: &'static str,
        /// The URL.
        url: String,
        /// The reason.
        why: &'static str,
    },
    /// A document could not be fetched, or an endpoint failed.
    #[error("{url}: {problem}")]
    Fetch {
        /// The URL.
        url: String,
        /// The cause.
        problem: String,
    },
    /// The server's metadata is about another resource (RFC 9728, section 3.3).
    #[error("metadata is about '{named}', not about the server {server}")]
    ResourceMismatch {
        /// The requested server.
        server: String,
        /// The resource that its metadata names.
        named: String,
    },
    /// Metadata or an answer of another authorization server (RFC 8414, section 3.3; RFC 9207).
    #[error("issuer should be '{expected}', not '{found}'")]
    IssuerMismatch {
        /// The requested authorization server.
        expected: String,
        /// The issuer in the answer.
        found: String,
    },
    /// The authorization server lacks a required feature.
    #[error("authorization server {issuer} {lacks}")]
    Unsupported {
        /// The authorization server.
        issuer: String,
        /// The missing feature.
        lacks: &'static str,
    },
    /// The authorization server refused (RFC 6749, sections 4.1.2.1 and 5.2).
    #[error("authorization server refused: {error}{}", suffix(.description))]
    Denied {
        /// The code of the error.
        error: String,
        /// The description, for people.
        description: String,
    },
    /// An answer of the authorization server is invalid or not trustworthy.
    #[error("answer of the authorization server: {0}")]
    Answer(String),
    /// The server asks for a permission that it has just received.
    #[error("server still wants scope '{0}' after it was granted")]
    ScopeLoop(String),
    /// The client's credentials cannot be used.
    #[error("credentials: {0}")]
    Credentials(String),
    /// The user did not return in time.
    #[error("login was not completed within {} s", .0.as_secs())]
    LoginTimeout(std::time::Duration),
    /// Credentials could not be stored or read, or a listener failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed.
        what: String,
        /// The cause.
        source: io::Error,
    },
}

fn suffix(description: &str) -> String {
    if description.is_empty() {
        String::new()
    } else {
        format!(": {}", marquetry_protocol_wire::shortened(description))
    }
}
