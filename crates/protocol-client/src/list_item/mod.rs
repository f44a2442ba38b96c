//! Items of lists, in the form that every client accepts.
//!
//! Strict clients refuse a whole list for one invalid member of one item. The strictest is the
//! official TypeScript SDK (`ToolSchema`, `PromptSchema`, `ResourceSchema` and
//! `ResourceTemplateSchema` in its `types.ts`). Such members are repaired in the JSON of an item,
//! before they can make its type refuse the item.

mod members;
mod prompt;
mod resource;
mod timestamp;
mod tool;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use self::members::Members;

/// An item of a list.
pub(super) trait Item: DeserializeOwned {
    /// Removes or rewrites invalid members that the item can be used without.
    ///
    /// # Errors
    /// Returns an error with the problem if the item cannot be used.
    fn repair(members: &mut Members<'_>) -> Result<(), String> {
        _ = members;
        Ok(())
    }
}

/// Repairs and parses an item. Each repair is added to `repairs`, except for the forms in which
/// libraries of some languages write an empty value.
///
/// # Errors
/// Returns an error with the problem if the item cannot be used.
pub(super) fn parse<T: Item>(item: &mut Value, repairs: &mut Vec<String>) -> Result<T, String> {
    if let Value::Object(members) = item {
        T::repair(&mut Members::new(members, repairs))?;
    }
    T::deserialize(&*item).map_err(|error| error.to_string())
}

#[cfg(test)]
mod test_support {
    use serde::Serialize;
    use serde_json::Value;

    use super::{Item, parse};

    /// Checks an item with these members after its repair, and the number of repairs for the log.
    /// `required` are the members that each item has.
    #[track_caller]
    pub(super) fn check<T: Item + Serialize>(
        required: &Value,
        members: &Value,
        want: &Value,
        repairs: usize,
    ) {
        let mut found = Vec::new();
        let item: T = parse(&mut merged(required, members), &mut found).unwrap();
        assert_eq!(serde_json::to_value(item).unwrap(), merged(required, want), "{members}");
        assert_eq!(found.len(), repairs, "{members}: {found:?}");
    }

    fn merged(required: &Value, members: &Value) -> Value {
        let mut item = required.clone();
        for (name, value) in members.as_object().unwrap() {
            item[name] = value.clone();
        }
        item
    }
}
