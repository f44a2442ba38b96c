//! Repairs of the members of a JSON object.

use marquetry_protocol_wire::types::JsonObject;
use serde_json::Value;

/// The members of an object in a list.
pub(crate) struct Members<'a> {
    /// Path of the object in its item, which ends with a dot, or is empty.
    path: String,
    pub(super) members: &'a mut JsonObject,
    repairs: &'a mut Vec<String>,
}

impl<'a> Members<'a> {
    /// Returns the members of an item.
    pub(super) fn new(members: &'a mut JsonObject, repairs: &'a mut Vec<String>) -> Self {
        Self { path: String::new(), members, repairs }
    }

    /// Adds a repair for the log: the member `name` must be something else than it is.
    pub(super) fn report(&mut self, name: &str, must_be: &str) {
        self.repairs.push(format!("{}{name} must be {must_be}", self.path));
    }

    /// Adds a repair, unless `value` is an empty one: a library may write it for no value.
    pub(super) fn report_unless_empty(&mut self, name: &str, must_be: &str, value: &Value) {
        if !is_empty(value) {
            self.report(name, must_be);
        }
    }

    /// Removes a member that is not valid.
    pub(super) fn remove_unless(
        &mut self,
        is_valid: impl FnOnce(&Value) -> bool,
        name: &str,
        must_be: &str,
    ) {
        if self.members.get(name).is_some_and(|value| !is_valid(value))
            && let Some(value) = self.members.shift_remove(name)
        {
            self.report_unless_empty(name, must_be, &value);
        }
    }

    /// Removes those members of these names that are not strings.
    pub(super) fn strings(&mut self, names: &[&str]) {
        for name in names {
            self.remove_unless(Value::is_string, name, "a string");
        }
    }

    /// Returns the members of a member, which is removed if it is not an object.
    pub(super) fn object(&mut self, name: &str) -> Option<Members<'_>> {
        self.remove_unless(Value::is_object, name, "an object");
        let path = format!("{}{name}.", self.path);
        let members = self.members.get_mut(name)?.as_object_mut()?;
        Some(Members { path, members, repairs: self.repairs })
    }

    /// Repairs the objects in a list. Those without a string `key` are removed, and so is a member
    /// that is not a list.
    pub(super) fn objects(&mut self, name: &str, key: &str, repair: impl Fn(&mut Members<'_>)) {
        self.remove_unless(Value::is_array, name, "an array");
        let Some(items) = self.members.get_mut(name).and_then(Value::as_array_mut) else { return };
        let mut at = 0..;
        items.retain_mut(|item| {
            let path = format!("{}{name}[{}]", self.path, at.next().unwrap_or_default());
            let members = item.as_object_mut();
            let Some(members) = members.filter(|item| item.get(key).is_some_and(Value::is_string))
            else {
                self.repairs.push(format!("{path} must be an object with a string '{key}'"));
                return false;
            };
            repair(&mut Members { path: format!("{path}."), members, repairs: self.repairs });
            true
        });
    }

    /// Repairs the members that tools, prompts, resources and templates have in common.
    pub(super) fn repair_common(&mut self) {
        self.strings(&["title", "description"]);
        self.remove_unless(Value::is_object, "_meta", "an object");
        self.objects("icons", "src", |icon| {
            icon.strings(&["mimeType"]);
            icon.remove_unless(is_strings, "sizes", "an array of strings");
            icon.remove_unless(
                |theme| theme == "light" || theme == "dark",
                "theme",
                "\"light\" or \"dark\"",
            );
        });
    }
}

/// Whether a library may write this for no value: `null`, or an empty list or map, which some
/// languages do not tell apart.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn is_strings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}
