//! Messages with which client and server introduce themselves.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    ClientCapabilities, Icon, JsonObject, ListChanged, ServerCapabilities, valid_or_default,
};

/// The keys of `_meta` that the protocol defines (2026-07-28).
pub mod meta_key {
    /// The revision of a request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The client that sent a request.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// The capabilities of the client that sent a request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The lowest level of log messages that the client of a request wants.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The server that sent a result.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The id of the `subscriptions/listen` to which a notification belongs.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

/// The name and version of a client or server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// Name for programs.
    pub name: String,
    /// Version.
    #[serde(default, deserialize_with = "valid_or_default")]
    pub version: String,
    /// Name for people.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub title: Option<String>,
    /// Purpose of the client or server (since 2025-11-25).
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub description: Option<String>,
    /// URL of its web page (since 2025-11-25).
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub website_url: Option<String>,
    /// Icons, for people (since 2025-11-25).
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
    /// Returns an implementation with a name and a version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }
}

/// The parameters of `initialize` (until 2025-11-25).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The newest revision that the client speaks.
    pub protocol_version: String,
    /// The client's capabilities.
    #[serde(default)]
    pub capabilities: ClientCapabilities,
    /// Name and version of the client.
    pub client_info: Implementation,
}

/// The answer to `initialize`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The revision that the session will speak; empty if the server names none.
    #[serde(default, deserialize_with = "valid_or_default")]
    pub protocol_version: String,
    /// The server's capabilities.
    #[serde(default = "undeclared", deserialize_with = "capabilities")]
    pub capabilities: ServerCapabilities,
    /// Name and version of the server.
    #[serde(default, deserialize_with = "valid_or_default")]
    pub server_info: Implementation,
    /// Instructions for the model on how to use the server.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub instructions: Option<String>,
}

/// The answer to `server/discover` (since 2026-07-28).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    /// The revisions that the server speaks.
    pub supported_versions: Vec<String>,
    /// The server's capabilities.
    #[serde(default = "undeclared", deserialize_with = "capabilities")]
    pub capabilities: ServerCapabilities,
    /// Instructions for the model on how to use the server.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "valid_or_default"
    )]
    pub instructions: Option<String>,
    /// Metadata; [`meta_key::SERVER_INFO`] holds name and version of the server.
    #[serde(rename = "_meta", default, deserialize_with = "valid_or_default")]
    pub meta: JsonObject,
}

/// Reads the capabilities of a server. Without any, or if they are not an object, the server is
/// asked for its tools: few servers have none.
fn capabilities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ServerCapabilities, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        members @ Value::Object(_) => serde_json::from_value(members).unwrap_or_default(),
        _ => undeclared(),
    })
}

fn undeclared() -> ServerCapabilities {
    ServerCapabilities { tools: Some(ListChanged::default()), ..ServerCapabilities::default() }
}

/// The members of a request's `_meta` that describe its sender.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RequestMeta {
    /// The revision of the request (since 2026-07-28).
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: Option<String>,
    /// The client's capabilities (since 2026-07-28).
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub client_capabilities: Option<ClientCapabilities>,
    /// Name and version of the client (since 2026-07-28).
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    pub client_info: Option<Implementation>,
    /// The lowest level of log messages that the client wants (since 2026-07-28); `None` if it
    /// wants none.
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    pub log_level: Option<super::LogLevel>,
    /// Token under which the client wants progress notifications.
    #[serde(rename = "progressToken")]
    pub progress_token: Option<crate::RequestId>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_members_do_not_hide_a_server() {
        let odd = [
            json!({ "protocolVersion": "2025-11-25" }),
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": [],
                "serverInfo": "echo",
                "instructions": [],
            }),
        ];
        for odd in odd {
            let read: InitializeResult = serde_json::from_value(odd).unwrap();
            assert_eq!(read.protocol_version, "2025-11-25");
            assert_eq!(read.capabilities, undeclared());
            assert_eq!((read.server_info, read.instructions), (Implementation::default(), None));
        }
        let named = json!({ "name": "echo", "version": null, "title": 7, "websiteUrl": [] });
        let named: Implementation = serde_json::from_value(named).unwrap();
        assert_eq!(named, Implementation::new("echo", ""));
        let odd =
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": null, "_meta": null });
        let read: DiscoverResult = serde_json::from_value(odd).unwrap();
        assert_eq!((read.capabilities, read.meta.len()), (undeclared(), 0));
        // The client decides which revision a server without one speaks.
        for odd in [json!({}), json!({ "protocolVersion": null }), json!({ "protocolVersion": 1 })]
        {
            let read: InitializeResult = serde_json::from_value(odd).unwrap();
            assert_eq!(read.protocol_version, "");
        }
    }
}
