//! The Views of a server and their tools.

use std::{collections::BTreeMap, fmt, sync::Arc};

use marquetry_protocol::{
    server::RequestContext,
    types::{ClientCapabilities, Tool},
};

use super::view::View;
use crate::types::{ToolUi, UiUri, Visibility, is_ui_enabled};

/// The Views of a server, and the tools that are shown in them. See the [module](super) for an
/// example.
#[derive(Clone, Debug, Default)]
pub struct Apps {
    pub(super) views: BTreeMap<UiUri, View>,
    tools: BTreeMap<String, ToolUi>,
    gating: Gating,
    app_only_tools: AppOnlyTools,
    offered: OfferCondition,
}

/// Decides which requests get the Views; all without a condition.
#[derive(Clone, Default)]
struct OfferCondition(Option<Arc<IsOffered>>);

type IsOffered = dyn Fn(&RequestContext) -> bool + Send + Sync;

impl fmt::Debug for OfferCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "OfferCondition(some)" } else { "OfferCondition(all)" })
    }
}

/// The clients that get Views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gating {
    /// Clients that declare the extension with the MIME type of Views.
    #[default]
    Negotiated,
    /// All clients, including those that declare nothing.
    Always,
}

/// The listing of tools that only Views may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AppOnlyTools {
    /// `tools/list` contains them for clients with Views, as the specification requires: hosts hide
    /// them from the model, and need them to check the calls of Views.
    #[default]
    Listed,
    /// `tools/list` never contains them. They can still be called, but hosts that check the calls
    /// of Views against the list refuse such calls.
    Hidden,
}

impl Apps {
    /// Creates an empty set of Views.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a View. Replaces an earlier View with the same URI.
    ///
    /// # Panics
    /// If `uri` is not a [`UiUri`], which is a mistake in the program. Use [`Apps::with_view`] for
    /// a URI that is not a constant.
    #[must_use]
    pub fn view(self, uri: &str, view: View) -> Self {
        match UiUri::new(uri) {
            Ok(uri) => self.with_view(uri, view),
            Err(error) => panic!("Apps::view: {error}"),
        }
    }

    /// Adds a View. Replaces an earlier View with the same URI.
    #[must_use]
    pub fn with_view(mut self, uri: UiUri, view: View) -> Self {
        self.views.insert(uri, view);
        self
    }

    /// Shows the results of `tool` in a View that was added before. Models and Views may call the
    /// tool.
    ///
    /// # Panics
    /// If no View with this URI was added. To link a tool to a View that the wrapped handler serves
    /// itself, use [`Apps::tool`].
    #[must_use]
    pub fn show(self, tool: &str, uri: &str) -> Self {
        let known = self.views.keys().find(|known| known.as_str() == uri).cloned();
        match known {
            Some(uri) => self.tool(tool, ToolUi::shown_in(uri)),
            None => panic!("Apps::show: no View has the URI {uri:?}; add it with Apps::view first"),
        }
    }

    /// Sets who may call `tool`, and in which View its results are shown. Replaces the metadata
    /// that the tool itself has.
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

    /// Sets which clients get Views.
    #[must_use]
    pub fn gating(mut self, gating: Gating) -> Self {
        self.gating = gating;
        self
    }

    /// Sets how tools are listed that only Views may call.
    #[must_use]
    pub fn app_only_tools(mut self, app_only_tools: AppOnlyTools) -> Self {
        self.app_only_tools = app_only_tools;
        self
    }

    /// Offers the Views only to requests that `is_offered` accepts; without this, all requests get
    /// them. Other requests get the resources of the wrapped handler alone. A gateway needs this
    /// for requests that are about another server.
    #[must_use]
    pub fn offered_if(
        mut self,
        is_offered: impl Fn(&RequestContext) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.offered = OfferCondition(Some(Arc::new(is_offered)));
        self
    }

    /// Returns whether a request gets the Views.
    pub(super) fn is_offered_to(&self, cx: &RequestContext) -> bool {
        self.offered.0.as_ref().is_none_or(|is_offered| is_offered(cx))
    }

    /// Returns whether a client with these capabilities gets Views.
    #[must_use]
    pub fn is_enabled_for(&self, client: &ClientCapabilities) -> bool {
        self.gating == Gating::Always || is_ui_enabled(client)
    }

    /// Returns whether answers depend on the client's capabilities.
    pub(super) fn is_gated(&self) -> bool {
        self.gating == Gating::Negotiated
    }

    /// Returns whether a model may call a tool, as far as [`Apps::tool`] says.
    pub(super) fn is_for_model(&self, tool: &str) -> bool {
        self.tools.get(tool).is_none_or(|ui| ui.visibility.model)
    }

    /// Returns the tool as a client sees it, or `None` if the client must not see it.
    ///
    /// A link that is not the URI of a View is removed. The tool stays, because it is useful
    /// without a View, too.
    pub(super) fn listed(&self, mut tool: Tool, is_enabled: bool) -> Option<Tool> {
        let own = self.tools.get(&tool.name).cloned();
        let ui = own.or_else(|| {
            ToolUi::read(&tool)
                .unwrap_or_else(|_| Some(ToolUi::default().with_visibility(Visibility::of(&tool))))
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
