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
    /// Capabilities that this crate does not act on, by name.
    #[serde(flatten)]
    pub extra: JsonObject,
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
