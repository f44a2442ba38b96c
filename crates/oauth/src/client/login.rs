//! A person logs in: authorization code with PKCE.

use marquetry_protocol::client::AuthorizationError;

use super::{
    LoginRequest, OAuthOptions,
    discovery::AuthorizationServer,
    random::random,
    token::{TokenAnswer, TokenEndpoint},
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
    let issuer = || server.issuer.clone();
    let Some(agent) = &options.user_agent else {
        return Err(AuthorizationError::LoginRequired { issuer: issuer() });
    };
    let Some(page) = &server.authorization_endpoint else {
        let lacks = "has no page to log in at";
        return Err(AuthorizationError::Unsupported { issuer: issuer(), lacks });
    };
    if !server.has_pkce() {
        let lacks =
            "does not say that it supports PKCE with S256, without which a login can be stolen";
        return Err(AuthorizationError::Unsupported { issuer: issuer(), lacks });
    }

    let (verifier, state, redirect_uri) = (random(), random(), agent.redirect_uri());
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
    let answer = |problem: &str| AuthorizationError::Answer(problem.to_owned());
    let query = back.split_once('?').map_or(back, |(_, query)| query);
    let query = query.split('#').next().unwrap_or_default();
    let value = |wanted: &str| {
        let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == wanted);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(answer("it has something twice")),
            (found, _) => Ok(found.map(|(_, value)| value.into_owned())),
        }
    };
    if value("state")?.as_deref() != Some(state) {
        return Err(answer("it is not from this login (state)"));
    }
    // RFC 9207, section 2.4: compared byte by byte, even if the server did not announce the
    // parameter.
    match value("iss")? {
        Some(found) if found != server.issuer => {
            let expected = server.issuer.clone();
            return Err(AuthorizationError::IssuerMismatch { expected, found });
        }
        None if server.authorization_response_iss_parameter_supported => {
            return Err(answer("it does not say which server it is from (iss)"));
        }
        _ => {}
    }
    if let Some(error) = value("error")? {
        let description = value("error_description")?.unwrap_or_default();
        let error = marquetry_protocol::shortened(&error).to_owned();
        return Err(AuthorizationError::Denied { error, description });
    }
    value("code")?.ok_or_else(|| answer("it has no code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_from_this_login_and_that_server() {
        let plain =
            AuthorizationServer { issuer: "https://as.example".to_owned(), ..Default::default() };
        let strict = AuthorizationServer {
            authorization_response_iss_parameter_supported: true,
            ..plain.clone()
        };
        for (server, back, want) in [
            (&plain, "code=c&state=s", "c"),
            (&plain, "http://127.0.0.1:1/callback?state=s&code=c%20d#x", "c d"),
            (&plain, "code=c&state=s&iss=https://as.example", "c"),
            (&strict, "code=c&state=s&iss=https%3A%2F%2Fas.example", "c"),
            (
                &strict,
                "code=c&state=s",
                "answer of the authorization server: it does not say which server it is from (iss)",
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
                "answer of the authorization server: it is not from this login (state)",
            ),
            (
                &plain,
                "code=c",
                "answer of the authorization server: it is not from this login (state)",
            ),
            (&plain, "state=s", "answer of the authorization server: it has no code"),
            (
                &plain,
                "code=c&code=d&state=s",
                "answer of the authorization server: it has something twice",
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
