//! The capabilities of clients, hosts and Views.

use marquetry_protocol::types::{ClientCapabilities, JsonObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Csp, DisplayMode, EXTENSION, Permissions, VIEW_MIME_TYPE, is_view_mime_type};

/// Returns whether a client shows Views: its entry for the extension is an object whose array
/// `mimeTypes` contains the MIME type of Views. Any other value means that it does not, and is not
/// an error.
///
/// ```
/// use marquetry_apps_ext::types::{declare_client, is_ui_enabled};
/// use marquetry_protocol::types::ClientCapabilities;
///
/// let mut capabilities = ClientCapabilities::default();
/// assert!(!is_ui_enabled(&capabilities));
/// declare_client(&mut capabilities);
/// assert!(is_ui_enabled(&capabilities));
/// ```
#[must_use]
pub fn is_ui_enabled(client: &ClientCapabilities) -> bool {
    let types = client
        .extensions
        .get(EXTENSION)
        .and_then(|it| it.get("mimeTypes"))
        .and_then(Value::as_array);
    types.is_some_and(|types| types.iter().any(|it| it.as_str().is_some_and(is_view_mime_type)))
}

/// Returns the settings of the extension: a host declares them, and a server answers with them.
#[must_use]
pub fn client_settings() -> Value {
    json!({ "mimeTypes": [VIEW_MIME_TYPE] })
}

/// Declares that a client shows Views. Keeps its other extensions.
pub fn declare_client(client: &mut ClientCapabilities) {
    client.extensions.insert(EXTENSION.to_owned(), client_settings());
}

/// The capabilities of a View, from `ui/initialize`. Members of a wrong type count as absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AppCapabilities {
    /// Experimental features by id.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub experimental: JsonObject,
    /// The View offers tools to the host (draft).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<AppTools>,
    /// The display modes that the View supports; `None` if it sends no list. Unknown modes are left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_display_modes: Option<Vec<DisplayMode>>,
}

impl AppCapabilities {
    /// Parses `appCapabilities`.
    #[must_use]
    pub fn parse(members: &JsonObject) -> Self {
        let tools = members.get("tools").and_then(Value::as_object);
        let modes = members.get("availableDisplayModes").and_then(Value::as_array);
        Self {
            experimental: members
                .get("experimental")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            tools: tools.map(|tools| AppTools {
                list_changed: tools.get("listChanged").and_then(Value::as_bool) == Some(true),
            }),
            available_display_modes: modes.map(|modes| {
                DisplayMode::ALL
                    .iter()
                    .copied()
                    .filter(|it| modes.iter().any(|mode| mode.as_str() == Some(it.as_str())))
                    .collect()
            }),
        }
    }

    /// Returns whether the host may show the View in this mode: the View lists this mode, or has no
    /// `availableDisplayModes`.
    #[must_use]
    pub fn allows(&self, mode: DisplayMode) -> bool {
        self.available_display_modes.as_ref().is_none_or(|modes| modes.contains(&mode))
    }
}

/// The tools that a View offers (draft).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppTools {
    /// Whether the View announces changes of the list.
    pub list_changed: bool,
}

/// The capabilities of a host for a View, in the answer to `ui/initialize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct HostCapabilities {
    /// Experimental features by id.
    #[serde(skip_serializing_if = "JsonObject::is_empty")]
    pub experimental: JsonObject,
    /// `ui/open-link`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_links: Option<JsonObject>,
    /// `ui/download-file` (draft)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub download_file: Option<JsonObject>,
    /// `tools/call` and `tools/list` of the View's server
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_tools: Option<ListChanges>,
    /// `resources/read` and the lists of the View's server
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_resources: Option<ListChanges>,
    /// `notifications/message`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<JsonObject>,
    /// The parts of the View's metadata that the host granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxCapability>,
    /// `ui/update-model-context` (draft)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_model_context: Option<Modalities>,
    /// `ui/message` (draft)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Modalities>,
    /// `sampling/createMessage` (draft)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<HostSampling>,
}

/// Whether a host announces changes of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListChanges {
    /// Whether the host announces changes of the list.
    pub list_changed: bool,
}

/// The parts of a View's metadata that a host granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxCapability {
    /// The granted permissions.
    pub permissions: Permissions,
    /// The granted origins; `None` if the View asked for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csp: Option<Csp>,
}

/// The kinds of content that a host accepts (draft).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Modalities {
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<JsonObject>,
    /// Pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<JsonObject>,
    /// Sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<JsonObject>,
    /// Resources with their contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<JsonObject>,
    /// Links to resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_link: Option<JsonObject>,
    /// Structured data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<JsonObject>,
}

impl Modalities {
    /// Returns the set of all kinds of content.
    #[must_use]
    pub fn all() -> Self {
        let declared = Some(JsonObject::new());
        Self {
            text: declared.clone(),
            image: declared.clone(),
            audio: declared.clone(),
            resource: declared.clone(),
            resource_link: declared.clone(),
            structured_content: declared,
        }
    }

    /// Returns the set with only text.
    #[must_use]
    pub fn text() -> Self {
        Self { text: Some(JsonObject::new()), ..Self::default() }
    }
}

/// The capability of a host to forward sampling requests of Views to its model (draft).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSampling {
    /// Whether a View may send tools with a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<JsonObject>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_enabled(extensions: Value) -> bool {
        let capabilities = json!({ "extensions": extensions });
        is_ui_enabled(&serde_json::from_value(capabilities).unwrap())
    }

    #[test]
    fn only_the_mime_type_in_an_array_enables_views() {
        assert!(is_enabled(json!({ EXTENSION: { "mimeTypes": [VIEW_MIME_TYPE] } })));
        assert!(is_enabled(json!({ EXTENSION: { "mimeTypes": [7, "text/x", VIEW_MIME_TYPE] } })));
        let spelled = json!({ "mimeTypes": ["text/html; profile=\"mcp-app\"; charset=utf-8"] });
        assert!(is_enabled(json!({ EXTENSION: spelled })));
        for settings in [
            json!({}),
            json!(null),
            json!(true),
            json!([VIEW_MIME_TYPE]),
            json!({ "mimeTypes": VIEW_MIME_TYPE }),
            json!({ "mimeTypes": [] }),
            json!({ "mimeTypes": ["application/vnd.custom"] }),
            json!({ "mimeTypes": ["text/html"] }),
        ] {
            assert!(!is_enabled(json!({ EXTENSION: settings.clone() })), "{settings}");
        }
        assert!(!is_enabled(json!([])));
    }

    #[test]
    fn a_declared_client_is_enabled() {
        let mut client = ClientCapabilities::default();
        client.add_extension("other");
        declare_client(&mut client);
        assert!(is_ui_enabled(&client) && client.has_extension("other"));
    }

    #[test]
    fn members_of_a_wrong_type_are_ignored() {
        let members = json!({
            "experimental": { "x": {} },
            "tools": { "listChanged": "yes" },
            "availableDisplayModes": ["pip", "hologram", 7, "inline", "pip"],
        });
        let view = AppCapabilities::parse(members.as_object().unwrap());
        assert_eq!(view.tools, Some(AppTools { list_changed: false }));
        assert_eq!(view.available_display_modes, Some(vec![DisplayMode::Inline, DisplayMode::Pip]));
        assert!(view.allows(DisplayMode::Pip) && !view.allows(DisplayMode::Fullscreen));
        assert!(AppCapabilities::default().allows(DisplayMode::Fullscreen));
    }

    #[test]
    fn host_capabilities_have_the_names_of_the_specification() {
        let host = HostCapabilities {
            open_links: Some(JsonObject::new()),
            server_tools: Some(ListChanges { list_changed: true }),
            message: Some(Modalities::text()),
            sandbox: Some(SandboxCapability::default()),
            sampling: Some(HostSampling::default()),
            ..HostCapabilities::default()
        };
        let want = json!({
            "openLinks": {},
            "serverTools": { "listChanged": true },
            "sandbox": { "permissions": {} },
            "message": { "text": {} },
            "sampling": {},
        });
        assert_eq!(serde_json::to_value(&host).unwrap(), want);
        assert_eq!(serde_json::from_value::<HostCapabilities>(want).unwrap(), host);
    }
}
