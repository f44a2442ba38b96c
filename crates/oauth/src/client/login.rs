//! A person logs in: authorization code with PKCE.

use marquetry_protocol::client::AuthorizationError;

use super::{
    LoginRequest, OAuthOptions,
    discovery::AuthorizationServer,
    random::random,
    token::{TokenAnswer, TokenEndpoint, refused},
};
use crate::signing_key::base64url;

/// Sends a person to the authorization server, and exchanges the returned code for tokens.
pub(super) async fn login(
    options: &OAuthOptions,
    server: &AuthorizationServer,
    endpoint: &TokenEndpoint<'_>,
    resource: Option<&str>,
    scope: Option<&str>,
) -> Result<TokenAnswer, AuthorizationError> {
    let Some(agent) = &options.user_agent else {
        return Err(AuthorizationError::LoginRequired { issuer: server.issuer.clone() });
    };
    let Some(page) = &server.authorization_endpoint else {
        return Err(server.unsupported("has no authorization endpoint"));
    };
    if !server.has_pkce() {
        return Err(server.unsupported(
            "does not say that it supports PKCE with S256, without which a login can be stolen",
        ));
    }

    let verifier = random();
    let state = random();
    let redirect_uri = agent.redirect_uri();
    let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    let challenge = base64url(digest.as_ref());
    let mut asked = vec![
        ("response_type", "code"),
        ("client_id", &endpoint.client.id),
        ("redirect_uri", &redirect_uri),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("state", &state),
    ];
    if let Some(scope) = scope {
        asked.push(("scope", scope));
        // OpenID Connect Core 1.0, section 11: without it the server ignores `offline_access`.
        if scope.split(' ').any(|scope| scope == "offline_access") {
            asked.push(("prompt", "consent"));
        }
    }
    asked.extend(resource.map(|resource| ("resource", resource)));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(asked).finish();
    let joint = if page.contains('?') { '&' } else { '?' };
    let url = format!("{page}{joint}{query}");

    let request = LoginRequest { url, state };
    let back = tokio::time::timeout(options.login_timeout, agent.login(&request))
        .await
        .map_err(|_| AuthorizationError::LoginTimeout(options.login_timeout))??;
    let code = code(server, &request.state, &back)?;
    let mut params = vec![
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", &redirect_uri),
        ("code_verifier", &verifier),
    ];
    params.extend(resource.map(|resource| ("resource", resource)));
    endpoint.ask(&params).await
}

/// Returns the code in the redirect, if the redirect is from `server` and belongs to this login.
fn code(
    server: &AuthorizationServer,
    state: &str,
    back: &str,
) -> Result<String, AuthorizationError> {
    let after_path = back.split_once('?').map_or(back, |(_, query)| query);
    let query = after_path.split('#').next().unwrap_or_default();
    if parameter(query, "state")?.as_deref() != Some(state) {
        return Err(answer_error("its state is not the one of this login"));
    }
    // RFC 9207, section 2.4: compared byte by byte with the names that the servers' metadata use,
    // even if the server did not announce the parameter.
    match parameter(query, "iss")? {
        Some(found) if ![&server.issuer, &server.named].contains(&&found) => {
            let expected = server.issuer.clone();
            return Err(AuthorizationError::IssuerMismatch { expected, found });
        }
        None if server.authorization_response_iss_parameter_supported => {
            return Err(answer_error("it does not name its issuer (iss)"));
        }
        _ => {}
    }
    if let Some(error) = parameter(query, "error")? {
        let description = parameter(query, "error_description")?.unwrap_or_default();
        return Err(refused(&error, &description));
    }
    parameter(query, "code")?.ok_or_else(|| answer_error("it has no code"))
}

/// Returns a parameter of the redirect; a repeated one is an error (RFC 6749, section 3.1).
fn parameter(query: &str, wanted: &str) -> Result<Option<String>, AuthorizationError> {
    let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == wanted);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(answer_error(&format!("duplicate parameter '{wanted}'"))),
        (found, _) => Ok(found.map(|(_, value)| value.into_owned())),
    }
}

fn answer_error(problem: &str) -> AuthorizationError {
    AuthorizationError::Answer(problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_must_belong_to_the_login_and_its_issuer() {
        let plain = AuthorizationServer {
            issuer: "https://as.example".to_owned(),
            named: "https://as.example".to_owned(),
            ..Default::default()
        };
        let slash =
            AuthorizationServer { named: "https://as.example/".to_owned(), ..plain.clone() };
        let strict = AuthorizationServer {
            authorization_response_iss_parameter_supported: true,
            ..plain.clone()
        };
        for (server, back, want) in [
            (&plain, "code=c&state=s", "c"),
            (&plain, "http://127.0.0.1:1/callback?state=s&code=c%20d#x", "c d"),
            (&plain, "code=c&state=s&iss=https://as.example", "c"),
            (&strict, "code=c&state=s&iss=https%3A%2F%2Fas.example", "c"),
            (&slash, "code=c&state=s&iss=https://as.example", "c"),
            (&slash, "code=c&state=s&iss=https://as.example/", "c"),
            (
                &strict,
                "code=c&state=s",
                "answer of the authorization server: it does not name its issuer (iss)",
            ),
            (
                &plain,
                "code=c&state=s&iss=https://as.example/",
                "issuer should be 'https://as.example', not 'https://as.example/'",
            ),
            (
                &strict,
                "error=access_denied&state=s&iss=https://evil.example",
                "issuer should be 'https://as.example', not 'https://evil.example'",
            ),
            (
                &plain,
                "code=c&state=t",
                "answer of the authorization server: its state is not the one of this login",
            ),
            (
                &plain,
                "code=c",
                "answer of the authorization server: its state is not the one of this login",
            ),
            (&plain, "state=s", "answer of the authorization server: it has no code"),
            (
                &plain,
                "code=c&code=d&state=s",
                "answer of the authorization server: duplicate parameter 'code'",
            ),
            (
                &plain,
                "error=access_denied&error_description=no&state=s",
                "authorization server refused: access_denied: no",
            ),
        ] {
            let found = code(server, "s", back).unwrap_or_else(|error| error.to_string());
            assert_eq!(found, want, "{back}");
        }
    }
}
