//! How the two sides introduce themselves.

use serde::{Deserialize, Serialize};

use super::{ClientCapabilities, Icon, JsonObject, ServerCapabilities};

/// The keys of `_meta` that the protocol itself gives a meaning to (2026-07-28).
pub mod meta_key {
    /// The revision that a request was made with.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The client that made a request.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// What the client of a request offers.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The least important log messages that the client of a request wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The server that gave a result.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The `subscriptions/listen` that a notification belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

/// The name and version of a client or server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// For programs.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for (since 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its page on the web (since 2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Pictures of it, for people (since 2025-11-25).
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::icon::lenient"
    )]
    pub icons: Vec<Icon>,
    /// Members that this crate does not act on.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl Implementation {
    /// A name and a version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

/// `initialize` (until 2025-11-25)
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The newest revision that the client speaks.
    pub protocol_version: String,
    /// What the client offers.
    #[serde(default)]
    pub capabilities: ClientCapabilities,
    /// Who it is.
    pub client_info: Implementation,
}

/// The answer to `initialize`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The revision that the session will speak.
    pub protocol_version: String,
    /// What the server offers.
    pub capabilities: ServerCapabilities,
    /// Who it is.
    pub server_info: Implementation,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

/// The answer to `server/discover` (since 2026-07-28).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    /// The revisions that the server speaks.
    pub supported_versions: Vec<String>,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Who the server is, under [`meta_key::SERVER_INFO`].
    #[serde(rename = "_meta", default)]
    pub meta: JsonObject,
}

/// What a request's `_meta` says of its sender.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RequestMeta {
    /// The revision, from 2026-07-28 on.
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: Option<String>,
    /// What the client offers, from 2026-07-28 on.
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub client_capabilities: Option<ClientCapabilities>,
    /// Who the client is, from 2026-07-28 on.
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    pub client_info: Option<Implementation>,
    /// The least important log messages that the client wants, from 2026-07-28 on; none when it wants none.
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    pub log_level: Option<super::LogLevel>,
    /// Asks for progress notifications under this token.
    #[serde(rename = "progressToken")]
    pub progress_token: Option<crate::RequestId>,
}
