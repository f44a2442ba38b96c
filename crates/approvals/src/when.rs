//! When a question is asked before a call.

use std::{collections::BTreeMap, fmt};

use marquetry_glob::Glob;

/// The calls before which a question is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskWhen {
    /// No question is asked.
    #[default]
    Never,
    /// Calls of tools that may delete or overwrite data, by their hints.
    Destructive,
    /// Calls of tools that may reach beyond their server, by their hints.
    OpenWorld,
    /// All calls.
    Always,
    /// Calls of the tools whose own names match one of the patterns.
    Tools(Vec<Glob>),
}

/// The hints of a server about what one of its tools does. A hint that is not given has the default
/// of MCP, which is the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// `readOnlyHint`: the tool changes nothing. By default it changes something.
    pub read_only: Option<bool>,
    /// `destructiveHint`: the tool may delete or overwrite data. By default it may.
    pub destructive: Option<bool>,
    /// `openWorldHint`: the tool may reach beyond its server. By default it may.
    pub open_world: Option<bool>,
}

/// The rules for all servers: one in general, and further ones for single servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskRules {
    general: AskWhen,
    servers: BTreeMap<String, AskWhen>,
}

impl AskWhen {
    /// Returns whether a question is asked before a call of a tool, by the server's own name of it.
    #[must_use]
    pub fn asks(&self, tool: &str, hints: &ToolHints) -> bool {
        match self {
            Self::Never => false,
            Self::Destructive => hints.may_destroy(),
            Self::OpenWorld => hints.open_world != Some(false),
            Self::Always => true,
            Self::Tools(patterns) => patterns.iter().any(|pattern| pattern.matches(tool)),
        }
    }
}

impl fmt::Display for AskWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("\"never\""),
            Self::Destructive => f.write_str("\"destructive\""),
            Self::OpenWorld => f.write_str("\"open-world\""),
            Self::Always => f.write_str("\"always\""),
            Self::Tools(patterns) => {
                let patterns: Vec<_> =
                    patterns.iter().map(|it| format!("{:?}", it.as_str())).collect();
                write!(f, "[{}]", patterns.join(", "))
            }
        }
    }
}

impl ToolHints {
    /// Returns whether the tool may delete or overwrite data.
    #[must_use]
    pub fn may_destroy(&self) -> bool {
        self.read_only != Some(true) && self.destructive != Some(false)
    }
}

impl AskRules {
    /// Creates the rule for all servers.
    #[must_use]
    pub fn new(general: AskWhen) -> Self {
        Self { general, servers: BTreeMap::new() }
    }

    /// Adds a rule for one server. The stricter one of this and the general rule applies.
    #[must_use]
    pub fn with_server(mut self, server: impl Into<String>, when: AskWhen) -> Self {
        self.servers.insert(server.into(), when);
        self
    }

    /// Returns whether no call needs a question.
    #[must_use]
    pub fn never_ask(&self) -> bool {
        let mut rules = self.servers.values().chain([&self.general]);
        rules.all(|when| *when == AskWhen::Never)
    }

    /// Returns the settings that demand questions, such as `ask.when = "always"`.
    pub fn settings(&self) -> impl Iterator<Item = String> {
        let general = ("ask.when".to_owned(), &self.general);
        let servers = self.servers.iter().map(|(name, when)| (format!("ask.servers.{name}"), when));
        let asking = std::iter::once(general).chain(servers);
        let asking = asking.filter(|(_, when)| **when != AskWhen::Never);
        asking.map(|(key, when)| format!("{key} = {when}"))
    }

    /// Returns the setting that demands a question before a call of a server's tool.
    #[must_use]
    pub fn reason(&self, server: &str, tool: &str, hints: &ToolHints) -> Option<String> {
        if self.general.asks(tool, hints) {
            return Some(format!("ask.when = {}", self.general));
        }
        let when = self.servers.get(server).filter(|when| when.asks(tool, hints))?;
        Some(format!("ask.servers.{server} = {when}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which of "destructive" and "open-world" ask about a tool with these hints.
    #[track_caller]
    fn check(hints: [Option<bool>; 3], want: [bool; 2]) {
        let [read_only, destructive, open_world] = hints;
        let hints = ToolHints { read_only, destructive, open_world };
        let asks = [AskWhen::Destructive, AskWhen::OpenWorld].map(|when| when.asks("t", &hints));
        assert_eq!(asks, want, "{hints:?}");
        assert!(AskWhen::Always.asks("t", &hints) && !AskWhen::Never.asks("t", &hints));
    }

    #[test]
    fn hints_have_the_defaults_of_mcp() {
        let yes = Some(true);
        let no = Some(false);
        check([None, None, None], [true, true]);
        check([yes, None, None], [false, true]);
        check([no, None, None], [true, true]);
        check([None, no, None], [false, true]);
        check([no, no, no], [false, false]);
        check([None, yes, no], [true, false]);
        // `destructiveHint` has a meaning only for a tool that changes something.
        check([yes, yes, no], [false, false]);
    }

    #[test]
    fn the_strictest_rule_applies_and_is_named() {
        let deletes = AskWhen::Tools(vec![Glob::for_names("delete_*").unwrap()]);
        let rules = AskRules::new(deletes).with_server("mail", AskWhen::Always);
        let reads = ToolHints { read_only: Some(true), ..ToolHints::default() };
        // No hint of a server lifts a rule that asks about names.
        let reason = rules.reason("files", "delete_all", &reads).unwrap();
        assert_eq!(reason, r#"ask.when = ["delete_*"]"#);
        assert_eq!(rules.reason("files", "list", &ToolHints::default()), None);
        let reason = rules.reason("mail", "list", &reads).unwrap();
        assert_eq!(reason, r#"ask.servers.mail = "always""#);
        assert!(rules.reason("mail", "delete_all", &reads).unwrap().starts_with("ask.when"));
        assert!(!rules.never_ask() && AskRules::default().never_ask());
        assert!(AskRules::default().with_server("a", AskWhen::Never).never_ask());
    }
}
