//! What the client of a call shows its model, and the list of tools in the form that it takes.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use marquetry_apps_ext::types::{ToolUi, is_ui_enabled};
use marquetry_artifacts::{Audience, Settings, ViewUse, settings::ArtifactOptions};
use marquetry_client_profiles::{
    ClientOverrides, ClientProfile, ToolNames, shortened_description, simplified_schema,
};
use marquetry_protocol::{
    server::RequestContext,
    types::{Implementation, Tool},
};
use serde_json::{Value, value::RawValue};

/// Clients whose profiles are kept; names come from outside.
const MAX_CLIENTS: usize = 64;

/// Name and version of a client whose profile is kept, in bytes.
const MAX_KEPT_NAME_BYTES: usize = 512;

/// Longest result that Claude Code takes without replacing it by a preview, in characters: the
/// largest value that it accepts. The capture of answers has lower limits.
const MAX_RESULT_CHARS: u64 = 500_000;

/// Member of a tool's `_meta` with its own name, if the client gets another one.
const NAME_KEY: &str = "marquetry/name";

/// The profiles of clients, with the settings of this server.
pub struct Clients {
    overrides: ClientOverrides,
    /// Whether every client shows Views, as a setting says.
    assumes_views: bool,
    /// Clients that have called, in the order of their first calls.
    known: Mutex<Vec<KnownClient>>,
}

struct KnownClient {
    name: String,
    version: String,
    client: Arc<Client>,
}

/// A client as its answers depend on it.
pub struct Client {
    profile: ClientProfile,
    assumes_views: bool,
    /// What it shows of an answer whose limit is the default.
    by_default: Audience,
    /// What it shows at most.
    at_most: Audience,
    /// Whether the log has the warning about the number of tools.
    is_warned: AtomicBool,
}

impl Clients {
    /// Creates the profiles. With `assumes_views` every client counts as one that shows Views.
    #[must_use]
    pub fn new(overrides: ClientOverrides, assumes_views: bool) -> Self {
        Self { overrides, assumes_views, known: Mutex::default() }
    }

    /// Returns the client of a request. Stateless requests name it each time.
    #[must_use]
    pub fn of(&self, cx: &RequestContext) -> Arc<Client> {
        self.of_info(cx.client())
    }

    /// Returns the client with this name and version.
    #[must_use]
    pub fn of_info(&self, info: Option<&Implementation>) -> Arc<Client> {
        let name = info.map_or("", |client| client.name.as_str());
        let version = info.map_or("", |client| client.version.as_str());
        self.named(name, version)
    }

    fn named(&self, name: &str, version: &str) -> Arc<Client> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|it| it.name == name && it.version == version) {
            return found.client.clone();
        }
        let profile = self.overrides.profile(name, version);
        let client = Arc::new(Client::new(profile, self.assumes_views));
        if name.len() + version.len() > MAX_KEPT_NAME_BYTES {
            return client;
        }
        if known.len() == MAX_CLIENTS {
            known.remove(0);
        }
        known.push(KnownClient {
            name: name.to_owned(),
            version: version.to_owned(),
            client: client.clone(),
        });
        client
    }
}

impl Client {
    pub(crate) fn new(profile: ClientProfile, assumes_views: bool) -> Self {
        let mut at_most = Audience::default();
        at_most.profile = Some(profile.title.clone());
        at_most.max_tokens = profile.tokens_within_limit();
        at_most.max_chars = profile.shown_chars();
        at_most.replaces_text = profile.replaces_text();
        at_most.shows_both = profile.shows_both();
        at_most.image_types = Some(profile.image_types.clone());
        at_most.max_image_bytes = profile.image_max_bytes;
        at_most.max_error_chars = profile.error_chars();
        at_most.max_answer_bytes = profile.answer_bytes();
        let mut by_default = at_most.clone();
        by_default.max_tokens = Some(profile.shown_tokens());
        Self { profile, assumes_views, by_default, at_most, is_warned: AtomicBool::new(false) }
    }

    /// Returns the profile that decides about this client's answers.
    #[must_use]
    pub fn profile(&self) -> &ClientProfile {
        &self.profile
    }

    /// Returns what the client shows of an answer that is captured with these settings. A limit in
    /// bytes that differs from the default, or one in tokens, replaces the default in tokens.
    #[must_use]
    pub fn audience(&self, settings: &Settings) -> &Audience {
        let default = ArtifactOptions::default().settings().mcp_tool_llm_return_max_bytes;
        if settings.mcp_tool_llm_return_max_bytes == default
            && settings.mcp_tool_llm_return_max_tokens.is_none()
        {
            &self.by_default
        } else {
            &self.at_most
        }
    }

    /// Returns whether a View gets an answer of a tool, too.
    ///
    /// A client that shows Views gives the View the same result as the model, and a View may read
    /// any part of it. So that client gets the upstream's answer, unless the answer is longer than
    /// a message that the client can receive: then neither would get it.
    #[must_use]
    pub fn view_use(&self, ui: &ToolUi, answer: &RawValue, cx: &RequestContext) -> ViewUse {
        if !is_for_view(ui) {
            return ViewUse::NoView;
        }
        let is_received =
            self.profile.answer_bytes().is_none_or(|max| answer.get().len() as u64 <= max);
        if self.shows_view(ui, cx) && is_received { ViewUse::Shown } else { ViewUse::NotShown }
    }

    /// Returns whether a tool has a View that this client shows.
    #[must_use]
    pub fn shows_view(&self, ui: &ToolUi, cx: &RequestContext) -> bool {
        let shows_views =
            self.assumes_views || self.profile.shows_views || is_ui_enabled(cx.capabilities());
        is_for_view(ui) && shows_views
    }

    /// Returns whether the client reads every page of a list. Another one gets all in one page.
    #[must_use]
    pub fn reads_pages(&self) -> bool {
        self.profile.reads_pages
    }

    /// Returns the names of tools for this client.
    #[must_use]
    pub fn tool_names<'a>(&self, names: impl Iterator<Item = &'a str>) -> ToolNames {
        if self.profile.max_name_chars.is_none() && self.profile.name_punctuation.is_none() {
            return ToolNames::default();
        }
        let names: Vec<_> = names.collect();
        ToolNames::new(&self.profile, names.iter().copied())
    }

    /// Warns once if the client leaves out tools because there are too many.
    pub fn check_number_of_tools(&self, tools: usize) {
        let Some(max_tools) = self.profile.max_tools.filter(|max| *max < tools as u64) else {
            return;
        };
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                client = self.profile.title,
                tools,
                max_tools,
                "this client leaves out tools over its limit; offer fewer with enabled_tools or \
                 disabled_tools of a server in [mcp_servers]"
            );
        }
    }

    /// Returns a tool as this client takes it. A client that shows structured content in place of
    /// text, or beside it, gets no output schema, because answers that do not fit have no
    /// structured content.
    #[must_use]
    pub fn listed(&self, mut tool: Tool, names: &ToolNames) -> Tool {
        if self.profile.replaces_text() || self.profile.shows_both() {
            tool.output_schema = None;
        }
        let name = names.shown(&tool.name).to_owned();
        if name != tool.name {
            let own = Value::from(std::mem::replace(&mut tool.name, name));
            tool.meta.get_or_insert_default().insert(NAME_KEY.to_owned(), own);
        }
        let simplified = simplified_schema(&tool.input_schema, &self.profile);
        let removed = simplified.map(|simplified| {
            tool.input_schema = simplified.schema;
            simplified.removed
        });
        let description = tool.description.as_deref().unwrap_or_default();
        let max_chars = self.profile.max_description_chars;
        if let Some(shorter) = shortened_description(description, removed.as_deref(), max_chars) {
            tool.description = Some(shorter);
        }
        if let Some(key) = &self.profile.result_size_key {
            let meta = tool.meta.get_or_insert_default();
            meta.entry(key.clone()).or_insert(Value::from(MAX_RESULT_CHARS));
        }
        tool
    }
}

/// Returns whether the answers of a tool are for a View, which may also call the tool itself.
fn is_for_view(ui: &ToolUi) -> bool {
    ui.resource.is_some() || !ui.visibility.model
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
        let guide = include_str!("../../../docs/guide/artifacts.md");
        for client in marquetry_client_profiles::known_clients() {
            let row = format!("| {} | `{}` |", client.title, client.name.as_ref().unwrap());
            assert!(guide.contains(&row), "{row}");
        }
    }

    fn client(name: &str) -> Client {
        Client::new(ClientProfile::of(name), false)
    }

    #[test]
    fn clients_with_short_names_are_kept() {
        let clients = Clients::new(ClientOverrides::default(), false);
        assert!(Arc::ptr_eq(&clients.named("agent", "1"), &clients.named("agent", "1")));
        for number in 0..2 * MAX_CLIENTS {
            clients.named("agent", &number.to_string());
        }
        clients.named(&"long".repeat(1_000), "1");
        let known = clients.known.lock().unwrap();
        assert_eq!(known.len(), MAX_CLIENTS);
        assert!(known.iter().all(|it| it.name == "agent"));
    }

    /// Returns a tool as a client gets it alone.
    fn listed(name: &str, tool: &Tool) -> Tool {
        let client = client(name);
        let names = client.tool_names(std::iter::once(tool.name.as_str()));
        client.listed(tool.clone(), &names)
    }

    #[test]
    fn lists_follow_the_client() {
        let claude = listed("claude-code", &tool());
        assert_eq!(claude.output_schema, None);
        assert_eq!(claude.meta.unwrap()["anthropic/maxResultSizeChars"], 500_000);
        assert_eq!(listed("other", &tool()), tool());
    }

    #[test]
    fn a_tool_keeps_its_own_result_size() {
        let meta = json!({"anthropic/maxResultSizeChars": 7}).as_object().cloned();
        let listed = listed("claude-code", &Tool { meta, ..tool() });
        assert_eq!(listed.meta.unwrap()["anthropic/maxResultSizeChars"], 7);
    }

    /// A tool that the strictest clients refuse in every part.
    fn unusual_tool() -> Tool {
        Tool {
            name: format!("files.{}", "x".repeat(80)),
            description: Some("word ".repeat(1_000)),
            input_schema: json!({
                "properties": {"id": {"type": ["string", "null"]}},
                "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
            }),
            ..tool()
        }
    }

    #[test]
    fn only_clients_that_need_it_get_another_tool() {
        for client in marquetry_client_profiles::known_clients() {
            let name = client.name.as_deref().unwrap();
            let shown = listed(name, &unusual_tool());
            let is_changed = (
                shown.name != unusual_tool().name,
                shown.description != unusual_tool().description,
                shown.input_schema != unusual_tool().input_schema,
            );
            let needs_it = (
                client.max_name_chars.is_some_and(|max| max < 86)
                    || client.name_punctuation.is_some(),
                client.max_description_chars.is_some() || client.plain_schemas,
                client.plain_schemas,
            );
            assert_eq!(is_changed, needs_it, "{}", client.title);
        }
        assert_eq!(listed("other", &unusual_tool()), unusual_tool());
    }

    #[test]
    fn changes_are_said() {
        let cursor = listed("cursor-vscode", &unusual_tool());
        assert!(cursor.name.len() <= 50 && !cursor.name.contains('.'), "{}", cursor.name);
        assert_eq!(cursor.meta.unwrap()["marquetry/name"], unusual_tool().name);
        let claude = listed("claude-code", &unusual_tool()).description.unwrap();
        assert!(claude.chars().count() <= 2_048, "{}", claude.len());
        assert!(claude.ends_with(" more characters]"), "{claude}");
        let cline = listed("Cline", &unusual_tool());
        let sentence = r#"without: {"anyOf":[{"required":["id"]},{"required":["name"]}]}"#;
        assert!(cline.description.unwrap().contains(sentence));
        assert_eq!(
            cline.input_schema,
            json!({"type": "object", "properties": {"id": {"type": "string"}}})
        );
    }

    #[test]
    fn the_report_names_the_profile() {
        let client = client("claude-code");
        let settings = ArtifactOptions::default().settings();
        assert_eq!(client.audience(&settings).profile.as_deref(), Some("Claude Code"));
        assert_eq!(client.profile().name.as_deref(), Some("claude-code"));
    }
}
