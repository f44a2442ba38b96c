//! The host context: theme, size, locale and the shown call.

use marquetry_protocol::{
    RequestId,
    types::{JsonObject, Tool},
};
use serde::{Deserialize, Serialize};

/// The host context of a View: theme, size, locale and more. Every member is optional, and unknown
/// members are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HostContext {
    /// The call whose result the View shows. It is sent only in the answer to `ui/initialize`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_info: Option<ToolInfo>,
    /// Colour scheme of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<Theme>,
    /// CSS variables and fonts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub styles: Option<Styles>,
    /// The mode in which the View is shown now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_mode: Option<DisplayMode>,
    /// The modes in which the host can show the View.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_display_modes: Option<Vec<DisplayMode>>,
    /// The room for the View.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_dimensions: Option<ContainerDimensions>,
    /// The user's language (BCP 47).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// The user's time zone (IANA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Name of the host application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The kind of device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Input devices of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_capabilities: Option<DeviceCapabilities>,
    /// The margins that a notch or a bar covers, in CSS pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safe_area_insets: Option<SafeAreaInsets>,
    /// Members of our own or of later revisions.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// The call whose result a View shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Id of the `tools/call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId>,
    /// The called tool.
    pub tool: Tool,
}

impl ToolInfo {
    /// Creates the description of a call of `tool`.
    #[must_use]
    pub fn new(id: Option<RequestId>, tool: Tool) -> Self {
        Self { id, tool }
    }
}

/// A colour scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

/// CSS variables and fonts of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Styles {
    /// CSS variables, named in [`STYLE_VARIABLES`](super::STYLE_VARIABLES).
    #[serde(default, skip_serializing_if = "JsonObject::is_empty")]
    pub variables: JsonObject,
    /// Style sheets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub css: Option<CssParts>,
}

/// Style sheets of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CssParts {
    /// Rules of `@font-face` or `@import`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fonts: Option<String>,
}

/// A mode in which a View is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisplayMode {
    /// In the conversation.
    #[default]
    Inline,
    /// On the whole window.
    Fullscreen,
    /// In a small window above the conversation ("picture in picture").
    Pip,
}

impl DisplayMode {
    /// All display modes.
    pub const ALL: &[Self] = &[Self::Inline, Self::Fullscreen, Self::Pip];

    /// Returns the name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Fullscreen => "fullscreen",
            Self::Pip => "pip",
        }
    }

    /// Returns the mode with this name in JSON.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.as_str() == name)
    }
}

/// The room for a View. The axes are independent of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContainerDimensions {
    /// Room for the width.
    pub width: Extent,
    /// Room for the height.
    pub height: Extent,
}

/// The room on one axis, in CSS pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Extent {
    /// The host sets the size, and the View fills it.
    Fixed(f64),
    /// The View chooses the size, up to this one.
    AtMost(f64),
    /// The View chooses the size.
    #[default]
    Unbounded,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DimensionsOnWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_width: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_height: Option<f64>,
}

impl Extent {
    fn from_wire(fixed: Option<f64>, max: Option<f64>) -> Self {
        match (fixed, max) {
            // If both are set, the fixed size wins.
            (Some(size), _) => Self::Fixed(size),
            (None, Some(size)) => Self::AtMost(size),
            (None, None) => Self::Unbounded,
        }
    }

    fn to_wire(self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Fixed(size) => (Some(size), None),
            Self::AtMost(size) => (None, Some(size)),
            Self::Unbounded => (None, None),
        }
    }
}

impl Serialize for ContainerDimensions {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (width, max_width) = self.width.to_wire();
        let (height, max_height) = self.height.to_wire();
        DimensionsOnWire { width, max_width, height, max_height }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ContainerDimensions {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = DimensionsOnWire::deserialize(deserializer)?;
        Ok(Self {
            width: Extent::from_wire(wire.width, wire.max_width),
            height: Extent::from_wire(wire.height, wire.max_height),
        })
    }
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Platform {
    /// A browser.
    Web,
    /// A program with windows.
    Desktop,
    /// A phone or a tablet.
    Mobile,
}

/// The input devices of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCapabilities {
    /// Whether there is a touch screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touch: Option<bool>,
    /// Whether there is a pointer that can rest on an element, such as a mouse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hover: Option<bool>,
}

/// The margins that a notch or a bar covers, in CSS pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SafeAreaInsets {
    /// Margin at the top.
    pub top: f64,
    /// Margin on the right.
    pub right: f64,
    /// Margin at the bottom.
    pub bottom: f64,
    /// Margin on the left.
    pub left: f64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_context_is_read_and_written() {
        let context = json!({
            "toolInfo": { "id": 0, "tool": { "name": "t", "inputSchema": { "type": "object" } } },
            "theme": "dark",
            "styles": { "variables": { "--font-sans": "serif" }, "css": { "fonts": "@import 'a';" } },
            "displayMode": "inline",
            "availableDisplayModes": ["inline", "fullscreen"],
            "containerDimensions": { "width": 400.0, "maxHeight": 600.0 },
            "locale": "en-GB",
            "timeZone": "Europe/London",
            "userAgent": "console/1",
            "platform": "web",
            "deviceCapabilities": { "touch": false },
            "safeAreaInsets": { "top": 1.0, "right": 2.0, "bottom": 3.0, "left": 4.0 },
            "vendor": { "x": 1 },
        });
        let read: HostContext = serde_json::from_value(context.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), context);
        assert_eq!(serde_json::to_value(HostContext::default()).unwrap(), json!({}));
    }

    #[test]
    fn axes_are_independent() {
        let dimensions =
            ContainerDimensions { width: Extent::Unbounded, height: Extent::Fixed(9.0) };
        assert_eq!(serde_json::to_value(dimensions).unwrap(), json!({ "height": 9.0 }));
        let both: ContainerDimensions =
            serde_json::from_value(json!({ "maxWidth": 5, "maxHeight": 7 })).unwrap();
        assert_eq!((both.width, both.height), (Extent::AtMost(5.0), Extent::AtMost(7.0)));
    }

    #[test]
    fn modes_have_names() {
        for &mode in DisplayMode::ALL {
            assert_eq!(DisplayMode::from_name(mode.as_str()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        assert_eq!(DisplayMode::from_name("Inline"), None);
    }
}
