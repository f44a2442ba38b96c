use std::collections::BTreeMap;

use marquetry_protocol::types::{ClientCapabilities, Tool};

use super::view::View;
use crate::types::{ToolUi, UiUri, Visibility, is_ui_enabled};

/// The Views of a server, and the tools that are shown in them. See the [module](super) for an example.
#[derive(Clone, Debug, Default)]
pub struct Apps {
    pub(super) views: BTreeMap<UiUri, View>,
    tools: BTreeMap<String, ToolUi>,
    gating: Gating,
    app_only_tools: AppOnlyTools,
}

/// Which clients get Views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gating {
    /// Clients that declare the extension with the MIME type of Views.
    #[default]
    Negotiated,
    /// All clients, also those that declare nothing.
    Always,
}

/// Whether hosts are told of tools that only Views may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AppOnlyTools {
    /// `tools/list` has them for clients with Views, as the specification wants it: hosts hide them from the model, and
    /// need them to check the calls of Views.
    #[default]
    Listed,
    /// `tools/list` never has them. They can still be called. Hosts that check the calls of Views against the list refuse
    /// them then.
    Hidden,
}

impl Apps {
    /// No Views and no tools yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a View; one that has the URI already is replaced.
    ///
    /// # Panics
    /// When `uri` is not a [`UiUri`]: a fault of the program, found as soon as it starts. [`Apps::with_view`] takes a URI
    /// that was checked before.
    #[must_use]
    pub fn view(self, uri: &str, view: View) -> Self {
        match UiUri::new(uri) {
            Ok(uri) => self.with_view(uri, view),
            Err(error) => panic!("Apps::view: {error}"),
        }
    }

    /// Adds a View; one that has the URI already is replaced.
    #[must_use]
    pub fn with_view(mut self, uri: UiUri, view: View) -> Self {
        self.views.insert(uri, view);
        self
    }

    /// Shows the results of `tool` in a View that was added before. Models and Views may call the tool.
    ///
    /// # Panics
    /// When no View has the URI. [`Apps::tool`] links a tool to a View that the wrapped handler serves itself.
    #[must_use]
    pub fn show(self, tool: &str, uri: &str) -> Self {
        let known = self.views.keys().find(|known| known.as_str() == uri).cloned();
        match known {
            Some(uri) => self.tool(tool, ToolUi::shown_in(uri)),
            None => panic!("Apps::show: no View has the URI {uri:?}; add it with Apps::view first"),
        }
    }

    /// Says who may call `tool`, and in which View its results are shown, if any. It replaces what the tool says of itself.
    ///
    /// ```
    /// use marquetry_apps_ext::{server::Apps, types::{ToolUi, Visibility}};
    ///
    /// // Only Views call this tool, and its results are not shown in a View of their own.
    /// let apps = Apps::new().tool("poll", ToolUi::default().with_visibility(Visibility::APP));
    /// ```
    #[must_use]
    pub fn tool(mut self, tool: &str, ui: ToolUi) -> Self {
        self.tools.insert(tool.to_owned(), ui);
        self
    }

    /// The same with this gating.
    #[must_use]
    pub fn gating(mut self, gating: Gating) -> Self {
        self.gating = gating;
        self
    }

    /// The same, which lists or hides tools that only Views may call.
    #[must_use]
    pub fn app_only_tools(mut self, app_only_tools: AppOnlyTools) -> Self {
        self.app_only_tools = app_only_tools;
        self
    }

    /// Whether a client with these capabilities gets Views.
    #[must_use]
    pub fn is_enabled_for(&self, client: &ClientCapabilities) -> bool {
        self.gating == Gating::Always || is_ui_enabled(client)
    }

    /// Whether answers depend on what the client declares.
    pub(super) fn is_gated(&self) -> bool {
        self.gating == Gating::Negotiated
    }

    /// The tool as a client sees it; none when the client does not see it.
    ///
    /// A link that is not the URI of a View is taken out, and the tool stays: its text is of use without a View.
    pub(super) fn listed(&self, mut tool: Tool, is_enabled: bool) -> Option<Tool> {
        let own = self.tools.get(&tool.name).cloned();
        let ui = own.or_else(|| {
            let with_visibility = |visibility| ToolUi::default().with_visibility(visibility);
            ToolUi::read(&tool).unwrap_or_else(|_| Some(with_visibility(Visibility::of(&tool))))
        });
        let is_for_model = ui.as_ref().is_none_or(|ui| ui.visibility.model);
        if !is_for_model && (!is_enabled || self.app_only_tools == AppOnlyTools::Hidden) {
            return None;
        }
        match ui {
            Some(ui) if is_enabled => ui.write(&mut tool),
            _ => ToolUi::remove(&mut tool),
        }
        Some(tool)
    }
}
