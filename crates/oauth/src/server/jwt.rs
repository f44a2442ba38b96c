//! Access tokens that are signed (RFC 9068, RFC 8725).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, Header};
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;

use super::{keys::Keys, options::TokenIssuer, token_error::TokenError};
use crate::{lenient, url::same_url};

/// The claims of a token that are used.
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) scopes: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
    /// Time at which the token expires.
    pub(super) expires: SystemTime,
}

/// Checks a token in full.
pub(super) async fn check(
    token: &str,
    issuer: &TokenIssuer,
    keys: &Arc<Keys>,
    skew: Duration,
    groups_claim: &str,
) -> Result<Claims, TokenError> {
    /// The signed claims. A repeated claim is an error.
    #[derive(Deserialize)]
    struct RawClaims {
        iss: String,
        sub: String,
        aud: Audience,
        #[serde(deserialize_with = "seconds")]
        exp: f64,
        #[serde(default, deserialize_with = "some_seconds")]
        nbf: Option<f64>,
        #[serde(default)]
        scope: Option<Scopes>,
        /// The claim's name at some servers.
        #[serde(default)]
        scp: Option<Scopes>,
        #[serde(default)]
        cnf: Option<Confirmation>,
    }
    /// The key that the token is bound to. A value of another type makes the token invalid.
    #[derive(Deserialize)]
    struct Confirmation {
        #[serde(default)]
        jkt: Option<IgnoredAny>,
        #[serde(default, rename = "x5t#S256")]
        certificate: Option<IgnoredAny>,
    }
    const UNREADABLE: TokenError = TokenError::Invalid("it cannot be read");
    let header = jsonwebtoken::decode_header(token).map_err(|_| UNREADABLE)?;
    check_header(&header)?;
    let (message, signature) = token.rsplit_once('.').ok_or(UNREADABLE)?;
    let (_, payload) = message.split_once('.').ok_or(UNREADABLE)?;
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| UNREADABLE)?;
    let key = keys.find(header.alg, header.kid.as_deref()).await?;
    crate::provider::verify(header.alg, &key, message.as_bytes(), &signature)
        .map_err(|_| TokenError::Invalid("its signature is wrong"))?;

    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| UNREADABLE)?;
    let claims: RawClaims = serde_json::from_slice(&payload)
        .map_err(|_| TokenError::Invalid("it lacks exp, iss, aud or sub"))?;
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = since_1970.as_secs() as f64;
    let leeway = skew.as_secs() as f64;
    let RawClaims { iss, sub, aud, exp, nbf, scope, scp, cnf } = claims;
    if exp.round() < now - leeway {
        return Err(TokenError::Invalid("it has expired"));
    }
    if nbf.is_some_and(|nbf| nbf.round() > now + leeway) {
        return Err(TokenError::Invalid("it is not valid yet"));
    }
    if !same_url(&iss, &issuer.issuer) {
        return Err(TokenError::Invalid("it is from another issuer"));
    }
    if !aud.has(&issuer.resource) {
        return Err(TokenError::Invalid("it is for another resource"));
    }
    if sub.is_empty() {
        return Err(TokenError::Invalid("its claim sub is empty"));
    }
    // Without its proof of possession the token may be stolen (RFC 9449, section 7.2; RFC 8705,
    // section 3).
    if cnf.is_some_and(|cnf| cnf.jkt.is_some() || cnf.certificate.is_some()) {
        return Err(TokenError::Invalid(
            "it is bound to a key, and proofs of possession are not supported",
        ));
    }
    let scopes = [scope, scp].into_iter().flatten().flat_map(Scopes::names).collect();
    let max = Duration::from_secs(u32::MAX.into());
    let expires = Duration::try_from_secs_f64(exp).unwrap_or(max).min(max) + skew;
    let groups = groups(&payload, groups_claim);
    Ok(Claims { subject: sub, scopes, groups, expires: SystemTime::UNIX_EPOCH + expires })
}

/// Returns the groups of a user: the texts of a claim, which is a list or one text with spaces. A
/// claim with dots is a path (`realm_access.roles` at Keycloak) unless a claim has that whole name.
/// Further groups than [`MAX_GROUPS`] are left out.
fn groups(payload: &[u8], claim: &str) -> BTreeSet<String> {
    const MAX_GROUPS: usize = 256;
    let claims: Value = serde_json::from_slice(payload).unwrap_or_default();
    let found = claims
        .get(claim)
        .or_else(|| claim.split('.').try_fold(&claims, |value, name| value.get(name)));
    let names: Vec<String> = match found {
        Some(Value::Array(names)) => {
            names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        }
        Some(Value::String(text)) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    names.into_iter().filter(|name| !name.is_empty()).take(MAX_GROUPS).collect()
}

/// Seconds since 1970, perhaps with a fraction (RFC 7519, "NumericDate"). Numbers out of range are
/// refused.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    lenient::number(deserializer)?
        .filter(|seconds| (0.0..u64::MAX as f64).contains(seconds))
        .ok_or_else(|| serde::de::Error::custom("no time"))
}

/// Reads seconds as [`seconds`] does; `null` counts as absent.
fn some_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    value.map(seconds).transpose().map_err(serde::de::Error::custom)
}

/// The audience of a token: one name, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    fn has(&self, resource: &str) -> bool {
        match self {
            Self::One(name) => same_url(name, resource),
            Self::Several(names) => names.iter().any(|name| same_url(name, resource)),
        }
    }
}

/// Several names in one text, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scopes {
    Text(String),
    List(Vec<String>),
}

impl Scopes {
    fn names(self) -> Vec<String> {
        match self {
            Self::Text(text) => {
                text.split(' ').filter(|s| !s.is_empty()).map(str::to_owned).collect()
            }
            Self::List(names) => names,
        }
    }
}

fn check_header(header: &Header) -> Result<(), TokenError> {
    if matches!(header.alg, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) {
        return Err(TokenError::Invalid("its algorithm has no public keys"));
    }
    // Tokens of other types must not be accepted (RFC 8725, section 3.11).
    let typ = header.typ.as_deref().unwrap_or("jwt").to_ascii_lowercase();
    if !matches!(typ.as_str(), "jwt" | "at+jwt" | "application/at+jwt") {
        return Err(TokenError::Invalid("it is not an access token"));
    }
    // Critical headers must be understood, and none is here (RFC 7515, section 4.1.11).
    if header.crit.is_some() {
        return Err(TokenError::Invalid("it has a critical header that is not supported"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_claim_of_the_settings() {
        let payload = br#"{"groups": ["a", 7, "b", ""], "roles": "a b", "x.y": ["c"],
            "realm_access": {"roles": ["d"]}, "n": 7}"#;
        for (claim, want) in [
            ("groups", &["a", "b"][..]),
            ("roles", &["a", "b"]),
            ("x.y", &["c"]),
            ("realm_access.roles", &["d"]),
            ("n", &[]),
            ("missing.too", &[]),
        ] {
            let found: Vec<String> = groups(payload, claim).into_iter().collect();
            assert_eq!(found, want, "{claim}");
        }
    }
}
