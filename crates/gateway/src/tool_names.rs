//! Exposed names of the tools of one upstream.

use std::collections::HashMap;

use crate::names::{NameError, Namer};

/// The names of an upstream's tools, which decide the exposed name of each.
pub(crate) struct ToolNames<'a> {
    namer: &'a Namer,
    /// How many tools would get an exposed name.
    counts: HashMap<String, usize>,
}

impl<'a> ToolNames<'a> {
    pub(crate) fn new<'b>(namer: &'a Namer, names: impl Iterator<Item = &'b str>) -> Self {
        let mut counts = HashMap::new();
        for exposed in names.filter_map(|name| namer.tool(name).ok()) {
            *counts.entry(exposed).or_default() += 1;
        }
        Self { namer, counts }
    }

    /// Returns the exposed name of a tool. `owner` returns who has a name already. If others have
    /// the repaired name of a tool, it gets one with a hash; a name without repairs stays.
    ///
    /// # Errors
    /// Returns an error if the name is empty or already taken.
    pub(crate) fn exposed(
        &self,
        name: &str,
        owner: impl Fn(&str) -> Option<String>,
    ) -> Result<String, NameError> {
        let exposed = self.namer.tool(name)?;
        let is_shared = self.counts.get(&exposed).is_some_and(|count| *count > 1);
        let is_repaired = !self.namer.is_plain(&exposed, name);
        let exposed = if is_repaired && (is_shared || owner(&exposed).is_some()) {
            self.namer.hashed_tool(name)
        } else {
            exposed
        };
        match owner(&exposed) {
            Some(owner) => Err(NameError::Taken(owner)),
            None => Ok(exposed),
        }
    }
}

/// A tool that is offered under another name than the one at its upstream with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenamedTool {
    /// Index of the upstream in the configuration.
    pub(crate) upstream: usize,
    /// The name at the upstream.
    pub(crate) name: String,
    /// The name for clients.
    pub(crate) exposed: String,
}

/// The key in `_meta` of a renamed tool with its name at the upstream.
pub(crate) const ORIGINAL_NAME_KEY: &str = "marquetry/originalName";
