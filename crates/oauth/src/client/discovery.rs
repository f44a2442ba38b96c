//! Discovers the source of tokens: reads the server's metadata, then the authorization server's.

use http::{StatusCode, Uri};
use serde::{Deserialize, de::DeserializeOwned};

use marquetry_protocol::client::{AuthorizationError, Refusal, parse_server_url};

use crate::{
    ResourceMetadata,
    fetch::{Fetcher, Reach},
    lenient,
    url::{origin, same_origin, same_url},
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
    #[serde(deserialize_with = "lenient::text_or_empty")]
    pub(super) issuer: String,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) authorization_endpoint: Option<String>,
    #[serde(deserialize_with = "lenient::text_or_empty")]
    pub(super) token_endpoint: String,
    #[serde(deserialize_with = "lenient::text")]
    pub(super) registration_endpoint: Option<String>,
    #[serde(deserialize_with = "lenient::texts")]
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient::texts")]
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient::texts")]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(deserialize_with = "lenient::flag")]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(deserialize_with = "lenient::texts")]
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// The issuer as the MCP server's metadata spells it.
    #[serde(skip)]
    pub(super) named: String,
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
        let Some(mut found) = found else { return Ok(Resource::Undescribed { issuer: origin }) };
        if !covers(&found.resource, server) {
            return Err(AuthorizationError::ResourceMismatch {
                server: format!("{origin}{}", server.path()),
                named: marquetry_protocol::shortened(&found.resource).to_owned(),
            });
        }
        // The member is optional (RFC 9728, section 2). Servers leave it out that are their own
        // authorization server, as they had to be in 2025-03-26.
        if found.authorization_servers.is_empty() {
            found.authorization_servers.push(origin);
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
            let Some(mut found) = self.document::<AuthorizationServer>(what, &url).await? else {
                continue;
            };
            issuer.clone_into(&mut found.named);
            if is_tenant(issuer, &found.issuer) {
                issuer.clone_into(&mut found.issuer);
            }
            if !same_url(&found.issuer, issuer) {
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
            named: origin.to_owned(),
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

    /// Returns the ways in which clients authenticate themselves at its token endpoint, if it names
    /// some.
    pub(super) fn auth_methods(&self) -> Option<&[String]> {
        self.token_endpoint_auth_methods_supported.as_deref().filter(|known| !known.is_empty())
    }

    pub(super) fn has_scope(&self, scope: &str) -> bool {
        self.scopes_supported.iter().flatten().any(|known| known == scope)
    }
}

/// Returns whether `template` is the issuer in Entra's metadata for any tenant:
/// `https://login.microsoftonline.com/{tenantid}/v2.0`, where `issuer` has a name of tenants.
fn is_tenant(issuer: &str, template: &str) -> bool {
    let Some((before, after)) = template.split_once("{tenantid}") else { return false };
    let tenant = issuer.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    let is_in_path = before.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    is_in_path && tenant.is_some_and(|it| !it.is_empty() && !it.contains('/'))
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
    #[test]
    fn a_template_stands_for_one_tenant_of_its_origin() {
        let entra = "https://login.microsoftonline.com/{tenantid}/v2.0";
        for (issuer, template, want) in [
            ("https://login.microsoftonline.com/common/v2.0", entra, true),
            ("https://login.microsoftonline.com/a/b/v2.0", entra, false),
            ("https://login.microsoftonline.com//v2.0", entra, false),
            ("https://evil.example/common/v2.0", entra, false),
            ("https://a.example/common", "https://{tenantid}/common", false),
            ("https://a.example", "https://a.example", false),
        ] {
            assert_eq!(is_tenant(issuer, template), want, "{issuer} {template}");
        }
    }
}
