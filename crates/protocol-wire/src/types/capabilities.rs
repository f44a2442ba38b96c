//! Capabilities of servers and clients.

use serde::{Deserialize, Serialize};

use super::{JsonObject, valid_or_default};

/// The capabilities of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// `tools/list`, `tools/call`
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub tools: Option<ListChanged>,
    /// `resources/list`, `resources/read`, `resources/templates/list`
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub resources: Option<ResourcesCapability>,
    /// `prompts/list`, `prompts/get`
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub prompts: Option<ListChanged>,
    /// `completion/complete`
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub completions: Option<JsonObject>,
    /// Log messages, and until 2025-11-25 `logging/setLevel`
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub logging: Option<JsonObject>,
    /// Extensions of the protocol, by identifier, each with its settings.
    #[serde(
        default,
        skip_serializing_if = "JsonObject::is_empty",
        deserialize_with = "valid_or_default"
    )]
    pub extensions: JsonObject,
    /// Capabilities that this crate does not act on, by name.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ServerCapabilities {
    /// Returns whether the extension is declared.
    #[must_use]
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.contains_key(identifier)
    }

    /// Declares an extension without settings, for example
    /// [`TASKS_EXTENSION`](super::TASKS_EXTENSION).
    pub fn add_extension(&mut self, identifier: &str) {
        self.extensions.entry(identifier).or_insert_with(|| JsonObject::new().into());
    }
}

/// The capability of a list, with or without notifications of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListChanged {
    /// Whether a notification follows a change of the list.
    #[serde(default, deserialize_with = "valid_or_default")]
    pub list_changed: bool,
}

/// The resources of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    /// Whether a notification follows a change of the list.
    #[serde(default, deserialize_with = "valid_or_default")]
    pub list_changed: bool,
    /// Whether clients can subscribe to changes of one resource.
    #[serde(default, deserialize_with = "valid_or_default")]
    pub subscribe: bool,
}

/// The capabilities of a client: the questions that servers may ask it, and the extensions that it
/// supports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// `elicitation/create`: questions to the user.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub elicitation: Option<ElicitationCapability>,
    /// `sampling/createMessage`: questions to the client's model.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub sampling: Option<SamplingCapability>,
    /// `roots/list`: the folders in which the server may work.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub roots: Option<RootsCapability>,
    /// Extensions of the protocol, by identifier, each with its settings.
    #[serde(
        default,
        skip_serializing_if = "JsonObject::is_empty",
        deserialize_with = "valid_or_default"
    )]
    pub extensions: JsonObject,
    /// Capabilities that this crate does not act on, by name.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// Questions to the user. Without any member, only forms are supported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// Present if the client can show forms.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub form: Option<JsonObject>,
    /// Present if the client can send the user to a web page (since 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub url: Option<JsonObject>,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// Questions to the client's model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// Present if the model accepts tools (since 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "declared")]
    pub tools: Option<JsonObject>,
    /// Members that this crate does not act on, such as `context`.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// The folders in which the server may work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// Whether a notification follows a change of the list.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "valid_or_default"
    )]
    pub list_changed: bool,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ClientCapabilities {
    /// Returns all capabilities: forms, web pages, a model that accepts tools, and roots.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
            .with_form_elicitation()
            .with_url_elicitation()
            .with_sampling_tools()
            .with_roots()
    }

    /// Adds forms for the user.
    #[must_use]
    pub fn with_form_elicitation(mut self) -> Self {
        self.elicitation.get_or_insert_default().form.get_or_insert_default();
        self
    }

    /// Adds web pages that the user visits.
    #[must_use]
    pub fn with_url_elicitation(mut self) -> Self {
        self.elicitation.get_or_insert_default().url.get_or_insert_default();
        self
    }

    /// Adds questions to the client's model.
    #[must_use]
    pub fn with_sampling(mut self) -> Self {
        self.sampling.get_or_insert_default();
        self
    }

    /// Adds questions to the client's model, which accepts tools.
    #[must_use]
    pub fn with_sampling_tools(mut self) -> Self {
        self.sampling.get_or_insert_default().tools.get_or_insert_default();
        self
    }

    /// Adds roots.
    #[must_use]
    pub fn with_roots(mut self) -> Self {
        self.roots.get_or_insert_default();
        self
    }

    /// Returns whether the client has no capability.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the capability is declared.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match name {
            "elicitation" => self.elicitation.is_some(),
            "sampling" => self.sampling.is_some(),
            "roots" => self.roots.is_some(),
            "extensions" => !self.extensions.is_empty(),
            _ => self.extra.contains_key(name),
        }
    }

    /// Returns whether the extension is declared.
    #[must_use]
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.contains_key(identifier)
    }

    /// Declares an extension without settings.
    pub fn add_extension(&mut self, identifier: &str) {
        self.extensions.entry(identifier).or_insert_with(|| JsonObject::new().into());
    }

    /// Returns whether the client can show forms to the user: always, unless it declares only
    /// pages.
    #[must_use]
    pub fn has_form_elicitation(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|it| it.form.is_some() || it.url.is_none())
    }

    /// Returns whether the client's model accepts tools (since 2025-11-25).
    #[must_use]
    pub fn has_sampling_tools(&self) -> bool {
        self.sampling.as_ref().is_some_and(|it| it.tools.is_some())
    }

    /// Returns whether the client can send the user to a web page (since 2025-11-25).
    #[must_use]
    pub fn has_url_elicitation(&self) -> bool {
        self.elicitation.as_ref().is_some_and(|it| it.url.is_some())
    }
}

/// Treats a capability with invalid settings as one without settings, so that it does not hide the
/// others. `null` and `false` declare no capability.
fn declared<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + serde::de::DeserializeOwned,
{
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null | serde_json::Value::Bool(false) => None,
        value => Some(serde_json::from_value(value).unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(json: serde_json::Value, want: [bool; 5]) -> ClientCapabilities {
        let read: ClientCapabilities = serde_json::from_value(json).unwrap();
        let got = [
            read.has_form_elicitation(),
            read.has_url_elicitation(),
            read.has("sampling"),
            read.has_sampling_tools(),
            read.has("roots"),
        ];
        assert_eq!(got, want, "{read:?}");
        read
    }

    #[test]
    fn each_capability_is_read() {
        check(json!({}), [false; 5]);
        check(json!({ "elicitation": {} }), [true, false, false, false, false]);
        check(json!({ "elicitation": { "url": {} } }), [false, true, false, false, false]);
        check(
            json!({ "elicitation": { "url": {}, "form": {} } }),
            [true, true, false, false, false],
        );
        check(json!({ "sampling": {} }), [false, false, true, false, false]);
        check(
            json!({ "sampling": { "tools": {} }, "roots": {} }),
            [false, false, true, true, true],
        );
    }

    #[test]
    fn invalid_settings_do_not_hide_other_capabilities() {
        let odd = json!({ "elicitation": true, "sampling": null, "roots": { "listChanged": 7 }, "extensions": [] });
        let read = check(odd, [true, false, false, false, true]);
        assert!(read.extensions.is_empty());
        check(json!({ "elicitation": false, "roots": false }), [false; 5]);
    }

    #[test]
    fn odd_capabilities_of_a_server_do_not_hide_others() {
        let odd = json!({
            "tools": [],
            "resources": { "subscribe": true, "listChanged": null },
            "prompts": false,
            "logging": null,
            "completions": [],
            "extensions": [],
        });
        let want = ServerCapabilities {
            tools: Some(ListChanged::default()),
            resources: Some(ResourcesCapability { subscribe: true, list_changed: false }),
            completions: Some(JsonObject::new()),
            ..ServerCapabilities::default()
        };
        assert_eq!(serde_json::from_value::<ServerCapabilities>(odd).unwrap(), want);
        let changes = json!({ "tools": { "listChanged": true } });
        let read: ServerCapabilities = serde_json::from_value(changes.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), changes);
    }

    #[test]
    fn unknown_members_are_kept() {
        let json = json!({
            "elicitation": { "form": { "a": 1 }, "b": 2 },
            "sampling": { "context": {} },
            "roots": { "listChanged": true, "c": 3 },
            "extensions": { "x/y": { "d": 4 } },
            "experimental": { "e": 5 },
        });
        let read = check(json.clone(), [true, false, true, false, true]);
        assert!(read.has("experimental") && read.has_extension("x/y") && !read.is_empty());
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }

    #[test]
    fn a_client_that_answers_everything_declares_it() {
        let all = serde_json::to_value(ClientCapabilities::all()).unwrap();
        let want = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} });
        assert_eq!(all, want);
    }
}
