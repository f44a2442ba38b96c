//! The metadata of a tool: its View, and who may see and call it.

use marquetry_protocol::types::{JsonObject, Tool};
use serde_json::{Value, json};

use super::{FLAT_RESOURCE_KEY, UI_META_KEY, UiUri, UiUriError};

/// The metadata of a tool in `_meta`: the link to its View, and who may see and call the tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolUi {
    /// The View that shows the tool's results. A tool without a View may still have a visibility,
    /// for example if other Views call it.
    pub resource: Option<UiUri>,
    /// The parties that may see and call the tool.
    pub visibility: Visibility,
}

impl ToolUi {
    /// Creates the metadata of a tool whose results are shown in this View; models and Views may
    /// call the tool.
    #[must_use]
    pub fn shown_in(view: UiUri) -> Self {
        Self { resource: Some(view), ..Self::default() }
    }

    /// Sets the visibility.
    #[must_use]
    pub fn with_visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Reads a tool's metadata: first `_meta.ui`, then the older `_meta["ui/resourceUri"]`. Returns
    /// `None` if the tool has neither; models and Views may call such a tool.
    ///
    /// # Errors
    /// Returns an error if the link is not a string, or not the URI of a View. The visibility can
    /// still be read with [`Visibility::of`].
    pub fn read(tool: &Tool) -> Result<Option<Self>, ToolUiError> {
        Self::read_meta(tool.meta.as_ref())
    }

    /// Reads the metadata from a tool's `_meta`, as [`ToolUi::read`] does.
    ///
    /// # Errors
    /// Returns an error if [`ToolUi::read`] does.
    pub fn read_meta(meta: Option<&JsonObject>) -> Result<Option<Self>, ToolUiError> {
        let Some(meta) = meta else { return Ok(None) };
        let nested = meta.get(UI_META_KEY).and_then(Value::as_object);
        let flat = meta.get(FLAT_RESOURCE_KEY).filter(|it| !it.is_null());
        if nested.is_none() && flat.is_none() {
            return Ok(None);
        }
        // Some servers write every absent member as null.
        let link = nested.and_then(|ui| ui.get("resourceUri")).filter(|it| !it.is_null()).or(flat);
        let resource = match link {
            None => None,
            Some(Value::String(uri)) => Some(UiUri::new(uri.as_str())?),
            Some(_) => return Err(ToolUiError::LinkIsNoText),
        };
        Ok(Some(Self { resource, visibility: Visibility::of_meta(Some(meta)) }))
    }

    /// Writes the metadata into a tool, in the present form and, for hosts of 2025, in the older
    /// one. Other members of `_meta` and `_meta.ui` stay.
    pub fn write(&self, tool: &mut Tool) {
        let meta = tool.meta.get_or_insert_default();
        let ui = meta.entry(UI_META_KEY).or_insert_with(|| json!({}));
        if !ui.is_object() {
            *ui = json!({});
        }
        if let Some(ui) = ui.as_object_mut() {
            match &self.resource {
                Some(uri) => ui.insert("resourceUri".to_owned(), uri.as_str().into()),
                None => ui.shift_remove("resourceUri"),
            };
            match self.visibility {
                Visibility::BOTH => ui.shift_remove("visibility"),
                visibility => ui.insert("visibility".to_owned(), visibility.to_json()),
            };
        }
        match &self.resource {
            Some(uri) => meta.insert(FLAT_RESOURCE_KEY.to_owned(), uri.as_str().into()),
            None => meta.shift_remove(FLAT_RESOURCE_KEY),
        };
    }

    /// Removes the metadata in both forms from a tool, for a client without Views. Also removes a
    /// `_meta` that is then empty.
    pub fn remove(tool: &mut Tool) {
        let Some(meta) = &mut tool.meta else { return };
        meta.shift_remove(UI_META_KEY);
        meta.shift_remove(FLAT_RESOURCE_KEY);
        if meta.is_empty() {
            tool.meta = None;
        }
    }
}

/// The reason why the link of a tool to its View cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolUiError {
    /// The link is not a string.
    #[error("resourceUri is not a string")]
    LinkIsNoText,
    /// The link is not the URI of a View.
    #[error(transparent)]
    Uri(#[from] UiUriError),
}

/// The parties that may see and call a tool. The default is [`Visibility::BOTH`].
///
/// ```
/// use marquetry_apps_ext::types::Visibility;
/// use serde_json::json;
///
/// assert_eq!(Visibility::from_json(None), Visibility::BOTH);
/// assert_eq!(Visibility::from_json(Some(&json!(["app", "robot"]))), Visibility::APP);
/// // A list that names neither denies both, instead of falling back to the default.
/// assert_eq!(Visibility::from_json(Some(&json!(["robot"]))), Visibility::NEITHER);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Visibility {
    /// Whether the model may see and call the tool.
    pub model: bool,
    /// Whether Views of the same server may call the tool.
    pub app: bool,
}

impl Visibility {
    /// Models and Views may call the tool.
    pub const BOTH: Self = Self { model: true, app: true };
    /// Only the model may call the tool.
    pub const MODEL: Self = Self { model: true, app: false };
    /// Only Views of the same server may call the tool.
    pub const APP: Self = Self { model: false, app: true };
    /// Neither models nor Views may call the tool.
    pub const NEITHER: Self = Self { model: false, app: false };

    /// Returns the visibility of a tool, even if its link to a View cannot be read.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        Self::of_meta(tool.meta.as_ref())
    }

    /// Returns the visibility from a tool's `_meta`, as [`Visibility::of`] does.
    #[must_use]
    pub fn of_meta(meta: Option<&JsonObject>) -> Self {
        let ui = meta.and_then(|meta| meta.get(UI_META_KEY));
        Self::from_json(ui.and_then(|ui| ui.get("visibility")))
    }

    /// Parses `_meta.ui.visibility`. Absent or null allows both. In an array only `model` and `app`
    /// count; any other value denies both.
    #[must_use]
    pub fn from_json(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::BOTH,
            Some(Value::Array(names)) => Self {
                model: names.iter().any(|it| it == "model"),
                app: names.iter().any(|it| it == "app"),
            },
            Some(_) => Self::NEITHER,
        }
    }

    /// Returns the value for `_meta.ui.visibility`.
    #[must_use]
    pub fn to_json(self) -> Value {
        let names = [("model", self.model), ("app", self.app)];
        names.into_iter().filter_map(|(name, is_in)| is_in.then_some(name)).collect()
    }
}

impl Default for Visibility {
    fn default() -> Self {
        Self::BOTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(meta: Value) -> Tool {
        serde_json::from_value(json!({ "name": "t", "inputSchema": {}, "_meta": meta })).unwrap()
    }

    #[test]
    fn the_nested_key_comes_before_the_flat_one() {
        let both = json!({ "ui": { "resourceUri": "ui://new" }, "ui/resourceUri": "ui://old" });
        fn link(meta: Value) -> String {
            ToolUi::read(&tool(meta)).unwrap().unwrap().resource.unwrap().to_string()
        }
        assert_eq!(link(both), "ui://new");
        assert_eq!(link(json!({ "ui/resourceUri": "ui://old" })), "ui://old");
        let null = json!({ "ui": { "resourceUri": null }, "ui/resourceUri": "ui://old" });
        assert_eq!(link(null), "ui://old");
    }

    #[test]
    fn a_tool_may_have_no_view() {
        assert_eq!(ToolUi::read(&Tool::default()), Ok(None));
        assert_eq!(ToolUi::read(&tool(json!({ "other": 1, "ui/resourceUri": null }))), Ok(None));
        let helper = ToolUi::read(&tool(json!({ "ui": { "visibility": ["app"] } }))).unwrap();
        assert_eq!(helper, Some(ToolUi { resource: None, visibility: Visibility::APP }));
    }

    #[test]
    fn a_link_that_is_no_view_is_an_error() {
        fn error(meta: Value) -> String {
            ToolUi::read(&tool(meta)).unwrap_err().to_string()
        }
        assert_eq!(error(json!({ "ui": { "resourceUri": 7 } })), "resourceUri is not a string");
        assert!(error(json!({ "ui/resourceUri": "https://a" })).contains("starts with ui://"));
    }

    #[test]
    fn visibility_never_falls_back_to_more() {
        fn of(value: Value) -> Visibility {
            Visibility::from_json(Some(&value))
        }
        assert_eq!(of(json!([])), Visibility::NEITHER);
        assert_eq!(of(json!(["model", "x"])), Visibility::MODEL);
        assert_eq!(of(json!(["app", "model", "app"])), Visibility::BOTH);
        assert_eq!(of(json!("app")), Visibility::NEITHER);
        assert_eq!(of(json!(["App", 7])), Visibility::NEITHER);
        assert_eq!(of(json!(null)), Visibility::BOTH);
    }

    #[test]
    fn metadata_is_written_in_both_forms_and_removed() {
        let mut written = tool(json!({ "other": 1, "ui": { "more": true, "visibility": [] } }));
        let ui = ToolUi::shown_in(UiUri::new("ui://a").unwrap()).with_visibility(Visibility::APP);
        ui.write(&mut written);
        let meta = serde_json::to_value(&written.meta).unwrap();
        let want = json!({
            "other": 1,
            "ui": { "more": true, "visibility": ["app"], "resourceUri": "ui://a" },
            "ui/resourceUri": "ui://a",
        });
        assert_eq!(meta, want);
        assert_eq!(ToolUi::read(&written), Ok(Some(ui)));
        ToolUi::remove(&mut written);
        assert_eq!(serde_json::to_value(&written.meta).unwrap(), json!({ "other": 1 }));
        let mut alone = tool(json!({ "ui": {} }));
        ToolUi::remove(&mut alone);
        assert_eq!(alone.meta, None);
    }
}
