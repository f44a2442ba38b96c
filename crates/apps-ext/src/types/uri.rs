//! URIs of Views.

use std::{fmt, str::FromStr};

use marquetry_protocol::shortened;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::UI_SCHEME;

/// The URI of a View. It starts with `ui://` and has no white space and no control characters.
///
/// ```
/// use marquetry_apps_ext::types::UiUri;
///
/// assert_eq!(UiUri::new("ui://clock/page.html")?.as_str(), "ui://clock/page.html");
/// assert!(UiUri::new("https://clock.example/page.html").is_err());
/// # Ok::<(), marquetry_apps_ext::types::UiUriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct UiUri(String);

impl UiUri {
    /// The longest URI, in bytes.
    pub const MAX_BYTES: usize = 2_048;

    /// Checks the URI of a View.
    ///
    /// # Errors
    /// Returns an error if the text does not start with `ui://`, has nothing after that, has white
    /// space or control characters, or is longer than [`UiUri::MAX_BYTES`].
    pub fn new(uri: impl Into<String>) -> Result<Self, UiUriError> {
        let uri = uri.into();
        if uri.len() > Self::MAX_BYTES {
            return Err(UiUriError::TooLong { bytes: uri.len() });
        }
        match uri.strip_prefix(UI_SCHEME) {
            None => Err(UiUriError::NoUiScheme { uri: shortened(&uri).to_owned() }),
            Some("") => Err(UiUriError::Empty),
            Some(rest) if rest.contains(|it: char| it.is_whitespace() || it.is_control()) => {
                Err(UiUriError::WhiteSpace { uri: shortened(&uri).to_owned() })
            }
            Some(_) => Ok(Self(uri)),
        }
    }

    /// Returns the URI as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text is not the URI of a View.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UiUriError {
    /// The text does not start with `ui://`.
    #[error("the URI of a View starts with ui://, and this one does not: {uri}")]
    NoUiScheme {
        /// The start of the text.
        uri: String,
    },
    /// Nothing follows `ui://`.
    #[error("the URI of a View has nothing after ui://")]
    Empty,
    /// The text has white space or control characters.
    #[error("the URI of a View has white space or control characters: {uri:?}")]
    WhiteSpace {
        /// The start of the text.
        uri: String,
    },
    /// The text is too long.
    #[error("the URI of a View is {bytes} bytes, more than {}", UiUri::MAX_BYTES)]
    TooLong {
        /// Length of the text, in bytes.
        bytes: usize,
    },
}

impl fmt::Display for UiUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for UiUri {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for UiUri {
    type Err = UiUriError;

    fn from_str(text: &str) -> Result<Self, UiUriError> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for UiUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_checked_once() {
        assert_eq!(UiUri::new("ui://a/b?c#d").unwrap().to_string(), "ui://a/b?c#d");
        for (text, error) in [
            ("UI://a", "the URI of a View starts with ui://, and this one does not: UI://a"),
            ("", "the URI of a View starts with ui://, and this one does not: "),
            ("ui://", "the URI of a View has nothing after ui://"),
            ("ui://a b", "the URI of a View has white space or control characters: \"ui://a b\""),
            ("ui://a\n", "the URI of a View has white space or control characters: \"ui://a\\n\""),
        ] {
            assert_eq!(UiUri::new(text).unwrap_err().to_string(), error);
        }
        let longest = format!("ui://{}", "a".repeat(UiUri::MAX_BYTES - 5));
        assert!(UiUri::new(longest.clone()).is_ok());
        assert!(UiUri::new(longest + "a").is_err());
    }
}
