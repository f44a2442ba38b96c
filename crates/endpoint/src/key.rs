//! API keys.

use std::fmt;

use crate::displayable;

/// An API key. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Returns the key itself, to be sent to its endpoint.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether an HTTP header can contain the key: it is not empty and has only visible
    /// ASCII characters.
    pub fn is_sendable(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }

    /// Returns a text of the endpoint as [`displayable`] does, with this key replaced by `…`.
    pub fn redact(key: Option<&Self>, text: &str) -> String {
        displayable(text, key.map_or("", |key| key.expose()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_does_not_show_the_key() {
        assert_eq!(format!("{:?}", Some(ApiKey::new("sk-1"))), "Some(ApiKey(…))");
    }

    #[test]
    fn a_key_that_fits_into_no_header_is_not_sendable() {
        assert!(ApiKey::new("sk-1").is_sendable());
        for key in ["", "a\nb", "a b", "ä"] {
            assert!(!ApiKey::new(key).is_sendable(), "{key:?}");
        }
    }

    #[test]
    fn the_key_is_redacted_also_where_the_text_is_cut_or_hides_it() {
        let key = ApiKey::new("sk-secret");
        for text in ["bad key sk-secret!", "bad key sk-\u{200e}sec\u{7}ret!"] {
            assert_eq!(ApiKey::redact(Some(&key), text), "bad key …!");
        }
        let cut = ApiKey::redact(Some(&key), &format!("{}sk-secret", "x".repeat(395)));
        assert!(!cut.contains("sk"), "{cut}");
        assert_eq!(ApiKey::redact(None, "bad key sk-secret!"), "bad key sk-secret!");
    }
}
