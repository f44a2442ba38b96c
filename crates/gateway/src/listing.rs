//! Lists of one upstream.

use marquetry_protocol::{
    client::SkippedItem,
    types::{Prompt, Resource, ResourceTemplate, Tool},
};

/// Lists of one upstream, under the upstream's own names.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// Tools of the upstream.
    pub tools: Vec<Tool>,
    /// Prompts of the upstream.
    pub prompts: Vec<Prompt>,
    /// Resources of the upstream.
    pub resources: Vec<Resource>,
    /// Resource templates of the upstream.
    pub templates: Vec<ResourceTemplate>,
    /// Instructions of the upstream for models.
    pub instructions: Option<String>,
    /// Lists that could not be fetched or may lack items, each with the reason.
    pub left_out: Vec<(&'static str, String)>,
    /// Tools that were left out because they are invalid, at most 20.
    pub skipped_tools: Vec<SkippedItem>,
    /// Whether the upstream has the capability `resources`.
    pub has_resources: bool,
}

impl Listing {
    /// Replaces the reason why a list is left out or may lack items.
    pub(super) fn set_problem(&mut self, list: &'static str, problem: Option<String>) {
        self.left_out.retain(|(known, _)| *known != list);
        self.left_out.extend(problem.map(|problem| (list, problem)));
    }
}
