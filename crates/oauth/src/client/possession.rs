//! Proof of possession of a key (DPoP, RFC 9449).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::json;

use marquetry_protocol::client::AuthorizationError;

use super::{clock::now, random::random};
use crate::{Algorithm, Secret, SigningKey, signing_key::base64url, url::origin};

/// The nonces for the next proofs, by origin.
#[derive(Default)]
pub(super) struct Nonces(Mutex<HashMap<String, String>>);

impl Nonces {
    /// Stores the nonce that a response brings, and returns whether it is new.
    pub(super) fn update(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        const MAX_BYTES: usize = 4 << 10;
        let nonce = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
        let Some(nonce) = nonce.filter(|nonce| nonce.len() <= MAX_BYTES) else { return false };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(origin(uri), nonce.to_owned()).as_deref() != Some(nonce)
    }

    fn of(&self, uri: &Uri) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&origin(uri)).cloned()
    }
}

/// Returns the key to which a login's tokens are bound, in the form in which it is stored.
pub(super) fn stored(key: &SigningKey) -> Secret {
    base64url(key.pkcs8()).into()
}

/// Parses a stored key.
pub(super) fn read(stored: &Secret) -> Result<SigningKey, AuthorizationError> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let der = URL_SAFE_NO_PAD.decode(stored.expose()).unwrap_or_default();
    SigningKey::from_pkcs8(&der, Algorithm::ES256)
        .map_err(|_| AuthorizationError::Credentials("the stored key cannot be read".to_owned()))
}

/// Returns a proof for one request, bound to `token` if the request sends one (RFC 9449, section
/// 4.2).
pub(super) fn proof(
    key: &SigningKey,
    nonces: &Nonces,
    method: &Method,
    uri: &Uri,
    token: Option<&Secret>,
) -> Result<HeaderValue, AuthorizationError> {
    let mut claims = json!({
        "jti": random(),
        "htm": method.as_str(),
        "htu": format!("{}{}", origin(uri), uri.path()),
        "iat": now(),
    });
    if let Some(token) = token {
        let digest = ring::digest::digest(&ring::digest::SHA256, token.expose().as_bytes());
        claims["ath"] = base64url(digest.as_ref()).into();
    }
    if let Some(nonce) = nonces.of(uri) {
        claims["nonce"] = nonce.into();
    }
    let proof = key
        .sign(Some("dpop+jwt"), Some(key.es256_jwk()), &claims)
        .map_err(|error| AuthorizationError::Credentials(error.to_string()))?;
    HeaderValue::from_str(&proof).map_err(|_| {
        AuthorizationError::Credentials("the proof is not valid in a header".to_owned())
    })
}
