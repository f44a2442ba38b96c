//! Parameters and result of `ui/initialize`.

use marquetry_protocol::types::{Implementation, JsonObject};
use serde::{Deserialize, Serialize};

use super::{AppCapabilities, HostCapabilities, HostContext};

/// The parameters of `ui/initialize`. All three members are required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// Name and version of the View.
    pub app_info: Implementation,
    /// The View's capabilities as it wrote them; [`InitializeParams::capabilities`] parses them.
    pub app_capabilities: JsonObject,
    /// The revision of the extension that the View speaks.
    pub protocol_version: String,
}

impl InitializeParams {
    /// Creates the parameters of a View that speaks our revision.
    #[must_use]
    pub fn new(app_info: Implementation, app_capabilities: JsonObject) -> Self {
        Self { app_info, app_capabilities, protocol_version: super::UI_PROTOCOL_VERSION.to_owned() }
    }

    /// Returns the View's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> AppCapabilities {
        AppCapabilities::parse(&self.app_capabilities)
    }
}

/// The answer to `ui/initialize`.
///
/// `host_context` is always sent: the official View-side SDK refuses an answer without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision that both sides will speak.
    pub protocol_version: String,
    /// Name and version of the host.
    pub host_info: Implementation,
    /// The capabilities of the host for the View.
    pub host_capabilities: HostCapabilities,
    /// The host context.
    pub host_context: HostContext,
}

impl InitializeResult {
    /// Creates an answer in our revision.
    #[must_use]
    pub fn new(
        host_info: Implementation,
        host_capabilities: HostCapabilities,
        host_context: HostContext,
    ) -> Self {
        Self {
            protocol_version: super::UI_PROTOCOL_VERSION.to_owned(),
            host_info,
            host_capabilities,
            host_context,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_three_members_are_required() {
        let params = json!({
            "appInfo": { "name": "a", "version": "1" },
            "appCapabilities": {},
            "protocolVersion": "2026-01-26",
        });
        assert!(serde_json::from_value::<InitializeParams>(params.clone()).is_ok());
        for member in ["appInfo", "appCapabilities", "protocolVersion"] {
            let mut params = params.clone();
            params.as_object_mut().unwrap().remove(member);
            let error = serde_json::from_value::<InitializeParams>(params).unwrap_err();
            assert_eq!(error.to_string(), format!("missing field `{member}`"));
        }
    }

    #[test]
    fn an_answer_always_has_a_host_context() {
        let answer = InitializeResult::new(
            Implementation::new("h", "1"),
            HostCapabilities::default(),
            HostContext::default(),
        );
        let want = json!({
            "protocolVersion": "2026-01-26",
            "hostInfo": { "name": "h", "version": "1" },
            "hostCapabilities": {},
            "hostContext": {},
        });
        assert_eq!(serde_json::to_value(answer).unwrap(), want);
    }
}
