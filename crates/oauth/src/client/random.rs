//! Random text.

use crate::signing_key::base64url;

/// 256 random bits as text: a verifier of PKCE, a state, a name that is used once.
///
/// # Panics
/// When the system gives no random numbers.
pub(super) fn random() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    base64url(&bytes)
}
