//! Random text.

use crate::signing_key::base64url;

/// Returns 256 random bits as text: for a PKCE verifier, a state, or a unique id.
///
/// # Panics
/// If the operating system provides no random numbers.
pub(super) fn random() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    base64url(&bytes)
}
