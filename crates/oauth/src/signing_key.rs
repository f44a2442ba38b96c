//! Keys that sign this client's own tokens.

use std::{fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
pub use jsonwebtoken::Algorithm;
use jsonwebtoken::{
    AlgorithmFamily, Header,
    jwk::{
        AlgorithmParameters, CommonParameters, EllipticCurve, EllipticCurveKeyParameters,
        EllipticCurveKeyType, Jwk,
    },
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

use crate::provider::{KeyPair, sign};

/// A private key that signs this client's own tokens. Its `Debug` form shows only the algorithm.
#[derive(Clone)]
pub struct SigningKey {
    algorithm: Algorithm,
    /// PKCS #8.
    der: Arc<[u8]>,
}

/// Why a [`SigningKey`] could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigningKeyError {
    /// The text is not PEM, or contains no private key.
    #[error("no private key in PEM (PKCS #8: \"BEGIN PRIVATE KEY\")")]
    Pem,
    /// The key does not fit the algorithm.
    #[error("the private key does not fit the algorithm {0:?}")]
    Unfit(Algorithm),
    /// The algorithm has no private keys.
    #[error("the algorithm {0:?} has no private keys")]
    Symmetric(Algorithm),
}

impl SigningKey {
    /// Parses a key in PEM: PKCS #8. A key of an elliptic curve must have its public half, as
    /// `openssl pkcs8 -topk8` writes it.
    ///
    /// # Errors
    /// Returns an error if the text contains no private key, or one that does not fit the
    /// algorithm.
    pub fn from_pem(pem: &str, algorithm: Algorithm) -> Result<Self, SigningKeyError> {
        let key =
            PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| SigningKeyError::Pem)?;
        Self::from_pkcs8(key.secret_pkcs8_der(), algorithm)
    }

    pub(crate) fn from_pkcs8(der: &[u8], algorithm: Algorithm) -> Result<Self, SigningKeyError> {
        if algorithm.family() == AlgorithmFamily::Hmac {
            return Err(SigningKeyError::Symmetric(algorithm));
        }
        if KeyPair::read(algorithm, der).is_none() {
            return Err(SigningKeyError::Unfit(algorithm));
        }
        Ok(Self { algorithm, der: der.into() })
    }

    /// Generates a new key for ES256.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    pub(crate) fn generate() -> Self {
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .expect("the system gives random numbers");
        Self::from_pkcs8(der.as_ref(), Algorithm::ES256).expect("ring reads what it writes")
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.der
    }

    /// Returns the public half of a key for ES256, as a JWK.
    pub(crate) fn es256_jwk(&self) -> Jwk {
        let point = match KeyPair::read(self.algorithm, &self.der) {
            Some(KeyPair::Ecdsa(pair)) => pair.public_key().as_ref().to_vec(),
            _ => Vec::new(),
        };
        let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
        Jwk {
            common: CommonParameters::default(),
            algorithm: AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters {
                key_type: EllipticCurveKeyType::EC,
                curve: EllipticCurve::P256,
                x: base64url(x),
                y: base64url(y),
            }),
        }
    }

    /// Signs a token of `claims`. `typ` and `jwk` go into its header, if given.
    pub(crate) fn sign(
        &self,
        typ: Option<&str>,
        jwk: Option<Jwk>,
        claims: &serde_json::Value,
    ) -> Result<String, SigningKeyError> {
        let mut header = Header::new(self.algorithm);
        if let Some(typ) = typ {
            header.typ = Some(typ.to_owned());
        }
        header.jwk = jwk;
        let header = serde_json::to_vec(&header).map_err(|_| self.unfit())?;
        let mut token =
            format!("{}.{}", base64url(&header), base64url(claims.to_string().as_bytes()));
        let key = KeyPair::read(self.algorithm, &self.der).ok_or_else(|| self.unfit())?;
        let signature = sign(&key, token.as_bytes()).map_err(|_| self.unfit())?;
        token.push('.');
        token.push_str(&base64url(&signature));
        Ok(token)
    }

    fn unfit(&self) -> SigningKeyError {
        SigningKeyError::Unfit(self.algorithm)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Encodes bytes in base64url without padding (RFC 7515, section 2).
pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
