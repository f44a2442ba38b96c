//! Signed tokens: `jsonwebtoken` reads and writes them, `ring` computes.

use std::sync::Once;

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey,
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

pub(super) enum KeyPair {
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
    pub(super) fn read(algorithm: Algorithm, pkcs8: &[u8]) -> Option<Self> {
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
