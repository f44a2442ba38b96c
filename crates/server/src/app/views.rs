//! The Views of this server's own tools.

use std::sync::Arc;

use marquetry_apps_ext::{
    server::{self as apps_server, Apps},
    types::{ToolUi, UiUri},
};
use marquetry_config::{
    SERVER_NAME,
    sections::{AppOnlyTools, AppsConfig, Gating},
};
use marquetry_gateway::Gateway;
use marquetry_protocol::types::Tool;
use marquetry_views::ToolView;

use crate::tools::BuiltIns;

/// Returns the Views of the built-in tools that are switched on, offered as `[apps]` says.
pub(super) fn own_views(config: &AppsConfig, built_ins: &BuiltIns, gateway: Arc<Gateway>) -> Apps {
    let gating = match config.gating {
        Gating::Negotiated => apps_server::Gating::Negotiated,
        Gating::Always => apps_server::Gating::Always,
    };
    let app_only_tools = match config.app_only_tools {
        AppOnlyTools::Listed => apps_server::AppOnlyTools::Listed,
        AppOnlyTools::Hidden => apps_server::AppOnlyTools::Hidden,
    };
    let apps = Apps::new().gating(gating).app_only_tools(app_only_tools);
    // A View of an upstream reaches only the resources of that upstream. It does not see the Views
    // of this server.
    marquetry_views::add_to(apps, |tool| built_ins.has(tool)).offered_if(move |cx| {
        matches!(gateway.bound_to(SERVER_NAME, cx), Ok(None)) && gateway.view(cx).shows_own()
    })
}

/// Returns the tools with the Views that the console opens for them. `tools/list` gets them from
/// [`own_views`], but the console reads the tools without a request.
pub(super) fn own_tools_with_views(tools: &[Tool]) -> Vec<Tool> {
    tools.iter().cloned().map(with_view).collect()
}

fn with_view(mut tool: Tool) -> Tool {
    let view = ToolView::ALL.into_iter().find(|view| view.tools().contains(&tool.name.as_str()));
    if let Some(uri) = view.and_then(|view| UiUri::new(view.uri()).ok()) {
        ToolUi::shown_in(uri).write(&mut tool);
    }
    tool
}
