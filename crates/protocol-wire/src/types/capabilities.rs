//! What each side says that it can do.

use serde::{Deserialize, Serialize};

use super::JsonObject;

/// What a server offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// `tools/list`, `tools/call`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListChanged>,
    /// `resources/list`, `resources/read`, `resources/templates/list`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// `prompts/list`, `prompts/get`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListChanged>,
    /// `completion/complete`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<JsonObject>,
    /// Log messages, and until 2025-11-25 `logging/setLevel`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<JsonObject>,
    /// Extensions of the protocol, by identifier, each with its settings.
    #[serde(default, skip_serializing_if = "JsonObject::is_empty", deserialize_with = "lenient")]
    pub extensions: JsonObject,
    /// Capabilities that this crate does not act on, by name.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ServerCapabilities {
    /// Whether the extension is declared.
    #[must_use]
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.extensions.contains_key(identifier)
    }

    /// Declares an extension without settings, for example [`TASKS_EXTENSION`](super::TASKS_EXTENSION).
    pub fn add_extension(&mut self, identifier: &str) {
        self.extensions.entry(identifier).or_insert_with(|| JsonObject::new().into());
    }
}

/// What is no object counts as none: it must not hide the other capabilities.
fn lenient<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<JsonObject, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Object(members) => members,
        _ => JsonObject::new(),
    })
}

/// A list, and whether its changes are announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListChanged {
    /// A notification follows a change of the list.
    #[serde(default)]
    pub list_changed: bool,
}

/// The resources of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    /// A notification follows a change of the list.
    #[serde(default)]
    pub list_changed: bool,
    /// Changes of one resource can be subscribed to.
    #[serde(default)]
    pub subscribe: bool,
}

/// What a client offers, each capability with its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientCapabilities(pub JsonObject);

impl ClientCapabilities {
    /// Whether the capability is declared.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether the extension is declared.
    #[must_use]
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.0.get("extensions").is_some_and(|extensions| extensions.get(identifier).is_some())
    }

    /// Declares an extension without settings.
    pub fn add_extension(&mut self, identifier: &str) {
        let extensions = self.0.entry("extensions").or_insert_with(|| JsonObject::new().into());
        if let Some(extensions) = extensions.as_object_mut() {
            extensions.entry(identifier).or_insert_with(|| JsonObject::new().into());
        }
    }

    /// Whether forms can be shown to the user: they can unless only pages are offered.
    #[must_use]
    pub fn has_form_elicitation(&self) -> bool {
        self.0.get("elicitation").is_some_and(|elicitation| {
            elicitation.get("form").is_some() || elicitation.get("url").is_none()
        })
    }

    /// Whether the client's model may be given tools (since 2025-11-25).
    #[must_use]
    pub fn has_sampling_tools(&self) -> bool {
        self.0.get("sampling").is_some_and(|sampling| sampling.get("tools").is_some())
    }

    /// Whether pages to visit can be shown to the user (since 2025-11-25).
    #[must_use]
    pub fn has_url_elicitation(&self) -> bool {
        self.0.get("elicitation").is_some_and(|elicitation| elicitation.get("url").is_some())
    }
}
