//! Pictures of tools, prompts, resources, clients and servers (since 2025-11-25; SEP-973).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::JsonObject;

/// An icon for people. A program should fetch it only from the server's own origin, and accept only
/// images from there (2025-11-25, "Icons").
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// URI of the image, with the scheme `https:` or `data:`.
    pub src: String,
    /// MIME type of the image, for example `image/png`. It overrides the type that the image's
    /// server sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes of the image in pixels (`48x48`), or `any`. Empty: the image is good for every size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// Background that the image is made for, `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl Icon {
    /// Returns an icon with the image at `src`.
    #[must_use]
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), ..Self::default() }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn mime_type(self, mime_type: impl Into<String>) -> Self {
        Self { mime_type: Some(mime_type.into()), ..self }
    }

    /// Adds a size: `48x48`, or `any`.
    #[must_use]
    pub fn size(mut self, size: impl Into<String>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Sets the background that the image is made for, `light` or `dark`.
    #[must_use]
    pub fn theme(self, theme: impl Into<String>) -> Self {
        Self { theme: Some(theme.into()), ..self }
    }
}

/// Leaves out icons that cannot be read, so that they do not hide the tool or server that has them.
pub(super) fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Icon>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(icons) => {
            icons.into_iter().filter_map(|icon| serde_json::from_value(icon).ok()).collect()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::types::{Implementation, Tool};

    #[test]
    fn invalid_icons_do_not_hide_valid_ones() {
        let icon = Icon::new("https://h/i.png").mime_type("image/png").size("48x48").theme("dark");
        let written = json!({
            "src": "https://h/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark",
        });
        assert_eq!(json!(icon), written);
        let tool = json!({ "name": "t", "inputSchema": {}, "icons": [written, 7, {}] });
        let tool: Tool = serde_json::from_value(tool).unwrap();
        assert_eq!(tool.icons, [icon]);
        let plain = json!({ "name": "n", "version": "1" });
        assert_eq!(json!(Implementation::new("n", "1")), plain);
        let odd = json!({ "name": "n", "version": "1", "icons": "none" });
        assert_eq!(serde_json::from_value::<Implementation>(odd).unwrap().icons, []);
    }
}
