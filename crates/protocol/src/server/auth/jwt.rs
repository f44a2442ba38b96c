//! Access tokens that are signed (RFC 9068, RFC 8725).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jsonwebtoken::{Algorithm, Header, Validation, errors::ErrorKind};
use serde::Deserialize;

use super::{Bad, TokenIssuer, keys::Keys};

/// What a token says that we use.
pub(super) struct Claims {
    pub(super) subject: String,
    pub(super) scopes: BTreeSet<String>,
    /// When it is accepted no longer.
    pub(super) expires: SystemTime,
}

/// Checks a token in full.
pub(super) async fn check(
    token: &str,
    issuer: &TokenIssuer,
    keys: &Arc<Keys>,
    skew: Duration,
) -> Result<Claims, Bad> {
    #[derive(Deserialize)]
    struct Raw {
        // One text, though the library would take a list as well.
        #[serde(rename = "iss")]
        _issuer: String,
        sub: String,
        /// Seconds, perhaps with a fraction (RFC 7519, "NumericDate"); the library has seen to it that it is to come.
        exp: f64,
        #[serde(default)]
        scope: Option<Scopes>,
        /// As some servers write it.
        #[serde(default)]
        scp: Option<Scopes>,
        #[serde(default)]
        cnf: Option<serde_json::Value>,
    }
    let header = jsonwebtoken::decode_header(token).map_err(|_| Bad::Token("it cannot be read"))?;
    check_header(&header)?;
    let key = keys.find(header.alg, header.kid.as_deref()).await?;

    let mut validation = Validation::new(header.alg);
    validation.leeway = skew.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&[&issuer.resource]);
    validation.set_issuer(&[&issuer.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    crate::auth::install();
    let decoded = jsonwebtoken::decode::<Raw>(token, &key, &validation)
        .map_err(|error| Bad::Token(why(&error)))?;
    let Raw { sub, exp, scope, scp, cnf, .. } = decoded.claims;
    if sub.is_empty() {
        return Err(Bad::Token("it is for nobody"));
    }
    // Shown without a proof of possession, it is in the wrong hands (RFC 9449, section 7.2; RFC 8705, section 3).
    if cnf.is_some_and(|cnf| cnf.get("jkt").is_some() || cnf.get("x5t#S256").is_some()) {
        return Err(Bad::Token("it is bound to a key, and no proof of possession is taken here"));
    }
    let scopes = [scope, scp].into_iter().flatten().flat_map(Scopes::names).collect();
    let most = Duration::from_secs(u32::MAX.into());
    let expires = Duration::try_from_secs_f64(exp).unwrap_or(most).min(most) + skew;
    Ok(Claims { subject: sub, scopes, expires: SystemTime::UNIX_EPOCH + expires })
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

fn check_header(header: &Header) -> Result<(), Bad> {
    if matches!(header.alg, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) {
        return Err(Bad::Token("its algorithm is not one with a public key"));
    }
    // A token that was made for something else must not serve here (RFC 8725, section 3.11).
    let typ = header.typ.as_deref().unwrap_or("jwt").to_ascii_lowercase();
    if !matches!(typ.as_str(), "jwt" | "at+jwt" | "application/at+jwt") {
        return Err(Bad::Token("it is no access token"));
    }
    // What must be understood and is not known here (RFC 7515, section 4.1.11).
    if header.crit.is_some() {
        return Err(Bad::Token("it has a header that is not known here"));
    }
    Ok(())
}

fn why(error: &jsonwebtoken::errors::Error) -> &'static str {
    match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidAudience => "it is for another resource",
        ErrorKind::InvalidIssuer => "it is from another issuer",
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::InvalidAlgorithm => "its algorithm is not one of the key",
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => {
            "it lacks exp, iss, aud or sub"
        }
        ErrorKind::Json(_) => "it lacks exp, iss, aud or sub",
        _ => "it cannot be read",
    }
}
