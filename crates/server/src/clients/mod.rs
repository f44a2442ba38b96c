//! What the client of a call shows its model, and the list of tools in the form that it takes.

#[cfg(test)]
mod views;

use std::sync::{Arc, Mutex, PoisonError};

use marquetry_artifacts::{Audience, Settings, settings::ArtifactOptions};
use marquetry_client_profiles::{ClientOverrides, ClientProfile};
use marquetry_protocol::{server::RequestContext, types::Tool};
use serde_json::Value;

/// Clients whose profiles are kept; names come from outside.
const MAX_CLIENTS: usize = 64;

/// Longest result that Claude Code takes without replacing it by a preview, in characters: the
/// largest value that it accepts. The capture of answers has lower limits.
const MAX_RESULT_CHARS: u64 = 500_000;

/// The profiles of clients, with the settings of this server.
pub(crate) struct Clients {
    overrides: ClientOverrides,
    /// Clients that have called, the latest last.
    known: Mutex<Vec<(String, Arc<Client>)>>,
}

/// A client as its answers depend on it.
pub(crate) struct Client {
    profile: ClientProfile,
    /// What it shows of an answer whose limit is the default.
    by_default: Audience,
    /// What it shows at most.
    at_most: Audience,
}

impl Clients {
    pub(crate) fn new(overrides: ClientOverrides) -> Self {
        Self { overrides, known: Mutex::default() }
    }

    /// Returns the client of a request. Stateless requests name it each time.
    pub(crate) fn of(&self, cx: &RequestContext) -> Arc<Client> {
        let name = cx.client().map_or("", |client| client.name.as_str());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = known.iter().find(|(known, _)| known == name) {
            return client.clone();
        }
        let client = Arc::new(Client::new(self.overrides.profile(name)));
        if known.len() == MAX_CLIENTS {
            known.remove(0);
        }
        known.push((name.to_owned(), client.clone()));
        client
    }
}

impl Client {
    fn new(profile: ClientProfile) -> Self {
        let mut at_most = Audience::default();
        at_most.max_tokens = profile.tokens_within_limit();
        at_most.max_chars = profile.shown_chars();
        at_most.replaces_text = profile.replaces_text();
        at_most.shows_both = profile.is_known_to_show_both();
        at_most.image_types = Some(profile.image_types.clone());
        at_most.max_image_bytes = profile.image_max_bytes;
        let mut by_default = at_most.clone();
        by_default.max_tokens = Some(profile.shown_tokens());
        Self { profile, by_default, at_most }
    }

    /// Returns what the client shows of an answer that is captured with these settings. A limit in
    /// bytes that differs from the default, or one in tokens, replaces the default in tokens.
    pub(crate) fn audience(&self, settings: &Settings) -> &Audience {
        let default = ArtifactOptions::default().settings().mcp_tool_llm_return_max_bytes;
        if settings.mcp_tool_llm_return_max_bytes == default
            && settings.mcp_tool_llm_return_max_tokens.is_none()
        {
            &self.by_default
        } else {
            &self.at_most
        }
    }

    /// Returns a tool as this client takes it. A client that shows structured content in place of
    /// text, or beside it, gets no output schema, because answers that do not fit have no structured
    /// content.
    pub(crate) fn listed(&self, tool: &Tool) -> Tool {
        let mut tool = tool.clone();
        if self.profile.replaces_text() || self.profile.is_known_to_show_both() {
            tool.output_schema = None;
        }
        if let Some(key) = &self.profile.result_size_key {
            let meta = tool.meta.get_or_insert_default();
            meta.entry(key.clone()).or_insert(Value::from(MAX_RESULT_CHARS));
        }
        tool
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> Tool {
        Tool {
            name: "t".to_owned(),
            output_schema: Some(json!({"type": "object"})),
            ..Tool::default()
        }
    }

    #[test]
    fn the_guide_lists_every_known_client() {
        let guide = include_str!("../../../../docs/guide/artifacts.md");
        for client in marquetry_client_profiles::known_clients() {
            let row = format!("| {} | `{}` |", client.title, client.name.as_ref().unwrap());
            assert!(guide.contains(&row), "{row}");
        }
    }

    #[test]
    fn lists_follow_the_client() {
        let claude = Client::new(ClientProfile::of("claude-code")).listed(&tool());
        assert_eq!(claude.output_schema, None);
        assert_eq!(claude.meta.unwrap()["anthropic/maxResultSizeChars"], 500_000);
        let other = Client::new(ClientProfile::of("other")).listed(&tool());
        assert_eq!(other, tool());
    }
}
