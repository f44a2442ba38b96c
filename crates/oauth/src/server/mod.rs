//! A server as a protected resource (OAuth 2.1, RFC 9728), which checks the tokens of requests.
//!
//! ```
//! use std::sync::Arc;
//! use marquetry_oauth::server::{
//!     KeySource, ResourceServer, ResourceServerOptions, StaticToken, TokenIssuer,
//! };
//! use marquetry_protocol::server::http::HttpOptions;
//!
//! let mut options = ResourceServerOptions::default();
//! options.issuer = Some(TokenIssuer {
//!     issuer: "https://login.example".into(),
//!     resource: "https://tools.example/mcp".into(),
//!     keys: KeySource::Discovered,
//! });
//! options.required_scopes = vec!["tools".into()];
//! options.static_tokens = vec![StaticToken::new("ci", "a long random text", ["tools"])];
//! let resource = Arc::new(ResourceServer::new(options)?);
//! assert_eq!(resource.metadata_path(), Some("/.well-known/oauth-protected-resource/mcp"));
//!
//! let http = HttpOptions { authenticator: Some(resource), ..HttpOptions::default() };
//! # Ok::<(), marquetry_oauth::server::ResourceServerError>(())
//! ```
//!
//! # What to know
//! - A JWT is accepted if an asymmetric key of its issuer has signed it with an algorithm of that
//!   key, if issuer, audience and time are right, if it has a subject (`sub`), and if it is not
//!   bound to a key of the client.
//! - The issuer's keys are fetched with the first token, again every ten minutes in the background,
//!   and when a token names an unknown key, but at most every 30 s. If the issuer does not answer,
//!   the last keys are used for a day.
//! - Only the hash of a static token is stored. Tokens never appear in errors, logs or `Debug`
//!   forms.
//! - A session belongs to the [`Principal`] that opened it. Other principals cannot use it,
//!   whatever their scopes.

mod jwt;
mod keys;
mod logging;
mod options;
mod replaceable;
mod static_token;
mod token_error;

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, StatusCode, header, request::Parts};
use marquetry_protocol::{
    auth::Challenge,
    server::{
        Principal,
        http::{Authenticator, Denial},
    },
};

use self::{jwt::Claims, keys::Keys, token_error::TokenError};
pub use self::{
    logging::LoggingAuthenticator,
    options::{KeySource, ResourceServerError, ResourceServerOptions, TokenIssuer},
    replaceable::ReplaceableAuthenticator,
    static_token::StaticToken,
};
use crate::{
    ResourceMetadata,
    fetch::{Fetcher, Reach},
};

/// Authenticates by bearer token: JWT or static.
pub struct ResourceServer {
    options: ResourceServerOptions,
    issued: Option<Issued>,
}

/// The issuer of tokens, and the metadata that names it.
struct Issued {
    issuer: TokenIssuer,
    keys: Arc<Keys>,
    /// The URL of the metadata, for the challenge.
    metadata_url: String,
    metadata_path: String,
}

impl Issued {
    /// Checks the URLs of the issuer.
    fn new(
        issuer: &TokenIssuer,
        options: &ResourceServerOptions,
    ) -> Result<Self, ResourceServerError> {
        check_url("issuer", &issuer.issuer)?;
        if let KeySource::Url(url) = &issuer.keys {
            check_url("address of keys", url)?;
        }
        let (origin, path) = split_resource(&issuer.resource).map_err(|why| {
            ResourceServerError::Url { what: "resource", url: issuer.resource.clone(), why }
        })?;
        let fetcher = Fetcher::new(options.max_key_bytes, options.key_timeout, &options.network);
        let metadata_path = format!("{WELL_KNOWN}{path}");
        Ok(Self {
            issuer: issuer.clone(),
            keys: Arc::new(Keys::new(issuer, fetcher, options)),
            metadata_url: format!("{origin}{metadata_path}"),
            metadata_path,
        })
    }
}

/// Checks a URL of the configuration, which may name private addresses.
fn check_url(what: &'static str, url: &str) -> Result<(), ResourceServerError> {
    match Reach::Loopback.check(url) {
        Ok(_) => Ok(()),
        Err(why) => Err(ResourceServerError::Url { what, url: url.to_owned(), why }),
    }
}

/// Returns origin and path of the resource's URL.
fn split_resource(url: &str) -> Result<(String, String), &'static str> {
    let uri: http::Uri = url.parse().map_err(|_| "it is not a valid URL")?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("it is not an absolute URL");
    };
    if url.contains(['#', '?']) {
        return Err("it has a query or a fragment");
    }
    let path = uri.path().trim_end_matches('/').to_owned();
    Ok((format!("{scheme}://{authority}"), path))
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

impl ResourceServer {
    /// Creates the resource server.
    ///
    /// # Errors
    /// Returns an error if the options contradict each other or a URL is invalid.
    pub fn new(options: ResourceServerOptions) -> Result<Self, ResourceServerError> {
        if options.issuer.is_none() && options.static_tokens.is_empty() {
            return Err(ResourceServerError::NoTokenSource);
        }
        for scope in options.required_scopes.iter().chain(&options.optional_scopes) {
            // RFC 6749, section 3.3.
            let is_valid =
                scope.chars().all(|char| char.is_ascii_graphic() && !matches!(char, '"' | '\\'));
            if scope.is_empty() || !is_valid {
                return Err(ResourceServerError::Scope(scope.clone()));
            }
        }
        for (index, token) in options.static_tokens.iter().enumerate() {
            let before = &options.static_tokens[..index];
            if before.iter().any(|other| other.name == token.name) {
                return Err(ResourceServerError::SameName(token.name.clone()));
            }
            if let Some(other) = before.iter().find(|other| other.is_like(token)) {
                let other = other.name.clone();
                return Err(ResourceServerError::SameToken(other, token.name.clone()));
            }
        }
        let issued =
            options.issuer.as_ref().map(|issuer| Issued::new(issuer, &options)).transpose()?;
        Ok(Self { options, issued })
    }

    /// Returns the path of the metadata, in addition to [`Self::ROOT_METADATA_PATH`]; `None`
    /// without an issuer.
    #[must_use]
    pub fn metadata_path(&self) -> Option<&str> {
        self.issued.as_ref().map(|issued| issued.metadata_path.as_str())
    }

    /// The path at which clients look for the metadata last.
    pub const ROOT_METADATA_PATH: &str = WELL_KNOWN;

    /// Returns the protected resource metadata (RFC 9728), which needs no authentication; `None`
    /// without an issuer.
    #[must_use]
    pub fn metadata(&self) -> Option<ResourceMetadata> {
        let issuer = self.options.issuer.as_ref()?;
        let mut metadata = ResourceMetadata::new(&issuer.resource, [&issuer.issuer]);
        let scopes: Vec<String> = self
            .options
            .required_scopes
            .iter()
            .chain(&self.options.optional_scopes)
            .cloned()
            .collect();
        metadata.scopes_supported = (!scopes.is_empty()).then_some(scopes);
        metadata.resource_name.clone_from(&self.options.name);
        Some(metadata)
    }

    /// Fetches the issuer's keys, so that a wrong address is found before the first token comes.
    ///
    /// # Errors
    /// Returns an error if the keys cannot be fetched.
    pub async fn warm_up(&self) -> Result<(), String> {
        match &self.issued {
            Some(issued) => issued.keys.warm_up().await,
            None => Ok(()),
        }
    }

    /// Checks a token.
    async fn principal(&self, token: &str) -> Result<Principal, TokenError> {
        // All tokens are compared, so that the time does not depend on which one matches.
        let mut found = None;
        for fixed in &self.options.static_tokens {
            if fixed.matches(token) {
                found = Some(fixed);
            }
        }
        if let Some(fixed) = found {
            let scopes = fixed.scopes.iter().cloned();
            let groups = fixed.groups.iter().cloned();
            return Ok(Principal::new(None, &fixed.name).with_scopes(scopes).with_groups(groups));
        }
        let Some(issued) = &self.issued else {
            return Err(TokenError::Invalid("it is unknown"));
        };
        let Claims { subject, scopes, groups, expires } = jwt::check(
            token,
            &issued.issuer,
            &issued.keys,
            self.options.clock_skew,
            &self.options.groups_claim,
        )
        .await?;
        let principal = Principal::new(Some(issued.issuer.issuer.clone()), subject);
        Ok(principal.with_scopes(scopes).with_groups(groups).until(expires))
    }

    /// Returns a challenge with the parameters that all challenges have.
    fn challenge(&self, error: Option<(&str, &str)>) -> Challenge {
        self.challenge_for(error, &self.options.required_scopes)
    }

    fn challenge_for(&self, error: Option<(&str, &str)>, scopes: &[String]) -> Challenge {
        let mut challenge = Challenge::new("Bearer");
        if let Some((error, description)) = error {
            challenge = challenge.with("error", error).with("error_description", description);
        }
        if !scopes.is_empty() {
            challenge = challenge.with("scope", scopes.join(" "));
        }
        if let Some(issued) = &self.issued {
            challenge = challenge.with("resource_metadata", &issued.metadata_url);
        }
        challenge
    }

    fn unauthorized(&self, error: Option<&str>) -> Denial {
        let (challenge, message) = match error {
            // A request without a token gets no error code (RFC 6750, section 3.1).
            None => (self.challenge(None), "a token is needed".to_owned()),
            Some(why) => (
                self.challenge(Some(("invalid_token", why))),
                format!("the token is not accepted: {why}"),
            ),
        };
        Denial { status: StatusCode::UNAUTHORIZED, challenge, message }
    }
}

#[async_trait]
impl Authenticator for ResourceServer {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        self.check(&request.headers).await
    }

    fn step_up(&self, scopes: &[String]) -> Challenge {
        let mut all = self.options.required_scopes.clone();
        all.extend(scopes.iter().filter(|it| !self.options.required_scopes.contains(it)).cloned());
        self.challenge_for(Some(("insufficient_scope", "the token lacks a scope")), &all)
    }
}

impl ResourceServer {
    /// Returns the sender of a request with these headers, for HTTP servers beside MCP.
    ///
    /// # Errors
    /// Returns an error, the refusal to answer with, if the token is missing, invalid, or lacks a
    /// scope.
    pub async fn check(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Denial> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = shown.next() else { return Err(self.unauthorized(None)) };
        if shown.next().is_some() {
            return Err(self.unauthorized(Some("there are several")));
        }
        let token = value.to_str().ok().and_then(|value| value.split_once(' '));
        let Some((scheme, token)) = token else {
            return Err(self.unauthorized(Some("it is not a bearer token")));
        };
        let token = token.trim_matches(' ');
        if !scheme.eq_ignore_ascii_case("Bearer") || token.is_empty() {
            return Err(self.unauthorized(Some("it is not a bearer token")));
        }
        if token.len() > self.options.max_token_bytes {
            return Err(self.unauthorized(Some("it is too long")));
        }
        let principal = self.principal(token).await.map_err(|error| match error {
            TokenError::Invalid(why) => self.unauthorized(Some(why)),
            // Logging in again would not help.
            TokenError::KeysUnavailable => Denial {
                status: StatusCode::SERVICE_UNAVAILABLE,
                challenge: self.challenge(None),
                message: "the issuer's keys are not available now; try again later".to_owned(),
            },
        })?;
        let missing = self.options.required_scopes.iter().any(|scope| !principal.has_scope(scope));
        if missing {
            let description = "the token lacks a scope";
            return Err(Denial {
                status: StatusCode::FORBIDDEN,
                challenge: self.challenge(Some(("insufficient_scope", description))),
                message: format!(
                    "{description}: all of '{}' are needed",
                    self.options.required_scopes.join(" ")
                ),
            });
        }
        Ok(Arc::new(principal))
    }
}
