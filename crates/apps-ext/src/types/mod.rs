//! The names and values of the extension: constants, metadata of tools and Views, capabilities,
//! host context.

mod capabilities;
mod context;
mod handshake;
pub mod method;
mod mime;
mod resource_meta;
mod style;
mod tool_meta;
mod uri;

pub use self::{
    capabilities::{
        AppCapabilities, AppTools, HostCapabilities, HostSampling, ListChanges, Modalities,
        SandboxCapability, client_settings, declare_client, is_ui_enabled,
    },
    context::{
        ContainerDimensions, CssParts, DeviceCapabilities, DisplayMode, Extent, HostContext,
        Platform, SafeAreaInsets, Styles, Theme, ToolInfo,
    },
    handshake::{InitializeParams, InitializeResult},
    mime::is_view_mime_type,
    resource_meta::{Csp, MetaProblem, Permission, Permissions, UiResourceMeta},
    style::STYLE_VARIABLES,
    tool_meta::{ToolUi, ToolUiError, Visibility},
    uri::{UiUri, UiUriError},
};

/// The extension's id, a key of `capabilities.extensions`.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The only revision of the protocol between View and host; it is independent of the revision of
/// MCP.
pub const UI_PROTOCOL_VERSION: &str = "2026-01-26";

/// The MIME type of a View, as this crate writes it. [`is_view_mime_type`] recognises other
/// spellings.
pub const VIEW_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// The scheme of the URIs of Views.
pub const UI_SCHEME: &str = "ui://";

/// The key of a tool's and a resource's `_meta` with the metadata of the extension.
pub const UI_META_KEY: &str = "ui";

/// The older key of a tool's `_meta` with the URI of its View. Hosts of 2025 read only this one.
pub const FLAT_RESOURCE_KEY: &str = "ui/resourceUri";

/// The error code of a request that the host refused or could not fulfil (specification, "Error
/// codes").
pub const DENIED: i32 = -32000;
