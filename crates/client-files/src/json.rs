//! Reads JSON with comments, and finds the positions of values in its text.

use std::{fmt, marker::PhantomData};

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Returns the members of a JSON object in order; `None` if `text` is not an object.
///
/// The values borrow from `text`, so that [`offset_in`] can compute their positions.
pub(crate) fn json_members(text: &str) -> Option<IndexMap<String, &RawValue>> {
    serde_json::from_str(text).ok()
}

/// Returns the offset of `part` in `whole`, of which it is a slice.
pub(crate) fn offset_in(whole: &str, part: &str) -> Option<usize> {
    // Addresses as numbers: no pointer is followed, so a part of another text is merely not found.
    let offset = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (offset + part.len() <= whole.len()).then_some(offset)
}

/// The members of an object in order, including those with repeated names.
pub(crate) struct Members<T>(pub(crate) Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for All<T> {
            type Value = Members<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All(PhantomData))
    }
}

/// A string, or a number or boolean as written, which other clients convert to a string.
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = <&RawValue>::deserialize(deserializer)?.get();
        match value.as_bytes()[0] {
            b'"' => serde_json::from_str(value).map(Self).map_err(D::Error::custom),
            b'{' | b'[' | b'n' => Err(D::Error::custom("expected a string, number or boolean")),
            _ => Ok(Self(value.to_owned())),
        }
    }
}

/// Parses a scalar; any other value counts as absent.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let value = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str::<Scalar>(value.get()).ok().map(|scalar| scalar.0))
}

/// Parses a list; any other value counts as empty.
pub(crate) fn lenient_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(value.get()).unwrap_or_default())
}

// `json-strip-comments` 3.1 blanks out line ends in comments as well, so that errors would name
// wrong lines. `jsonc-parser` 0.34 makes values of its own, and the sections below are read by
// serde from the text.
/// Replaces comments and trailing commas, which editors allow in these files, by spaces. All other
/// bytes keep their positions.
pub(crate) fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        bytes[..3].fill(b' ');
    }
    let mut comma = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                comma = None;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            (b'/', Some(b'/')) => {
                let end = bytes[at..]
                    .iter()
                    .position(|&b| b == b'\n')
                    .map_or(bytes.len(), |length| at + length);
                bytes[at..end].fill(b' ');
                at = end;
            }
            (b'/', Some(b'*')) => {
                let end = bytes[at + 2..]
                    .windows(2)
                    .position(|pair| pair == b"*/")
                    .map_or(bytes.len(), |length| at + 2 + length + 2);
                // Line ends stay, so that line numbers after the comment stay correct.
                bytes[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
                at = end;
            }
            (b',', _) => {
                comma = Some(at);
                at += 1;
            }
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
                at += 1;
            }
            (byte, _) => {
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                at += 1;
            }
        }
    }
    String::from_utf8(bytes).expect("only whole comments and ASCII bytes became spaces")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_member_is_found() {
        let text = r#"{"a": 1, "b": {"c": [2]}}"#;
        let members = json_members(text).unwrap();
        assert_eq!(offset_in(text, members["b"].get()), text.find(r#"{"c""#));
        assert_eq!(offset_in(text, "elsewhere"), None);
    }

    #[test]
    fn comments_leave_every_other_byte_in_place() {
        for (text, want) in [
            (r#"{"a//b": "/* c */"}"#, r#"{"a//b": "/* c */"}"#),
            ("{} // x\n1", "{}     \n1"),
            ("[1, /* ü\n */ ]", "[1       \n    ]"),
            ("[1,2,]", "[1,2 ]"),
            (r#"["\",]"]"#, r#"["\",]"]"#),
            ("/*", "  "),
            ("\"", "\""),
            ("\"\\", "\"\\"),
        ] {
            assert_eq!(without_comments(text), want, "{text}");
        }
    }
}
