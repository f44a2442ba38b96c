//! Parameters in the query of a request. Errors are those of serde, before which axum puts the name
//! of the parameter.

use serde::Deserialize;

/// Number of entries in one answer: 1 to [`Self::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PageLimit(u8);

impl PageLimit {
    /// The largest number, which is also the default.
    pub const MAX: u8 = 200;

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(Self::MAX)
    }
}

impl TryFrom<String> for PageLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number| (1..=Self::MAX).contains(number));
        number.map(Self).ok_or_else(|| format!("expected a whole number from 1 to {}", Self::MAX))
    }
}

/// Id of an event, a call or a message, of this or an earlier run of the server; `None` if the text
/// is empty.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Id(pub(crate) Option<String>);

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let number = text.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        match number {
            Some(_) => Ok(Self(Some(text))),
            None => Err("expected an id that this server gave"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_ids_are_parsed() {
        fn limit(text: &str) -> Option<u8> {
            PageLimit::try_from(text.to_owned()).map(PageLimit::get).ok()
        }
        fn id(text: &str) -> Result<Option<String>, &'static str> {
            Id::try_from(text.to_owned()).map(|id| id.0)
        }
        assert_eq!(["1", "200"].map(limit), [Some(1), Some(200)]);
        for wrong in ["", "0", "201", "-1", "abc", "1.5", "99999999999999999999"] {
            assert_eq!(limit(wrong), None, "{wrong}");
        }
        assert_eq!(id(""), Ok(None));
        assert_eq!(id("x7-12"), Ok(Some("x7-12".to_owned())));
        for wrong in ["abc", "-1x", "12", "x-", "x--"] {
            assert!(id(wrong).is_err(), "{wrong}");
        }
    }
}
