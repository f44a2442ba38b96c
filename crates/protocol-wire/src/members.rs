//! The members of a request's parameters, found in one pass.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor,
        value::MapAccessDeserializer,
    },
};
use serde_json::value::RawValue;

use crate::shortened;

/// The members of a JSON object, whose values are not parsed yet.
///
/// Parameters may be large, and several parts of a program need one member each: one pass finds all
/// of them.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Returns the members of `params`; none if `params` is not an object.
    #[must_use]
    pub fn of(params: Option<&'a RawValue>) -> Self {
        params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }

    /// Returns the value of the member `name`. If the name occurs several times, returns the last
    /// one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value)
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
        self.0.iter().map(|(name, value)| (&**name, *value))
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
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Found).map(Self)
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
