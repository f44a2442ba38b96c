//! The section `[auth]`: authentication of callers.

use std::{
    fmt,
    io::Read,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use marquetry_oauth::server::{
    KeySource, ResourceServer, ResourceServerOptions, StaticToken, TokenIssuer,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use marquetry_client_files::{Variables, expand::Sources};

/// Authentication of HTTP callers. Without `issuer` and `tokens`, every caller that can connect is
/// accepted. A token is required for `/mcp`, `/sse`, `/messages`, `/mcp/v1`, `/media` and
/// `/api/tools`. The paths `/`, `/livez`, `/readyz`, `/healthz` and the metadata for clients need
/// no token; the details of `/healthz` need the scope `admin`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuthConfig {
    /// Issuer URL of the OAuth 2.1 authorization server or OpenID provider whose tokens (JWT) are
    /// accepted.
    #[schemars(example = &"https://login.example")]
    pub issuer: Option<String>,
    /// URL of `/mcp` as clients reach it. Tokens must name it as their audience. Required with
    /// `issuer`.
    #[schemars(example = &"https://tools.example/mcp")]
    pub resource: Option<String>,
    /// URL of the issuer's public keys (a JWK set). Without it, the issuer's metadata says where
    /// they are.
    #[schemars(example = &"https://login.example/keys")]
    pub jwks_url: Option<String>,
    /// File with the issuer's public keys, instead of `jwks_url`, for machines that cannot reach
    /// the issuer.
    #[schemars(example = &"/etc/marquetry/keys.json")]
    pub jwks_file: Option<PathBuf>,
    /// Scopes that the token of every request must have.
    pub required_scopes: Vec<String>,
    /// Claim of the issuer's tokens with the names of a user's groups: a list, or a text with
    /// spaces. Dots lead into objects (`realm_access.roles`). `groups` by default. Documents that
    /// are shared with a group are found by its users.
    #[schemars(example = &"groups")]
    pub groups_claim: Option<String>,
    /// Static tokens by the names of their holders. Each is read from an environment variable
    /// (`env`), a file (`file`) or another place of secrets (`token`, such as
    /// `"${keyring:marquetry/ci}"`), and has scopes. A token has at least 16 characters; `openssl
    /// rand -hex 32` makes one.
    #[schemars(example = serde_json::json!({"ci": {"env": "MARQUETRY_TOKEN_CI", "scopes": ["tools"]}}))]
    pub tokens: Option<IndexMap<String, TokenConfig>>,
}

/// A static token: its place and its scopes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TokenConfig {
    /// The environment variable with the token.
    pub env: Option<String>,
    /// The file with the token; white space around it is ignored.
    pub file: Option<PathBuf>,
    /// A reference to the token: `${file:PATH}`, `${keyring:SERVICE/NAME}` or `${command:PROGRAM
    /// ARG…}`.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<String>")]
    pub token: Option<TokenText>,
    /// Scopes of its holder.
    pub scopes: Vec<String>,
    /// Groups of its holder.
    pub groups: Vec<String>,
}

/// A reference to a token, or the token after the reference was replaced. Shows neither.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct TokenText(String);

impl TokenText {
    /// Replaces the references. A token does not belong into the file itself.
    pub(crate) fn expand(&mut self, sources: &Sources<'_>) -> Result<(), String> {
        if !self.0.contains("${") {
            return Err("is no reference to a secret; a configuration holds no tokens; expected one such as \"${keyring:marquetry/ci}\" or \"${file:/run/secrets/ci}\"".to_owned());
        }
        self.0 = sources.expand(&self.0).map_err(|error| error.to_string())?.into_owned();
        Ok(())
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// An invalid key of `[auth]`: its name and a message.
pub(crate) type Fault = (&'static str, String);

impl AuthConfig {
    /// Returns whether callers must authenticate.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.issuer.is_some() || self.tokens.as_ref().is_some_and(|tokens| !tokens.is_empty())
    }

    /// Returns the environment variables with tokens.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().flat_map(IndexMap::values).filter_map(|token| token.env.as_deref())
    }

    /// Returns the number of static tokens.
    pub fn token_count(&self) -> usize {
        self.tokens.as_ref().map_or(0, IndexMap::len)
    }

    /// Returns the authenticator, or [`None`] if `[auth]` is not set. Reads the secrets.
    pub(crate) fn resource_server(
        &self,
        variables: Variables<'_>,
    ) -> Result<Option<ResourceServer>, Fault> {
        if !self.is_set() {
            return match self.unused_key() {
                Some(key) => Err((key, "needs \"issuer\" or \"tokens\"".into())),
                None => Ok(None),
            };
        }
        let mut options = ResourceServerOptions::default();
        options.required_scopes.clone_from(&self.required_scopes);
        options.name = Some("Marquetry".to_owned());
        if let Some(claim) = &self.groups_claim {
            options.groups_claim.clone_from(claim);
        }
        if let Some(issuer) = &self.issuer {
            let Some(resource) = &self.resource else {
                let problem = "\"issuer\" needs \"resource\": the URL of /mcp as clients reach it, which tokens must name as their audience";
                return Err(("issuer", problem.to_owned()));
            };
            let keys = match (&self.jwks_url, &self.jwks_file) {
                (Some(_), Some(_)) => {
                    return Err((
                        "jwks_file",
                        "set only one of \"jwks_url\" and \"jwks_file\"".into(),
                    ));
                }
                (Some(url), None) => KeySource::Url(url.clone()),
                (None, Some(file)) => KeySource::File(file.clone()),
                (None, None) => KeySource::Discovered,
            };
            options.issuer =
                Some(TokenIssuer { issuer: issuer.clone(), resource: resource.clone(), keys });
        }
        for (name, token) in self.tokens.iter().flatten() {
            // The name becomes the user's name, in URIs of records and in messages.
            if name.is_empty()
                || name.len() > 64
                || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c))
            {
                let problem = format!(
                    "{name:?} is not a valid name: expected up to 64 of a-z, A-Z, 0-9, -_.@"
                );
                return Err(("tokens", problem));
            }
            let text = token
                .read(variables)
                .map_err(|problem| ("tokens", format!("{name}: {problem}")))?;
            let token = StaticToken::new(name, &text, &token.scopes).with_groups(&token.groups);
            options.static_tokens.push(token);
        }
        ResourceServer::new(options).map(Some).map_err(|error| {
            let key = if self.issuer.is_some() { "issuer" } else { "tokens" };
            (key, error.to_string())
        })
    }

    /// Returns the first key that has no effect without an issuer or a token.
    fn unused_key(&self) -> Option<&'static str> {
        let given = [
            ("resource", self.resource.is_some()),
            ("jwks_url", self.jwks_url.is_some()),
            ("jwks_file", self.jwks_file.is_some()),
            ("required_scopes", !self.required_scopes.is_empty()),
            ("groups_claim", self.groups_claim.is_some()),
        ];
        given.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
    }
}

impl TokenConfig {
    fn read(&self, variables: Variables<'_>) -> Result<String, String> {
        const MIN_LENGTH: usize = 16;
        let text = match (&self.env, &self.file, &self.token) {
            (Some(name), None, None) => variables(name)
                .ok_or_else(|| format!("the environment variable {name} is not set"))?,
            (None, None, Some(token)) => token.0.clone(),
            (None, Some(path), None) => {
                read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?
            }
            _ => return Err("expected one of \"env\", \"file\" and \"token\"".to_owned()),
        };
        let text = text.trim();
        if text.len() < MIN_LENGTH || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "a token has at least {MIN_LENGTH} characters and no blanks; `openssl rand -hex 32` makes one"
            ));
        }
        Ok(text.to_owned())
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    const MAX_BYTES: u64 = 64 << 10;
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "GOOD" => Some("hush-0123456789abcdef\n".to_owned()),
            "SHORT" => Some("hush".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn invalid_settings_are_named() {
        for (text, want) in [
            ("", ""),
            ("issuer = 'https://login.example'\nresource = 'https://tools.example/mcp'", ""),
            ("tokens = { ci = { env = 'GOOD' } }", ""),
            (
                "issuer = 'https://login.example'",
                "issuer: \"issuer\" needs \"resource\": the URL of /mcp as clients reach it, which tokens must name as their audience",
            ),
            (
                "issuer = 'http://login.example'\nresource = 'https://tools.example/mcp'",
                "issuer: issuer 'http://login.example': it must be https, or on this machine",
            ),
            (
                "issuer = 'https://login.example'\nresource = 'https://tools.example/mcp'\njwks_url = 'https://x'\njwks_file = 'x'",
                "jwks_file: set only one of \"jwks_url\" and \"jwks_file\"",
            ),
            ("resource = 'https://tools.example/mcp'", "resource: needs \"issuer\" or \"tokens\""),
            ("required_scopes = ['a']", "required_scopes: needs \"issuer\" or \"tokens\""),
            (
                "tokens = { 'a/../b' = { env = 'GOOD' } }",
                "tokens: \"a/../b\" is not a valid name: expected up to 64 of a-z, A-Z, 0-9, -_.@",
            ),
            (
                "tokens = { '' = { env = 'GOOD' } }",
                "tokens: \"\" is not a valid name: expected up to 64 of a-z, A-Z, 0-9, -_.@",
            ),
            (
                "tokens = { ci = { env = 'NONE' } }",
                "tokens: ci: the environment variable NONE is not set",
            ),
            (
                "tokens = { ci = { env = 'SHORT' } }",
                "tokens: ci: a token has at least 16 characters and no blanks; `openssl rand -hex 32` makes one",
            ),
            ("tokens = { ci = {} }", "tokens: ci: expected one of \"env\", \"file\" and \"token\""),
            (
                "tokens = { a = { env = 'GOOD' }, b = { env = 'GOOD' } }",
                "tokens: 'a' and 'b' have the same token; give each holder a different token",
            ),
        ] {
            let config: AuthConfig = toml::from_str(text).unwrap();
            let found = match config.resource_server(&variable) {
                Ok(_) => String::new(),
                Err((key, problem)) => format!("{key}: {problem}"),
            };
            assert_eq!(found, want, "{text}");
            assert!(!found.contains("hush"));
        }
    }
}
