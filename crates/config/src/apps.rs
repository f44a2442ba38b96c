//! MCP Apps: which clients get Views.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// MCP Apps: tools whose results a host shows in a View. Views of upstreams are passed on to
/// clients that show them; other clients see the same tools as texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AppsConfig {
    /// Clients that get Views: "negotiated" for clients that declare the extension
    /// `io.modelcontextprotocol/ui`, or "always" for all clients. Use "always" for a host that
    /// shows Views without declaring the extension.
    pub gating: Gating,
    /// Tools that only Views may call: "listed" for clients that show Views, which hide them from
    /// the model, or "hidden" from every list. They can be called in either case.
    pub app_only_tools: AppOnlyTools,
}

/// Clients that get Views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gating {
    /// Clients that declare the extension.
    #[default]
    Negotiated,
    /// All clients.
    Always,
}

/// Whether lists have tools that only Views may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppOnlyTools {
    /// For clients that show Views.
    #[default]
    Listed,
    /// Never.
    Hidden,
}
