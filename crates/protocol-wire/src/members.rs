//! The members of a request's parameters, found in one pass.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, IntoDeserializer, MapAccess,
        Visitor, value::MapAccessDeserializer,
    },
};
use serde_json::value::RawValue;

use crate::{RpcError, parsed_size, shortened};

/// The members of a JSON object, whose values are not parsed yet.
///
/// Parameters may be large, and several parts of a program need one member each: one pass finds all
/// of them.
#[derive(Debug, Default)]
pub struct Members<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
    are_cut: bool,
}

impl<'a> Members<'a> {
    /// Largest number of members. Further ones are left out ([`Self::are_cut`]): no method has
    /// nearly as many, and millions fit into one message.
    pub const MAX: usize = 1_000;

    /// Returns whether the object has more members than [`Self::MAX`].
    #[must_use]
    pub fn are_cut(&self) -> bool {
        self.are_cut
    }

    /// Checks the number of members, and the size of those that each request parses before its
    /// memory is counted.
    ///
    /// # Errors
    /// Returns an error for the sender, if a limit is exceeded.
    pub fn check_size(&self) -> Result<(), RpcError> {
        /// Largest of these members, in bytes of memory beside its text.
        const MAX_MEMORY: usize = 4 << 20;
        if self.are_cut {
            let why = format!("parameters must not have more than {} members", Self::MAX);
            return Err(RpcError::limit_exceeded(why));
        }
        for name in ["_meta", "inputResponses"] {
            let text = self.get(name).map_or("", RawValue::get);
            // A long text, such as that of an image, is not a reason.
            if text.len() > MAX_MEMORY / 64
                && parsed_size(text.as_bytes()) > MAX_MEMORY + 2 * text.len()
            {
                let why = format!("member '{name}' has too many values");
                return Err(RpcError::limit_exceeded(why));
            }
        }
        Ok(())
    }

    /// Returns the members of `params`; none if `params` is not an object.
    #[must_use]
    pub fn of(params: Option<&'a RawValue>) -> Self {
        params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }

    /// Returns the value of the member `name`. If the name occurs several times, returns the last
    /// one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Parses the value of the member `name`; returns `None` if the member is missing or `null`.
    ///
    /// # Errors
    /// Returns an error if the value is not a `T`.
    pub fn read<T: Deserialize<'a>>(&self, name: &str) -> serde_json::Result<Option<T>> {
        self.get(name).map_or(Ok(None), |value| serde_json::from_str(value.get()))
    }
}

impl Members<'_> {
    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.members.iter().map(|(name, value)| (&**name, *value))
    }

    /// Returns a copy that does not borrow from the message.
    #[must_use]
    pub fn to_owned(&self) -> OwnedMembers {
        OwnedMembers(self.iter().map(|(name, value)| (name.into(), value.to_owned())).collect())
    }
}

/// [`Members`] that own their names and values.
#[derive(Debug)]
pub struct OwnedMembers(Vec<(Box<str>, Box<RawValue>)>);

impl OwnedMembers {
    /// Returns the length of all values in bytes.
    #[must_use]
    pub fn text_len(&self) -> usize {
        self.iter().map(|(_, value)| value.get().len()).sum()
    }

    /// Returns about how many bytes of memory a request of `method` with these parameters takes
    /// beside its message; 0 for short ones, of which there may be many.
    #[must_use]
    pub fn memory(&self, method: &str) -> usize {
        const SHORT: usize = 64 << 10;
        /// A tool's arguments are copied for its call, its record and its artifacts.
        const COPIES: usize = 4;
        if self.text_len() < SHORT {
            return 0;
        }
        let sizes = self.iter().map(|(name, value)| match (method, name) {
            // Only tools that need them as values parse them.
            ("tools/call", "arguments") => COPIES * value.get().len(),
            _ => parsed_size(value.get().as_bytes()),
        });
        sizes.sum()
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns the value of the member `name`. If the name occurs several times, returns the last
    /// one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
    }

    /// Parses all members as one value.
    ///
    /// # Errors
    /// Returns an error if they are not a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        self.parse_without("")
    }

    /// Parses all members except `left_out` as one value.
    ///
    /// # Errors
    /// Returns an error if they are not a `T`.
    pub fn parse_without<T: DeserializeOwned>(&self, left_out: &str) -> serde_json::Result<T> {
        let members = self.iter().filter(|(name, _)| left_out.is_empty() || *name != left_out);
        T::deserialize(MapAccessDeserializer::new(Each { members, value: None }))
    }
}

/// Gives members to a struct one by one. An error about a value names its member.
struct Each<'a, I> {
    members: I,
    value: Option<(&'a str, &'a RawValue)>,
}

impl<'de, I: Iterator<Item = (&'de str, &'de RawValue)>> MapAccess<'de> for Each<'de, I> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        self.value = self.members.next();
        self.value.map(|(name, _)| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        let (name, value) = self.value.take().ok_or_else(|| Self::Error::custom("no value"))?;
        seed.deserialize(value).map_err(|error| {
            let error = error.to_string();
            // The place is one in the value alone.
            let problem = error.split(" at line ").next().unwrap_or_default();
            Self::Error::custom(format_args!("member '{}': {problem}", shortened(name)))
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        struct Found;

        impl<'de> Visitor<'de> for Found {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    if members.len() == Members::MAX {
                        map.next_value::<IgnoredAny>()?;
                        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                        return Ok(Members { members, are_cut: true });
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(Members { members, are_cut: false })
            }
        }

        deserializer.deserialize_map(Found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_name() {
        let params: &RawValue =
            serde_json::from_str(r#"{"n\u0061me":"t","n":null,"a":[1],"a":[2]}"#).unwrap();
        let members = Members::of(Some(params));
        assert_eq!(members.read::<String>("name").unwrap().as_deref(), Some("t"));
        assert_eq!(members.read::<String>("n").unwrap(), None);
        assert_eq!(members.read::<String>("x").unwrap(), None);
        assert_eq!(members.get("a").unwrap().get(), "[2]");
        assert!(members.read::<String>("a").is_err());
        assert!(Members::of(None).get("a").is_none());
    }

    #[test]
    fn a_message_of_millions_of_members_takes_little_memory() {
        let json = format!("{{{}}}", vec![r#""a":1"#; Members::MAX + 3].join(","));
        let raw: &RawValue = serde_json::from_str(&json).unwrap();
        let members = Members::of(Some(raw));
        assert!(members.are_cut());
        assert_eq!(members.iter().count(), Members::MAX);
        let error = members.check_size().unwrap_err();
        assert_eq!(error.message, "parameters must not have more than 1000 members");
    }

    #[test]
    fn the_metadata_of_a_request_takes_little_memory() {
        let many = format!(r#"{{"_meta":{{"a":[{}]}}}}"#, vec!["[]"; 100_000].join(","));
        let members = Members::of(Some(serde_json::from_str(&many).unwrap())).check_size();
        assert_eq!(members.unwrap_err().message, "member '_meta' has too many values");
        let long = format!(r#"{{"inputResponses":{{"a":"{}"}}}}"#, "x".repeat(8 << 20));
        Members::of(Some(serde_json::from_str(&long).unwrap())).check_size().unwrap();
    }

    #[test]
    fn arguments_of_tools_count_as_text_and_other_parameters_as_values() {
        let many = vec!["0"; 100_000].join(",");
        let params = format!(r#"{{"name":"a","arguments":{{"a":[{many}]}}}}"#);
        let members = Members::of(Some(serde_json::from_str(&params).unwrap())).to_owned();
        assert!(members.memory("tools/call") < 5 * params.len());
        assert!(members.memory("prompts/get") > 50 * params.len());
        let short = Members::of(Some(serde_json::from_str(r#"{"a":[0,0]}"#).unwrap())).to_owned();
        assert_eq!(short.memory("prompts/get"), 0);
    }

    #[derive(Debug, Deserialize)]
    struct Params {
        name: String,
        arguments: Option<Box<RawValue>>,
    }

    fn parse(json: &str) -> serde_json::Result<Params> {
        Members::of(Some(serde_json::from_str(json).unwrap())).to_owned().parse()
    }

    #[test]
    fn members_that_are_kept_are_parsed_together() {
        let params = parse(r#"{"arguments":{"a":[1, "b"]},"other":1,"name":"t"}"#).unwrap();
        assert_eq!(params.name, "t");
        assert_eq!(params.arguments.unwrap().get(), r#"{"a":[1, "b"]}"#);
        assert!(parse(r#"{"name":"t","arguments":null}"#).unwrap().arguments.is_none());
        for (json, why) in [
            ("{}", "missing field `name`"),
            (r#"{"name":"a","name":"b"}"#, "duplicate field `name`"),
            (r#"{"name":1}"#, "member 'name': invalid type: integer `1`, expected a string"),
        ] {
            assert_eq!(parse(json).unwrap_err().to_string(), why, "{json}");
        }
    }
}
