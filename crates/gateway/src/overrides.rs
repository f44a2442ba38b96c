//! The tools of an upstream as the configuration changes them.

use std::{borrow::Cow, sync::Arc};

use marquetry_protocol::types::Tool;
use marquetry_tool_overrides::{RequiredArgument, ToolOverride};

use crate::{Upstream, options::UpstreamOptions};

/// A tool as clients see it, but for the prefix of its name.
pub(crate) struct ShownTool<'a> {
    /// The name at the upstream.
    pub(crate) own_name: &'a str,
    pub(crate) tool: Cow<'a, Tool>,
    /// Changes of the arguments of its calls.
    pub(crate) arguments: Option<Arc<ToolOverride>>,
}

/// Returns the tools that the configuration turns on, as clients see them, and those whose
/// overrides cannot work.
pub(crate) fn shown_tools<'a>(
    options: &UpstreamOptions,
    tools: &'a [Tool],
) -> (Vec<ShownTool<'a>>, Vec<(&'a str, RequiredArgument)>) {
    let mut shown = Vec::new();
    let mut refused = Vec::new();
    for tool in tools.iter().filter(|tool| options.filter.allows(&tool.name)) {
        let own_name = tool.name.as_str();
        let Some(changes) = options.overrides.get(own_name) else {
            shown.push(ShownTool { own_name, tool: Cow::Borrowed(tool), arguments: None });
            continue;
        };
        match changes.apply(tool) {
            Ok(tool) => {
                let arguments = changes.concerns_arguments().then(|| changes.clone());
                shown.push(ShownTool { own_name, tool: Cow::Owned(tool), arguments });
            }
            Err(why) => refused.push((own_name, why)),
        }
    }
    (shown, refused)
}

/// Warns of overrides that do not fit the tools of their upstream.
pub(crate) fn warn_of_misfits(upstream: &Upstream, tools: &[Tool]) {
    let settings = upstream.settings();
    for tool in tools {
        let changes = settings.options.overrides.get(&tool.name);
        for warning in changes.into_iter().flat_map(|changes| changes.warnings(tool)) {
            let upstream = upstream.name();
            tracing::warn!(upstream, tool = tool.name, %warning, "an override does not fit its tool");
        }
    }
}
