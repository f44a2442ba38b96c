//! Requests to a token endpoint.

use http::{HeaderValue, Method as HttpMethod, Request, header};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use marquetry_protocol::client::AuthorizationError;

use super::{
    ClientProof,
    clock::now,
    discovery::Discovery,
    possession::{self, Nonces},
    random::random,
    store::Method,
};
use crate::{Secret, SigningKey, fetch::Answer, lenient};

/// This client's id at one authorization server, and its authentication there.
pub(super) struct ClientIdentity {
    pub(super) id: String,
    pub(super) method: Method,
    pub(super) proof: ClientProof,
}

/// The answer of a token endpoint (RFC 6749, section 5.1).
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    pub(super) access_token: Secret,
    /// `Bearer` if it is absent: some servers leave it out.
    #[serde(default = "bearer", deserialize_with = "token_type")]
    pub(super) token_type: String,
    #[serde(default, deserialize_with = "lenient::number")]
    pub(super) expires_in: Option<f64>,
    #[serde(default, deserialize_with = "lenient::text")]
    pub(super) refresh_token: Option<String>,
    #[serde(default, deserialize_with = "lenient::texts")]
    pub(super) scope: Option<Vec<String>>,
    /// The type of an exchanged token (RFC 8693, section 2.2.1).
    #[serde(default, deserialize_with = "lenient::text")]
    pub(super) issued_token_type: Option<String>,
}

fn bearer() -> String {
    "Bearer".to_owned()
}

fn token_type<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(lenient::text(from)?.unwrap_or_else(bearer))
}

/// A token endpoint and the client that uses it.
pub(super) struct TokenEndpoint<'a> {
    pub(super) discovery: &'a Discovery<'a>,
    pub(super) issuer: &'a str,
    pub(super) url: &'a str,
    pub(super) client: &'a ClientIdentity,
    /// The key to bind tokens to.
    pub(super) key: Option<&'a SigningKey>,
    pub(super) nonces: &'a Nonces,
}

impl TokenEndpoint<'_> {
    /// Requests a token; asks a second time only if the server demands a nonce.
    pub(super) async fn ask(
        &self,
        params: &[(&str, &str)],
    ) -> Result<TokenAnswer, AuthorizationError> {
        let uri = self.discovery.checked("token endpoint", self.url)?;
        let mut again = self.key.is_some();
        loop {
            let (mut head, body) = self.request(params)?;
            if let Some(key) = self.key {
                let proof = possession::proof(key, self.nonces, &HttpMethod::POST, &uri, None)?;
                head = head.header("dpop", proof);
            }
            let answer = self
                .discovery
                .fetcher
                .send(head.uri(uri.clone()), body.into())
                .await
                .map_err(|error| fetch_error(self.url, error.to_string()))?;
            let nonce_is_new = self.nonces.update(&uri, &answer.headers);
            if answer.status.is_success() {
                // GitHub refuses with status 200. serde's errors may contain values.
                return serde_json::from_slice(&answer.body).map_err(|_| {
                    denial(&answer).unwrap_or_else(|| {
                        fetch_error(self.url, "returned an invalid token response")
                    })
                });
            }
            let denied = denied(self.url, &answer);
            let wants_nonce = matches!(
                &denied,
                AuthorizationError::Denied { error, .. } if error == "use_dpop_nonce"
            );
            if !(wants_nonce && nonce_is_new && std::mem::take(&mut again)) {
                return Err(denied);
            }
        }
    }

    /// Returns the request with the client's authentication (RFC 6749, section 2.3; RFC 7523,
    /// section 2.2).
    fn request(
        &self,
        params: &[(&str, &str)],
    ) -> Result<(http::request::Builder, String), AuthorizationError> {
        let ClientIdentity { id, method, proof } = self.client;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(params);
        let mut head = Request::builder()
            .method(HttpMethod::POST)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json");
        match (method, proof) {
            (Method::ClientSecretBasic, ClientProof::Secret(secret)) => {
                head = head.header(header::AUTHORIZATION, basic(id, secret));
            }
            (Method::ClientSecretPost, ClientProof::Secret(secret)) => {
                form.append_pair("client_id", id).append_pair("client_secret", secret.expose());
            }
            (Method::PrivateKeyJwt, ClientProof::Key(key)) => {
                const LIFETIME: u64 = 60;
                let now = now();
                let claims = json!({
                    "iss": id, "sub": id, "aud": self.issuer, "jti": random(),
                    "iat": now, "exp": now + LIFETIME,
                });
                let assertion = key
                    .sign(None, None, &claims)
                    .map_err(|error| AuthorizationError::Credentials(error.to_string()))?;
                form.append_pair("client_id", id)
                    .append_pair(
                        "client_assertion_type",
                        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                    )
                    .append_pair("client_assertion", &assertion);
            }
            _ => {
                form.append_pair("client_id", id);
            }
        }
        Ok((head, form.finish()))
    }
}

/// Returns the header with id and secret, each encoded as in a form (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &Secret) -> HeaderValue {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let pair = format!("{}:{}", form_encoded(id), form_encoded(secret.expose()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair)))
        .expect("base64 fits a header");
    value.set_sensitive(true);
    value
}

fn form_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Returns the error of a request to an endpoint.
pub(super) fn fetch_error(url: &str, problem: impl Into<String>) -> AuthorizationError {
    AuthorizationError::Fetch { url: url.to_owned(), problem: problem.into() }
}

/// Converts an authorization server's error response.
pub(super) fn denied(url: &str, answer: &Answer) -> AuthorizationError {
    denial(answer).unwrap_or_else(|| {
        fetch_error(url, format!("answers with status {}", answer.status.as_u16()))
    })
}

/// Returns the error that the body of an answer describes (RFC 6749, section 5.2).
fn denial(answer: &Answer) -> Option<AuthorizationError> {
    #[derive(Deserialize)]
    struct Denial {
        error: String,
        #[serde(default, deserialize_with = "lenient::text_or_empty")]
        error_description: String,
    }
    let Denial { error, error_description: description } =
        serde_json::from_slice(&answer.body).ok()?;
    Some(refused(&error, &description))
}

/// Returns the error of a refusal in which an authorization server describes a problem. Its texts
/// become one short line: RFC 6749, section 5.2, allows no control characters, and a line break
/// could fake a message of this program in a terminal.
pub(super) fn refused(error: &str, description: &str) -> AuthorizationError {
    let [error, description] = [error, description]
        .map(|text| marquetry_protocol::shortened(text).replace(char::is_control, " "));
    AuthorizationError::Denied { error, description }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_short_line() {
        let error = refused("invalid_grant\u{1b}[2J", &format!("no\nlogged in{}", "!".repeat(500)));
        let shown = error.to_string();
        assert!(
            shown.starts_with("authorization server refused: invalid_grant [2J: no logged in!")
        );
        assert!(shown.len() < 500 && !shown.contains(char::is_control), "{shown}");
    }
}
