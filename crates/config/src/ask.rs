//! The section `[ask]`: questions to a person before tools are called.

use std::{
    borrow::Cow, collections::BTreeMap, fmt, num::NonZeroU64, path::PathBuf, sync::Arc,
    time::Duration,
};

use marquetry_approvals::{ApprovalLimits, Approvals, AskRules, AskWhen, DecisionFile};
use marquetry_gateway::{ApprovalRules, CallApprovals};
use marquetry_glob::Glob;
use marquetry_nearest::nearest;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor, value::SeqAccessDeserializer},
};

use crate::{Config, ConfigError, environment::user_folder};

/// Questions to a person before a tool of an upstream is called. The client of the call shows the
/// question, if it declares the capability `elicitation`; the console shows it, too. The person
/// allows this call, the tool for the session, or the tool from now on, or declines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AskConfig {
    /// Which calls need a question: "never"; "destructive", those of tools that may delete or
    /// overwrite data, which are all without `readOnlyHint: true` and without `destructiveHint:
    /// false`; "open-world", those of tools without `openWorldHint: false`; "always"; or a list of
    /// patterns for the upstream's own names of tools, such as `["delete_*"]`.
    pub when: AskSetting,
    /// Rules for single servers, by their names. The stricter one of `when` and the server's rule
    /// applies.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = serde_json::json!({"files": "destructive", "mail": ["send_*"]}))]
    pub servers: BTreeMap<String, AskSetting>,
    /// Time that a person has for an answer, in milliseconds. Then the call is refused.
    /// `limits.question_ms` applies, too.
    pub timeout_ms: NonZeroU64,
    /// File of the tools that are allowed from now on, of mode 0600. A person may edit it. Without
    /// it, `marquetry/decisions.toml` in `$XDG_STATE_HOME` or `~/.local/state`.
    #[schemars(example = &"/var/lib/marquetry/decisions.toml")]
    pub decisions_file: Option<PathBuf>,
}

impl Default for AskConfig {
    fn default() -> Self {
        Self {
            when: AskSetting::default(),
            servers: BTreeMap::new(),
            timeout_ms: NonZeroU64::new(300_000).expect("is not 0"),
            decisions_file: None,
        }
    }
}

impl AskConfig {
    /// Returns the rules for all servers.
    #[must_use]
    pub fn rules(&self) -> AskRules {
        let rules = AskRules::new(self.when.0.clone());
        let servers = self.servers.iter();
        servers.fold(rules, |rules, (server, when)| rules.with_server(server, when.0.clone()))
    }
}

/// The calls before which a person is asked, as a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskSetting(pub AskWhen);

const EXPECTED: &str = "\"never\", \"destructive\", \"open-world\", \"always\" or a list of patterns for names of tools";

impl Serialize for AskSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            AskWhen::Tools(patterns) => serializer.collect_seq(patterns.iter().map(Glob::as_str)),
            // It is shown in quotes.
            when => serializer.serialize_str(when.to_string().trim_matches('"')),
        }
    }
}

impl<'de> Deserialize<'de> for AskSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SettingVisitor;
        impl<'de> Visitor<'de> for SettingVisitor {
            type Value = AskSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<AskSetting, E> {
                Ok(AskSetting(match text {
                    "never" => AskWhen::Never,
                    "destructive" => AskWhen::Destructive,
                    "open-world" => AskWhen::OpenWorld,
                    "always" => AskWhen::Always,
                    _ => {
                        return Err(E::custom(format!(
                            "{text:?} is not known; expected {EXPECTED}"
                        )));
                    }
                }))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, patterns: A) -> Result<AskSetting, A::Error> {
                let patterns = Vec::<String>::deserialize(SeqAccessDeserializer::new(patterns))?;
                let patterns = patterns.iter().map(|pattern| {
                    Glob::for_names(pattern)
                        .map_err(|error| A::Error::custom(format!("{pattern:?}: {error}")))
                });
                Ok(AskSetting(AskWhen::Tools(patterns.collect::<Result<_, _>>()?)))
            }
        }
        deserializer.deserialize_any(SettingVisitor)
    }
}

impl JsonSchema for AskSetting {
    fn schema_name() -> Cow<'static, str> {
        "AskSetting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [
            {"enum": ["never", "destructive", "open-world", "always"]},
            {"type": "array", "items": {"type": "string"}},
        ]})
    }
}

impl Config {
    /// Returns the table of open questions and decisions.
    ///
    /// # Errors
    /// Returns an error if the file of decisions is damaged, or cannot be read.
    pub fn approvals(&self) -> Result<Approvals, ConfigError> {
        let mut limits = ApprovalLimits::default();
        limits.open = self.limits.max_parked_calls.get();
        limits.open_per_principal = self.limits.max_parked_calls_per_caller.get();
        let approvals = Approvals::new(limits);
        let Some(path) = &self.ask.decisions_file else { return Ok(approvals) };
        let file = DecisionFile::new(path);
        // Only a server that asks needs the file.
        if self.ask_rules().is_some() {
            file.check().map_err(|error| self.fault("ask.decisions_file", error.to_string()))?;
        }
        Ok(approvals.with_file(file))
    }

    /// Puts the rules of `[ask]` into effect.
    pub fn apply_ask_rules(&self, approvals: &CallApprovals) {
        let time = Duration::from_millis(self.ask.timeout_ms.get());
        approvals.replace_rules(self.ask_rules(), time);
    }

    /// Returns the rules for questions; `None` if no call needs one, by these rules or by those for
    /// callers.
    fn ask_rules(&self) -> Option<Arc<dyn ApprovalRules>> {
        let rules = self.ask.rules();
        let mut callers = self.policy.rules.iter();
        let asks = !rules.never_ask() || callers.any(|rule| rule.ask.0 != AskWhen::Never);
        asks.then(|| Arc::new(rules) as _)
    }

    /// Returns an error for each rule about a server that does not exist: a person would rely on a
    /// question that is never asked.
    pub(crate) fn ask_faults(&self) -> impl Iterator<Item = ConfigError> {
        let unknown = self.ask.servers.keys().filter(|name| !self.mcp_servers.contains_key(*name));
        unknown.map(|name| {
            let known: Vec<_> = self.mcp_servers.keys().map(String::as_str).collect();
            let meant = nearest(name, &known).map(|it| format!("; did you mean {it:?}?"));
            let problem = format!("no server is called {name:?}{}", meant.unwrap_or_default());
            self.fault(&format!("ask.servers.{name}"), problem)
        })
    }
}

/// Returns the user's file of decisions: below `$XDG_STATE_HOME` or `~/.local/state`.
pub(crate) fn user_decisions(
    variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
) -> Option<PathBuf> {
    Some(user_folder(variable, "XDG_STATE_HOME", ".local/state")?.join("marquetry/decisions.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(toml: &str) -> Config {
        Config::from_toml(toml, "m.toml").unwrap()
    }

    #[test]
    fn the_setting_is_a_word_or_patterns() {
        let parsed = config("[ask]\nwhen = ['delete_*']\nservers.a = 'open-world'\n").ask;
        assert_eq!(parsed.when.0.to_string(), r#"["delete_*"]"#);
        assert_eq!(parsed.servers["a"], AskSetting(AskWhen::OpenWorld));
        for when in ["never", "destructive", "open-world", "always"] {
            let parsed = config(&format!("ask.when = '{when}'")).ask.when;
            assert_eq!(serde_json::json!(parsed), when);
        }
        for (wrong, want) in [
            ("ask.when = 'sometimes'", "\"sometimes\" is not known; expected \"never\""),
            ("ask.when = ['{a,b}']", "write one pattern for each alternative"),
            ("ask.when = true", "expected \"never\""),
            ("ask.timeout_ms = 0", "expected a whole number from 1 on"),
        ] {
            let error = Config::from_toml(wrong, "m.toml").unwrap_err().to_string();
            assert!(error.starts_with("m.toml:1:") && error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_rule_about_an_unknown_server_is_a_fault() {
        let toml = "[ask.servers]\nfiels = 'always'\n[mcp_servers.files]\ncommand = 'x'\n";
        let faults = config(toml).faults();
        let error = faults[0].to_string();
        assert!(
            error.contains("no server is called \"fiels\"; did you mean \"files\"?"),
            "{error}"
        );
    }

    #[test]
    fn a_damaged_file_of_decisions_is_a_fault_only_for_a_server_that_asks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.toml");
        std::fs::write(&path, "allow").unwrap();
        let toml = format!("[ask]\ndecisions_file = '{}'\n", path.display());
        assert!(config(&toml).approvals().is_ok());
        let error = config(&format!("{toml}when = 'always'")).approvals().unwrap_err().to_string();
        assert!(error.contains("ask.decisions_file") && error.contains("is damaged"), "{error}");
    }
}
