//! Discovers the source of tokens: reads the server's metadata, then the authorization server's.

use http::{StatusCode, Uri};
use serde::{Deserialize, de::DeserializeOwned};

use marquetry_protocol::client::{AuthorizationError, Refusal, parse_server_url};

use crate::{
    ResourceMetadata,
    fetch::{Fetcher, Reach},
};

/// The source of the tokens for a server.
#[derive(Debug)]
pub(super) enum Resource {
    /// The authorization servers that the server's metadata names.
    Described(ResourceMetadata),
    /// The server has no metadata: the authorization server is at its own origin (2025-03-26).
    Undescribed {
        /// The origin.
        issuer: String,
    },
}

/// Authorization server metadata (RFC 8414, section 2; OpenID Connect Discovery 1.0, section 3).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(super) client_id_metadata_document_supported: bool,
    pub(super) authorization_response_iss_parameter_supported: bool,
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether these are the defaults of 2025-03-26 for a server without metadata.
    #[serde(skip)]
    pub(super) assumed: bool,
}

/// Reads the metadata of servers.
pub(super) struct Discovery<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) reach: Reach,
}

impl Discovery<'_> {
    /// Fetches the metadata of the server at `server`: from the URL in its refusal, else from
    /// `/.well-known/oauth-protected-resource` followed by its path, else from that URL without the
    /// path (2025-11-25, "Protected Resource Metadata Discovery").
    pub(super) async fn resource(
        &self,
        server: &Uri,
        refusal: &Refusal,
    ) -> Result<Resource, AuthorizationError> {
        const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
        let origin = origin(server);
        let mut found = None;
        if let Some(url) = refusal.parameter("resource_metadata") {
            found = self.document::<ResourceMetadata>("resource metadata", url).await?;
        }
        let path = server.path().trim_end_matches('/');
        let mut urls = vec![format!("{origin}{WELL_KNOWN}{path}")];
        if !path.is_empty() {
            urls.push(format!("{origin}{WELL_KNOWN}"));
        }
        for url in &urls {
            if found.is_none() {
                found = self.document("resource metadata", url).await?;
            }
        }
        let Some(found) = found else { return Ok(Resource::Undescribed { issuer: origin }) };
        if !covers(&found.resource, server) {
            return Err(AuthorizationError::ResourceMismatch {
                server: format!("{origin}{}", server.path()),
                named: marquetry_protocol::shortened(&found.resource).to_owned(),
            });
        }
        if found.authorization_servers.is_empty() {
            return Err(AuthorizationError::Answer(
                "resource metadata names no authorization server".to_owned(),
            ));
        }
        Ok(Resource::Described(found))
    }

    /// Fetches the metadata of the authorization server (2025-11-25, "Authorization Server Metadata
    /// Discovery").
    pub(super) async fn issuer(
        &self,
        issuer: &str,
    ) -> Result<Option<AuthorizationServer>, AuthorizationError> {
        let uri = self.checked("authorization server", issuer)?;
        let origin = origin(&uri);
        let path = uri.path().trim_end_matches('/');
        let mut urls = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        for url in urls {
            let what = "authorization server metadata";
            let Some(found) = self.document::<AuthorizationServer>(what, &url).await? else {
                continue;
            };
            // Compared byte by byte: normalising URLs first would let one server speak for another.
            if found.issuer != issuer {
                return Err(AuthorizationError::IssuerMismatch {
                    expected: issuer.to_owned(),
                    found: marquetry_protocol::shortened(&found.issuer).to_owned(),
                });
            }
            let endpoints = [&found.authorization_endpoint, &found.registration_endpoint];
            for endpoint in endpoints.into_iter().flatten().chain([&found.token_endpoint]) {
                self.checked("endpoint", endpoint)?;
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Checks that a URL which a server named may be requested.
    pub(super) fn checked(&self, what: &'static str, url: &str) -> Result<Uri, AuthorizationError> {
        self.reach.check(url).map_err(|why| AuthorizationError::Url {
            what,
            url: marquetry_protocol::shortened(url).into(),
            why,
        })
    }

    /// Fetches the document at this URL; returns `None` if the server has none there.
    async fn document<T: DeserializeOwned>(
        &self,
        what: &'static str,
        url: &str,
    ) -> Result<Option<T>, AuthorizationError> {
        let uri = self.checked(what, url)?;
        let answer =
            self.fetcher.get(&uri).await.map_err(|error| fetch_error(url, &error.to_string()))?;
        match answer.status {
            StatusCode::OK => serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|error| fetch_error(url, &format!("is not valid {what}: {error}"))),
            // Servers answer so for paths that do not exist or are not public.
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::GONE => Ok(None),
            status => Err(fetch_error(url, &format!("answers with status {}", status.as_u16()))),
        }
    }
}

/// Returns the error of a request. Both texts are shortened: an untrusted server may have written
/// them.
fn fetch_error(url: &str, problem: &str) -> AuthorizationError {
    AuthorizationError::Fetch {
        url: marquetry_protocol::shortened(url).to_owned(),
        problem: marquetry_protocol::shortened(problem).to_owned(),
    }
}

impl AuthorizationServer {
    /// Returns the defaults of 2025-03-26 for an authorization server without metadata.
    pub(super) fn assumed(origin: &str) -> Self {
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            assumed: true,
            ..Self::default()
        }
    }

    /// Returns whether it supports PKCE with S256, without which a code can be stolen.
    pub(super) fn has_pkce(&self) -> bool {
        let methods = self.code_challenge_methods_supported.as_deref();
        self.assumed || methods.is_some_and(|methods| methods.iter().any(|method| method == "S256"))
    }

    pub(super) fn unsupported(&self, lacks: &'static str) -> AuthorizationError {
        AuthorizationError::Unsupported { issuer: self.issuer.clone(), lacks }
    }

    pub(super) fn has_scope(&self, scope: &str) -> bool {
        self.scopes_supported.iter().flatten().any(|known| known == scope)
    }
}

/// Returns scheme and authority, as written.
pub(super) fn origin(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}

/// Returns whether `resource` is the server's URL or a parent path of it at the same origin.
fn covers(resource: &str, server: &Uri) -> bool {
    if resource.contains(['#', '?']) {
        return false;
    }
    let Ok(resource) = parse_server_url(resource) else { return false };
    if resource.authority().is_none() || !same_origin(&resource, server) {
        return false;
    }
    let parent = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(parent);
    below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether two URLs have the same origin (RFC 6454); default ports may be left out, and
/// case does not count.
pub(super) fn same_origin(a: &Uri, b: &Uri) -> bool {
    let is_same_host = match (a.host(), b.host()) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        (a, b) => a == b,
    };
    a.scheme() == b.scheme() && is_same_host && effective_port(a) == effective_port(b)
}

/// Returns the port of a URL, or the default port of its scheme.
fn effective_port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or(match uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_covers_its_path_and_the_paths_below() {
        for (resource, server, want) in [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://A.example:443/", "https://a.example/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/m", "https://a.example/mcp", false),
            ("https://a.example/mcp/x", "https://a.example/mcp", false),
            ("https://a.example:444/mcp", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("https://a.example.evil.example/mcp", "https://a.example/mcp", false),
            ("https://a.example/mcp?x", "https://a.example/mcp", false),
            ("https://a.example:65979/mcp", "https://a.example/mcp", false),
            ("/mcp", "https://a.example/mcp", false),
            ("", "https://a.example/mcp", false),
        ] {
            assert_eq!(covers(resource, &server.parse().unwrap()), want, "{resource} {server}");
        }
    }
}
