//! Parses JSON from untrusted servers: one level at a time, borrowed, and lenient where that loses
//! nothing.

use std::{borrow::Cow, collections::HashMap, fmt, ops::Range};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of a JSON object in the order sent, each value unparsed.
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Parses the members; none when the value is not an object or a key is not Unicode.
    pub(crate) fn read(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// Returns the member of this name; the last of several, as most JSON parsers do.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|&(_, value)| value)
    }

    /// Returns the member of this name, if it exists and is not null.
    pub(crate) fn present(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|value| value.get() != "null")
    }

    /// Returns the member of this name as text, if it is a string.
    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string).map(|(text, _)| text)
    }

    /// Returns names and values; the last of several members with one name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let last: HashMap<&str, usize> =
            self.0.iter().enumerate().map(|(at, (key, _))| (key.as_ref(), at)).collect();
        self.0
            .iter()
            .enumerate()
            .filter(move |(at, (key, _))| last.get(key.as_ref()) == Some(at))
            .map(|(_, (key, value))| (key.as_ref(), *value))
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// The unparsed elements of a JSON array: the first ones separately, the others as one piece of
/// text.
pub(crate) struct Elements<'a> {
    pub(crate) first: Vec<&'a RawValue>,
    pub(crate) tail: Option<Tail<'a>>,
}

/// The elements of an array after the first ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'a> {
    pub(crate) count: usize,
    first: &'a RawValue,
    last: &'a RawValue,
}

impl Tail<'_> {
    /// Returns the position of the elements in the text `whole`, with the commas between them and
    /// without brackets.
    pub(crate) fn span(&self, whole: &RawValue) -> Range<usize> {
        span(whole, self.first).start..span(whole, self.last).end
    }
}

/// Parses the elements of a JSON array, and lists the first `max`; none when the value is not an
/// array. Memory is bounded by `max`.
pub(crate) fn elements(raw: &RawValue, max: usize) -> Option<Elements<'_>> {
    struct ElementsVisitor(usize);

    impl<'de> Visitor<'de> for ElementsVisitor {
        type Value = Elements<'de>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut elements = Elements { first: Vec::new(), tail: None };
            while let Some(element) = seq.next_element::<&RawValue>()? {
                match &mut elements.tail {
                    _ if elements.first.len() < self.0 => elements.first.push(element),
                    None => elements.tail = Some(Tail { count: 1, first: element, last: element }),
                    Some(tail) => {
                        tail.count += 1;
                        tail.last = element;
                    }
                }
            }
            Ok(elements)
        }
    }

    serde_json::Deserializer::from_str(raw.get()).deserialize_seq(ElementsVisitor(max)).ok()
}

/// Parses a JSON string, and says whether it is exact: half a surrogate pair, which is not Unicode,
/// becomes U+FFFD. None when the value is not a string.
pub(crate) fn string(raw: &RawValue) -> Option<(Cow<'_, str>, bool)> {
    if !raw.get().starts_with('"') {
        return None;
    }
    match serde_json::from_str::<Key<'_>>(raw.get()) {
        Ok(Key(text)) => Some((text, true)),
        Err(_) => serde_json::from_str::<LossyText>(raw.get())
            .ok()
            .map(|LossyText(text)| (Cow::Owned(text), false)),
    }
}

struct LossyText(String);

impl<'de> Deserialize<'de> for LossyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LossyVisitor;

        impl Visitor<'_> for LossyVisitor {
            type Value = LossyText;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(LossyText(String::from_utf8_lossy(bytes).into_owned()))
            }
        }

        // As bytes, serde_json returns half pairs unchanged.
        deserializer.deserialize_bytes(LossyVisitor)
    }
}

/// Returns whether the value is a JSON object.
pub(crate) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Returns the position of `part` in `whole`, of which it is a slice.
pub(crate) fn span(whole: &RawValue, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr().addr() - whole.get().as_ptr().addr();
    start..start + part.get().len()
}

/// Returns the JSON text without white space between tokens. Escapes stay.
pub(crate) fn minified(json: &str) -> impl Iterator<Item = u8> {
    let mut in_string = false;
    let mut escaped = false;
    json.bytes().filter(move |&byte| {
        if !in_string {
            in_string = byte == b'"';
            return !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = false,
            _ => {}
        }
        true
    })
}

#[cfg(test)]
#[path = "../tests/unit/json.rs"]
mod tests;
