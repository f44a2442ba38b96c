//! Arguments of calls: hidden ones are refused, fixed and default values are added.

use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};

use crate::ToolOverride;

/// A call with an argument that callers do not see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("argument {argument:?} is not an argument of this tool; call it without")]
pub struct HiddenArgument {
    /// Its name.
    pub argument: String,
}

type Members = IndexMap<String, Box<RawValue>>;

impl ToolOverride {
    /// Returns the arguments of a call as the server gets them. Values that the caller sent keep
    /// their bytes.
    ///
    /// # Errors
    /// Returns an error if the caller sent a hidden argument.
    pub fn arguments(
        &self,
        sent: Option<Box<RawValue>>,
    ) -> Result<Option<Box<RawValue>>, HiddenArgument> {
        self.with_values(sent, true)
    }

    /// Returns the arguments of a call as people may see them: without the values of `set`.
    ///
    /// # Errors
    /// Returns an error as [`Self::arguments`] does.
    pub fn shown_arguments(
        &self,
        sent: Option<Box<RawValue>>,
    ) -> Result<Option<Box<RawValue>>, HiddenArgument> {
        self.with_values(sent, false)
    }

    fn with_values(
        &self,
        sent: Option<Box<RawValue>>,
        has_set: bool,
    ) -> Result<Option<Box<RawValue>>, HiddenArgument> {
        if !self.concerns_arguments() {
            return Ok(sent);
        }
        let mut members = match &sent {
            Some(sent) => match serde_json::from_str::<Members>(sent.get()) {
                Ok(members) => members,
                // The server refuses what is no object.
                Err(_) => return Ok(Some(sent.clone())),
            },
            None => Members::new(),
        };
        if let Some(argument) = members.keys().find(|name| self.hides(name)) {
            return Err(HiddenArgument { argument: argument.clone() });
        }
        let set = self.set.iter().filter(|_| has_set);
        let missing = self.default.iter().filter(|(name, _)| !self.set.contains_key(*name));
        let mut is_changed = false;
        for (name, value) in set.chain(missing) {
            if !members.contains_key(name)
                && let Ok(value) = to_raw_value(value)
            {
                members.insert(name.clone(), value);
                is_changed = true;
            }
        }
        if !is_changed {
            return Ok(sent);
        }
        Ok(to_raw_value(&members).ok().or(sent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn changes() -> ToolOverride {
        let mut changes = ToolOverride { hide: vec!["h".to_owned()], ..ToolOverride::default() };
        changes.set.insert("s".to_owned(), json!("fixed"));
        changes.default.insert("d".to_owned(), json!(1));
        changes
    }

    fn raw(json: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(json.to_owned()).unwrap())
    }

    #[track_caller]
    fn check(sent: &str, want: &str, shown: &str) {
        let sent = raw(sent).filter(|it| it.get() != "null");
        let arguments = changes().arguments(sent.clone()).unwrap().unwrap();
        assert_eq!(arguments.get(), want);
        let arguments = changes().shown_arguments(sent).unwrap().unwrap();
        assert_eq!(arguments.get(), shown);
    }

    #[test]
    fn values_are_added() {
        check("null", r#"{"s":"fixed","d":1}"#, r#"{"d":1}"#);
        check("{}", r#"{"s":"fixed","d":1}"#, r#"{"d":1}"#);
        check(r#"{"d": 2.0 }"#, r#"{"d":2.0,"s":"fixed"}"#, r#"{"d": 2.0 }"#);
        check(r#"{"d":null}"#, r#"{"d":null,"s":"fixed"}"#, r#"{"d":null}"#);
        // The server refuses these.
        check("[1]", "[1]", "[1]");
    }

    #[test]
    fn hidden_arguments_are_refused_however_they_are_written() {
        for (sent, name) in [
            (r#"{"h":1}"#, "h"),
            (r#"{"s":"fixed"}"#, "s"),
            (r#"{"a":1,"\u0073":null}"#, "s"),
            (r#"{"s":1,"s":2}"#, "s"),
        ] {
            let error = changes().arguments(raw(sent)).unwrap_err();
            assert_eq!(error, HiddenArgument { argument: name.to_owned() });
        }
        let error = changes().arguments(raw(r#"{"h":1}"#)).unwrap_err().to_string();
        assert_eq!(error, "argument \"h\" is not an argument of this tool; call it without");
    }

    #[test]
    fn an_override_of_texts_leaves_arguments_as_they_are() {
        let changes = ToolOverride { name: Some("n".to_owned()), ..ToolOverride::default() };
        let sent = raw(r#"{"a":1, "a":2}"#);
        let arguments = changes.arguments(sent.clone()).unwrap();
        assert_eq!(arguments.unwrap().get(), sent.unwrap().get());
        assert!(changes.arguments(None).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn a_call_gets_every_fixed_value_and_keeps_its_own(names: Vec<String>) {
            let sent: Map<String, Value> =
                names.into_iter().map(|name| (name, json!("sent"))).collect();
            let is_refused = sent.keys().any(|name| ["h", "s"].contains(&&**name));
            let arguments = changes().arguments(to_raw_value(&sent).ok());
            prop_assert_eq!(arguments.is_err(), is_refused);
            if let Ok(Some(arguments)) = arguments {
                let arguments: Map<String, Value> = serde_json::from_str(arguments.get()).unwrap();
                prop_assert_eq!(&arguments["s"], "fixed");
                for name in sent.keys() {
                    prop_assert_eq!(&arguments[name], "sent");
                }
            }
        }
    }
}
