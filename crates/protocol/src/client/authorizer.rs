//! How a client proves to an HTTP server who it is.

use std::{fmt, io};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, request};

use super::{ClientError, ClientOptions};
use crate::auth::Challenge;

/// Proves to one server who we are: adds something to each request, and gets something better when it is refused.
///
/// `OAuth` of the crate `marquetry-oauth` is one. A fixed token needs none: it is a header of
/// [`HttpTarget`](super::HttpTarget).
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Adds the proof to a request. Nobody is asked anything; without proof the request goes as it is.
    ///
    /// # Errors
    /// When the request must not be sent.
    async fn sign(&self, request: &mut request::Parts) -> Result<(), AuthorizationError>;

    /// Sees the head of each answer. True when the same request, signed anew, may be answered otherwise; that is done
    /// once.
    fn learn(&self, uri: &Uri, status: StatusCode, headers: &HeaderMap) -> bool {
        let _ = (uri, status, headers);
        false
    }

    /// Gets what a refused request needs. The request is sent again afterwards.
    ///
    /// # Errors
    /// When that cannot be had.
    async fn authorize(
        &self,
        refusal: &Refusal,
        interaction: Interaction,
    ) -> Result<(), AuthorizationError>;
}

/// Whether a person may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// Somebody waits for what is being done.
    Allowed,
    /// Nobody does.
    Forbidden,
}

/// A server's refusal of a request for want of authorization: status 401, or 403 with a challenge.
#[derive(Clone)]
#[non_exhaustive]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// What the server says is missing (`WWW-Authenticate`).
    pub challenges: Vec<Challenge>,
    /// The start of the body, for a person.
    pub body: String,
    /// The `Authorization` header that was refused.
    presented: Option<HeaderValue>,
}

impl Refusal {
    /// The refusal that an answer is, if it is one.
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

    /// The first parameter of that name in any challenge.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.challenges.iter().find_map(|challenge| challenge.get(name))
    }

    /// Whether what was shown is good, but not for this request (RFC 6750, section 3.1).
    #[must_use]
    pub fn is_insufficient_scope(&self) -> bool {
        self.parameter("error") == Some("insufficient_scope")
    }

    /// The `Authorization` header that was refused, if there was one.
    #[must_use]
    pub fn presented(&self) -> Option<&HeaderValue> {
        self.presented.as_ref()
    }
}

/// Without what was presented, which is a secret.
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
            write!(f, ", scope '{}'", crate::error::shortened(scope))?;
        }
        f.write_str(")")?;
        let said = self.parameter("error_description").unwrap_or(&self.body);
        if said.is_empty() { Ok(()) } else { write!(f, ": {}", crate::error::shortened(said)) }
    }
}

/// Why there is no authorization. No variant holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// Somebody has to log in, and nobody is there to be asked.
    #[error("somebody has to log in at {issuer}")]
    LoginRequired {
        /// The authorization server.
        issuer: String,
    },
    /// A URL that a server named is not one to send anything to.
    #[error("{what} '{url}' is refused: {why}")]
    Url {
        /// What it was to be.
        what: &'static str,
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A document or endpoint could not be had.
    #[error("{url}: {problem}")]
    Fetch {
        /// Where.
        url: String,
        /// What came of it.
        problem: String,
    },
    /// The server's metadata is about another resource (RFC 9728, section 3.3).
    #[error("metadata is about '{named}', not about the server {server}")]
    ResourceMismatch {
        /// The server that we talk to.
        server: String,
        /// What its metadata names.
        named: String,
    },
    /// Metadata or an answer of another authorization server (RFC 8414, section 3.3; RFC 9207).
    #[error("issuer should be '{expected}', not '{found}'")]
    IssuerMismatch {
        /// The authorization server that we turned to.
        expected: String,
        /// What was found instead.
        found: String,
    },
    /// The authorization server does not offer what is needed.
    #[error("authorization server {issuer} {lacks}")]
    Unsupported {
        /// The authorization server.
        issuer: String,
        /// What it lacks.
        lacks: &'static str,
    },
    /// The authorization server said no (RFC 6749, sections 4.1.2.1 and 5.2).
    #[error("authorization server refused: {error}{}", said(.description))]
    Denied {
        /// The code of the error.
        error: String,
        /// For a person.
        description: String,
    },
    /// An answer of the authorization server makes no sense, or is not to be trusted.
    #[error("answer of the authorization server: {0}")]
    Answer(String),
    /// The server wants a permission again that it was just given.
    #[error("server still wants scope '{0}' after it was granted")]
    ScopeLoop(String),
    /// Credentials of ours cannot be used.
    #[error("credentials: {0}")]
    Credentials(String),
    /// The user did not come back in time.
    #[error("nobody logged in within {} s", .0.as_secs())]
    LoginTimeout(std::time::Duration),
    /// Credentials could not be stored or read, or a listener failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
}

fn said(description: &str) -> String {
    if description.is_empty() {
        String::new()
    } else {
        format!(": {}", crate::error::shortened(description))
    }
}

/// How often one request may be authorized: a login, and a wider one.
const MOST_AUTHORIZATIONS: usize = 2;

/// Gets what a refused request needs, where somebody can. Then there is no outcome yet, and the request is to be sent
/// again.
pub(super) async fn authorized<T>(
    outcome: Result<T, ClientError>,
    options: &ClientOptions,
    authorizations: &mut usize,
) -> Result<Option<T>, ClientError> {
    authorized_by(outcome, options.authorizer.as_deref(), authorizations).await
}

/// As [`authorized`].
pub(super) async fn authorized_by<T>(
    outcome: Result<T, ClientError>,
    authorizer: Option<&dyn Authorizer>,
    authorizations: &mut usize,
) -> Result<Option<T>, ClientError> {
    match (outcome, authorizer) {
        (Err(ClientError::Unauthorized(refusal)), Some(authorizer))
            if *authorizations < MOST_AUTHORIZATIONS =>
        {
            *authorizations += 1;
            authorizer.authorize(&refusal, Interaction::Allowed).await?;
            Ok(None)
        }
        (outcome, _) => outcome.map(Some),
    }
}
