//! Signed tokens: `jsonwebtoken` knows their headers and keys, `ring` computes.
//!
//! The crate `jsonwebtoken` signs and verifies with a provider of the whole process, which can be
//! installed once. That choice belongs to the program, so nothing here uses it: tokens are signed
//! and verified with ring directly.

use jsonwebtoken::Algorithm;
#[cfg(feature = "server")]
use jsonwebtoken::{AlgorithmFamily, DecodingKey, DecodingKeyKind};
#[cfg(feature = "client")]
use ring::rand::SystemRandom;
use ring::signature as ring_signature;

/// A signature could not be made, or is wrong.
#[derive(Debug)]
pub(crate) struct BadSignature;

/// A private key.
#[cfg(feature = "client")]
pub(crate) enum KeyPair {
    Ecdsa(ring_signature::EcdsaKeyPair),
    Ed25519(ring_signature::Ed25519KeyPair),
    Rsa(Box<ring_signature::RsaKeyPair>, &'static dyn ring_signature::RsaEncoding),
}

#[cfg(feature = "client")]
impl KeyPair {
    /// Returns the key in PKCS #8, if it fits the algorithm.
    pub(super) fn read(algorithm: Algorithm, pkcs8: &[u8]) -> Option<Self> {
        use ring_signature as ring;
        match algorithm {
            Algorithm::ES256 => Self::read_ecdsa(&ring::ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8),
            Algorithm::ES384 => Self::read_ecdsa(&ring::ECDSA_P384_SHA384_FIXED_SIGNING, pkcs8),
            Algorithm::EdDSA => {
                ring::Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).map(Self::Ed25519).ok()
            }
            Algorithm::RS256 => Self::read_rsa(&ring::RSA_PKCS1_SHA256, pkcs8),
            Algorithm::RS384 => Self::read_rsa(&ring::RSA_PKCS1_SHA384, pkcs8),
            Algorithm::RS512 => Self::read_rsa(&ring::RSA_PKCS1_SHA512, pkcs8),
            Algorithm::PS256 => Self::read_rsa(&ring::RSA_PSS_SHA256, pkcs8),
            Algorithm::PS384 => Self::read_rsa(&ring::RSA_PSS_SHA384, pkcs8),
            Algorithm::PS512 => Self::read_rsa(&ring::RSA_PSS_SHA512, pkcs8),
            _ => None,
        }
    }

    fn read_ecdsa(
        signing: &'static ring_signature::EcdsaSigningAlgorithm,
        pkcs8: &[u8],
    ) -> Option<Self> {
        ring_signature::EcdsaKeyPair::from_pkcs8(signing, pkcs8, &SystemRandom::new())
            .map(Self::Ecdsa)
            .ok()
    }

    fn read_rsa(encoding: &'static dyn ring_signature::RsaEncoding, pkcs8: &[u8]) -> Option<Self> {
        let key = ring_signature::RsaKeyPair::from_pkcs8(pkcs8).ok()?;
        Some(Self::Rsa(Box::new(key), encoding))
    }
}

/// Signs a message.
#[cfg(feature = "client")]
pub(crate) fn sign(key: &KeyPair, message: &[u8]) -> Result<Vec<u8>, BadSignature> {
    let random = SystemRandom::new();
    match key {
        KeyPair::Ecdsa(key) => {
            key.sign(&random, message).map(|signature| signature.as_ref().to_vec())
        }
        KeyPair::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
        KeyPair::Rsa(key, encoding) => {
            let mut signature = vec![0; key.public().modulus_len()];
            key.sign(*encoding, &random, message, &mut signature).map(|()| signature)
        }
    }
    .map_err(|_| BadSignature)
}

/// Verifies a signature.
///
/// The key must be of the algorithm's family: an RSA key must not serve as the secret of an HMAC.
/// HMAC is refused altogether, because a server that can check such a token can also make one.
#[cfg(feature = "server")]
pub(crate) fn verify(
    algorithm: Algorithm,
    key: &DecodingKey,
    message: &[u8],
    signature: &[u8],
) -> Result<(), BadSignature> {
    use ring_signature as ring;
    if key.family() != algorithm.family() || key.family() == AlgorithmFamily::Hmac {
        return Err(BadSignature);
    }
    let signed = Signed { key, message, signature };
    match algorithm {
        Algorithm::ES256 => signed.verify(&ring::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => signed.verify(&ring::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => signed.verify(&ring::ED25519),
        Algorithm::RS256 => signed.verify_rsa(&ring::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => signed.verify_rsa(&ring::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => signed.verify_rsa(&ring::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => signed.verify_rsa(&ring::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => signed.verify_rsa(&ring::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => signed.verify_rsa(&ring::RSA_PSS_2048_8192_SHA512),
        _ => Err(BadSignature),
    }
}

/// A message, its signature, and the key to verify it with.
#[cfg(feature = "server")]
#[derive(Clone, Copy)]
struct Signed<'a> {
    key: &'a DecodingKey,
    message: &'a [u8],
    signature: &'a [u8],
}

#[cfg(feature = "server")]
impl Signed<'_> {
    /// Verifies with a key in the form that ring takes as it is.
    fn verify(
        self,
        algorithm: &'static dyn ring_signature::VerificationAlgorithm,
    ) -> Result<(), BadSignature> {
        let key = self.key.try_get_as_bytes().map_err(|_| BadSignature)?;
        ring_signature::UnparsedPublicKey::new(algorithm, key)
            .verify(self.message, self.signature)
            .map_err(|_| BadSignature)
    }

    /// Verifies with an RSA key, which a JWK gives as two numbers.
    fn verify_rsa(
        self,
        parameters: &'static ring_signature::RsaParameters,
    ) -> Result<(), BadSignature> {
        match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                ring_signature::RsaPublicKeyComponents { n: trimmed(n), e: trimmed(e) }
                    .verify(parameters, self.message, self.signature)
                    .map_err(|_| BadSignature)
            }
            DecodingKeyKind::SecretOrDer(_) => self.verify(parameters),
        }
    }
}

/// Returns a number without its leading zeros, which some issuers write and ring refuses.
#[cfg(feature = "server")]
fn trimmed(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    &number[start..]
}
