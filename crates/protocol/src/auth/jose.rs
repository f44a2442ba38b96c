//! Signed tokens: `jsonwebtoken` reads and writes them, `ring` computes.

use std::{fmt, sync::Once};

pub use jsonwebtoken::Algorithm;
use jsonwebtoken::{
    AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey, Header,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
    signature::{Error, Signer, Verifier},
};
use ring::{rand::SystemRandom, signature as ring_signature};

/// Makes ring the one who computes, unless the program has already chosen another for `jsonwebtoken`.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    // Whoever was there first computes the same.
    ONCE.call_once(|| _ = PROVIDER.install_default());
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| Ok(Box::new(RingSigner::new(*algorithm, key)?)),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::new(*algorithm, key)?)),
    // For the conversion of keys, which nothing here does.
    key_utils: KeyUtils::new_unimplemented(),
};

struct RingSigner {
    algorithm: Algorithm,
    key: KeyPair,
}

enum KeyPair {
    Ecdsa(ring_signature::EcdsaKeyPair),
    Ed25519(ring_signature::Ed25519KeyPair),
    Rsa(Box<ring_signature::RsaKeyPair>, &'static dyn ring_signature::RsaEncoding),
}

impl RingSigner {
    fn new(algorithm: Algorithm, key: &EncodingKey) -> Result<Self> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidKeyFormat.into());
        }
        let key = KeyPair::read(algorithm, key.as_bytes()).ok_or(ErrorKind::InvalidKeyFormat)?;
        Ok(Self { algorithm, key })
    }
}

impl KeyPair {
    /// The key in PKCS #8, where it fits the algorithm.
    fn read(algorithm: Algorithm, pkcs8: &[u8]) -> Option<Self> {
        use ring_signature as ring;
        let ecdsa = |signing| {
            ring::EcdsaKeyPair::from_pkcs8(signing, pkcs8, &SystemRandom::new())
                .map(Self::Ecdsa)
                .ok()
        };
        let rsa = |encoding| {
            let key = ring::RsaKeyPair::from_pkcs8(pkcs8).ok()?;
            Some(Self::Rsa(Box::new(key), encoding))
        };
        match algorithm {
            Algorithm::ES256 => ecdsa(&ring::ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::ES384 => ecdsa(&ring::ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::EdDSA => {
                ring::Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map(Self::Ed25519).ok()
            }
            Algorithm::RS256 => rsa(&ring::RSA_PKCS1_SHA256),
            Algorithm::RS384 => rsa(&ring::RSA_PKCS1_SHA384),
            Algorithm::RS512 => rsa(&ring::RSA_PKCS1_SHA512),
            Algorithm::PS256 => rsa(&ring::RSA_PSS_SHA256),
            Algorithm::PS384 => rsa(&ring::RSA_PSS_SHA384),
            Algorithm::PS512 => rsa(&ring::RSA_PSS_SHA512),
            _ => None,
        }
    }
}

impl Signer<Vec<u8>> for RingSigner {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        let random = SystemRandom::new();
        match &self.key {
            KeyPair::Ecdsa(key) => {
                key.sign(&random, message).map(|signature| signature.as_ref().to_vec())
            }
            KeyPair::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            KeyPair::Rsa(key, encoding) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).map(|()| signature)
            }
        }
        .map_err(|_| Error::new())
    }
}

impl JwtSigner for RingSigner {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl RingVerifier {
    /// Keys of another family than the algorithm's are refused: an RSA key is no secret of an HMAC. Those of HMAC are
    /// refused altogether, because whoever checks a token must not be able to make one.
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self> {
        if key.family() != algorithm.family() || key.family() == AlgorithmFamily::Hmac {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Self { algorithm, key: key.clone() })
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        use ring_signature as ring;
        let plain = |algorithm: &'static dyn ring::VerificationAlgorithm| {
            let key = self.key.try_get_as_bytes().map_err(|_| Error::new())?;
            ring::UnparsedPublicKey::new(algorithm, key)
                .verify(message, signature)
                .map_err(|_| Error::new())
        };
        let rsa = |parameters: &'static ring::RsaParameters| match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                ring::RsaPublicKeyComponents { n: trimmed(n), e: trimmed(e) }
                    .verify(parameters, message, signature)
                    .map_err(|_| Error::new())
            }
            DecodingKeyKind::SecretOrDer(_) => plain(parameters),
        };
        match self.algorithm {
            Algorithm::ES256 => plain(&ring::ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => plain(&ring::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => plain(&ring::ED25519),
            Algorithm::RS256 => rsa(&ring::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&ring::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&ring::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&ring::RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&ring::RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&ring::RSA_PSS_2048_8192_SHA512),
            _ => Err(Error::new()),
        }
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// A number without leading zeros, which some write and ring refuses.
fn trimmed(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    &number[start..]
}

/// A private key that signs tokens of ours. Its `Debug` form says nothing but the algorithm.
#[cfg(feature = "oauth")]
#[derive(Clone)]
pub struct SigningKey {
    algorithm: Algorithm,
    key: EncodingKey,
    /// PKCS #8, to be stored.
    der: std::sync::Arc<[u8]>,
}

/// Why something is no [`SigningKey`].
#[cfg(feature = "oauth")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigningKeyError {
    /// It is no PEM with a private key in it.
    #[error("no private key in PEM (PKCS #8: \"BEGIN PRIVATE KEY\")")]
    Pem,
    /// The key is none of the algorithm's.
    #[error("private key is not one for {0:?}")]
    Unfit(Algorithm),
    /// The algorithm is not one with a private key.
    #[error("{0:?} has no private key")]
    Symmetric(Algorithm),
}

#[cfg(feature = "oauth")]
impl SigningKey {
    /// A key in PEM: PKCS #8, an elliptic curve's with its public half, as `openssl pkcs8 -topk8` writes it.
    ///
    /// # Errors
    /// When there is none, or it does not fit the algorithm.
    pub fn from_pem(pem: &str, algorithm: Algorithm) -> std::result::Result<Self, SigningKeyError> {
        use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
        let key =
            PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| SigningKeyError::Pem)?;
        Self::from_pkcs8(key.secret_pkcs8_der(), algorithm)
    }

    pub(crate) fn from_pkcs8(
        der: &[u8],
        algorithm: Algorithm,
    ) -> std::result::Result<Self, SigningKeyError> {
        let key = match algorithm.family() {
            AlgorithmFamily::Rsa => EncodingKey::from_rsa_der(der),
            AlgorithmFamily::Ec => EncodingKey::from_ec_der(der),
            AlgorithmFamily::Ed => EncodingKey::from_ed_der(der),
            AlgorithmFamily::Hmac => return Err(SigningKeyError::Symmetric(algorithm)),
        };
        if KeyPair::read(algorithm, der).is_none() {
            return Err(SigningKeyError::Unfit(algorithm));
        }
        Ok(Self { algorithm, key, der: der.into() })
    }

    /// A new key for ES256.
    ///
    /// # Panics
    /// When the system gives no random numbers.
    pub(crate) fn generate() -> Self {
        use ring_signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
        let der =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .expect("the system gives random numbers");
        Self::from_pkcs8(der.as_ref(), Algorithm::ES256).expect("ring reads what it writes")
    }

    pub(crate) fn pkcs8(&self) -> &[u8] {
        &self.der
    }

    /// The public half of a key for ES256, as a JWK.
    pub(crate) fn es256_jwk(&self) -> jsonwebtoken::jwk::Jwk {
        use jsonwebtoken::jwk::{
            AlgorithmParameters, CommonParameters, EllipticCurve, EllipticCurveKeyParameters,
            EllipticCurveKeyType, Jwk,
        };
        use ring_signature::KeyPair as _;
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

    /// A token of `claims`, of the type `typ` where one is told apart from others, with the key `jwk` in its header.
    pub(crate) fn sign(
        &self,
        typ: Option<&str>,
        jwk: Option<jsonwebtoken::jwk::Jwk>,
        claims: &serde_json::Value,
    ) -> std::result::Result<String, SigningKeyError> {
        install();
        let mut header = Header::new(self.algorithm);
        if let Some(typ) = typ {
            header.typ = Some(typ.to_owned());
        }
        header.jwk = jwk;
        jsonwebtoken::encode(&header, claims, &self.key)
            .map_err(|_| SigningKeyError::Unfit(self.algorithm))
    }
}

#[cfg(feature = "oauth")]
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// base64url without padding (RFC 7515, section 2).
#[cfg(feature = "oauth")]
pub(crate) fn base64url(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.encode(bytes)
}
