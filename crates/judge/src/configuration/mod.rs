//! Stored configurations: servers and a judge under a name.

mod secrets;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::secrets::ResolvedConfiguration;
use crate::{
    ModelSettings, ServerConfig, TestCase, Timestamp, TrialError,
    case_check::check_settings,
    connect,
    models::provider_of,
    page::{Page, PageRequest},
    time::new_id,
};

/// Longest name and longest description, in bytes.
const MAX_NAME: usize = 200;
const MAX_DESCRIPTION: usize = 4096;

/// Maximum number of servers.
const MAX_SERVERS: usize = 64;

/// Longest configuration as JSON, in bytes: a page of 200 has at most 12.5 MiB.
const MAX_BYTES: usize = 64 << 10;

/// Servers and judge that several cases share; the seed's `test_configurations`.
///
/// A configuration has no secrets. Where a server or a judge needs one, it has a reference to a
/// variable, such as `${API_TOKEN}`, whose value is given with each run: see [`Self::resolve`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Configuration {
    /// Its id.
    pub id: String,
    /// Its name. Several configurations may have one name; the newest is the current one.
    pub name: String,
    /// Text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The servers. `…` is in place of each secret that the servers of a run had.
    #[serde(default)]
    pub server_configs: Vec<ServerConfig>,
    /// The judge. `…` is in place of each secret that the judge of a run had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_config: Option<ModelSettings>,
    /// Its origin.
    pub origin: ConfigurationOrigin,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last stored.
    pub updated_at: Timestamp,
}

/// The origin of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConfigurationOrigin {
    /// A user created it.
    Created,
    /// It was stored with a run whose cases have the same servers and the same judge.
    Derived,
}

impl ConfigurationOrigin {
    /// Returns its name in JSON and in databases.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Derived => "derived",
        }
    }
}

/// A configuration to create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewConfiguration {
    /// Its name, 1 to 200 bytes. A configuration of the same name is a new version; the older ones
    /// stay for their runs.
    pub name: String,
    /// Text for people, at most 4,096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The servers of its cases, at most 64. Values of `env` and `headers` are references, such as
    /// `${API_TOKEN}` or `Bearer ${API_TOKEN}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_configs: Vec<ServerConfig>,
    /// The judge of its cases. Its `apiKey` is absent, or a reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_config: Option<ModelSettings>,
}

/// Filter of configurations. A configuration must match every member that is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConfigurationFilter {
    /// The name.
    pub name: Option<String>,
    /// The origin.
    pub origin: Option<ConfigurationOrigin>,
    /// The page.
    #[serde(flatten)]
    pub page: PageRequest,
}

/// Why a configuration cannot be stored or used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A member is missing or invalid.
    #[error("{member} {problem}")]
    Member {
        /// The member, such as `serverConfigs[0].env.API_TOKEN`.
        member: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// Secrets were left out when the configuration was stored with a run.
    #[error(
        "the configuration {id:?} was stored without the secrets of {}: create one without them, or with references such as ${{NAME}} in env, headers and apiKey",
        .members.join(", ")
    )]
    SecretsLost {
        /// The id of the configuration.
        id: String,
        /// The members that had them, such as `serverConfigs[0].url`.
        members: Vec<String>,
    },
    /// Variables have no value.
    #[error("the configuration {name:?} needs values for {}", references(.variables))]
    MissingVariables {
        /// The name of the configuration.
        name: String,
        /// The variables.
        variables: Vec<String>,
    },
}

fn references(variables: &[String]) -> String {
    variables.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().join(", ")
}

impl Configuration {
    /// Checks a new configuration, and returns it with an id.
    ///
    /// # Errors
    ///
    /// Returns an error if a member is invalid, too long, or has a secret.
    pub fn new(new: NewConfiguration) -> Result<Self, ConfigurationError> {
        let NewConfiguration { name, description, server_configs, judge_config } = new;
        let now = Timestamp::now();
        let configuration = Self {
            id: new_id(),
            name: name.trim().to_owned(),
            description,
            server_configs,
            judge_config,
            origin: ConfigurationOrigin::Created,
            created_at: now,
            updated_at: now,
        };
        configuration.check()?;
        configuration.check_secrets()?;
        Ok(configuration.redacted())
    }

    fn check(&self) -> Result<(), ConfigurationError> {
        if self.name.is_empty() {
            return Err(member_error("name", "is blank: name the configuration"));
        }
        if self.name.contains(char::is_control) {
            return Err(member_error("name", "has control characters: use one line of text"));
        }
        if crate::time::is_id(&self.name) {
            return Err(member_error("name", "has the form of an id: use words"));
        }
        let description = self.description.as_deref().unwrap_or_default();
        for (member, text, max_bytes) in
            [("name", self.name.as_str(), MAX_NAME), ("description", description, MAX_DESCRIPTION)]
        {
            if text.len() > max_bytes {
                let problem = format!("has {} bytes: use at most {max_bytes}", text.len());
                return Err(member_error(member, problem));
            }
        }
        if self.server_configs.is_empty() && self.judge_config.is_none() {
            let problem = "and judgeConfig are absent: give the servers, the judge, or both";
            return Err(member_error("serverConfigs", problem));
        }
        if self.server_configs.len() > MAX_SERVERS {
            let problem =
                format!("has {} servers: use at most {MAX_SERVERS}", self.server_configs.len());
            return Err(member_error("serverConfigs", problem));
        }
        let bytes = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        if bytes > MAX_BYTES {
            let problem = format!("has {bytes} bytes as JSON: use at most {MAX_BYTES}");
            return Err(member_error("the configuration", problem));
        }
        connect::ids(&self.server_configs).map_err(of_case)?;
        if let Some(judge) = &self.judge_config {
            provider_of(judge)
                .map_err(|problem| member_error("judgeConfig", format!("has an {problem}")))?;
            check_settings("judgeConfig", judge).map_err(of_case)?;
        }
        Ok(())
    }

    /// Returns the configuration that these cases share, with `…` in place of secrets. `None` if
    /// their servers or judges differ, or if they name neither.
    ///
    /// Its id is a hash of its content, so that a configuration is stored once, however many runs
    /// have it.
    #[must_use]
    pub fn shared_by<'a>(cases: impl IntoIterator<Item = &'a TestCase>) -> Option<Self> {
        let mut cases = cases.into_iter();
        let first = cases.next()?;
        let all_equal = cases.all(|case| {
            case.server_configs == first.server_configs && case.judge_config == first.judge_config
        });
        let server_configs = first.server_configs.clone().unwrap_or_default();
        let judge_config = first.judge_config.clone();
        if !all_equal || (server_configs.is_empty() && judge_config.is_none()) {
            return None;
        }
        let servers = server_configs.iter().map(|server| server.name().unwrap_or("server"));
        let judge = judge_config.as_ref().map(|judge| format!("judge {}", judge.model));
        let name = servers.map(ToOwned::to_owned).chain(judge).collect::<Vec<_>>().join(", ");
        let now = Timestamp::now();
        let unredacted = Self {
            id: String::new(),
            name,
            description: None,
            server_configs,
            judge_config,
            origin: ConfigurationOrigin::Derived,
            created_at: now,
            updated_at: now,
        };
        let shared = unredacted.redacted();
        let Self { name, server_configs, judge_config, .. } = &shared;
        let content = serde_json::to_vec(&(name, server_configs, judge_config)).ok()?;
        Some(Self { id: blake3::hash(&content).to_hex()[..16].to_owned(), ..shared })
    }

    /// Returns the text that continues a list after this configuration: lists are sorted by time
    /// and id.
    pub(crate) fn cursor(&self) -> String {
        format!("{}~{}", self.created_at, self.id)
    }
}

impl ConfigurationFilter {
    /// Returns time and id of the configuration before the page.
    pub(crate) fn after(&self) -> Option<(&str, &str)> {
        let cursor = self.page.cursor.as_deref()?;
        Some(cursor.split_once('~').unwrap_or((cursor, "")))
    }
}

fn member_error(member: impl Into<String>, problem: impl Into<String>) -> ConfigurationError {
    ConfigurationError::Member { member: member.into(), problem: problem.into() }
}

fn of_case(error: TrialError) -> ConfigurationError {
    match error {
        TrialError::Case { member, problem } => member_error(member, problem),
        error => member_error("the configuration", error.to_string()),
    }
}

/// Returns a page of a list that has one extra configuration if there is a next page.
pub(crate) fn page(mut items: Vec<Configuration>, size: usize) -> Page<Configuration> {
    let has_more = items.len() > size;
    items.truncate(size);
    let next_cursor = items.last().filter(|_| has_more).map(Configuration::cursor);
    Page { items, next_cursor }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    pub(super) fn new(value: Value) -> Result<Configuration, ConfigurationError> {
        Configuration::new(serde_json::from_value(value).unwrap())
    }

    #[track_caller]
    pub(super) fn check(value: Value, want: Expect) {
        want.assert_eq(&new(value).unwrap_err().to_string());
    }

    pub(super) fn judge(members: Value) -> Value {
        let mut judge = json!({"provider": "openai", "model": "m"});
        judge.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"name": "a", "judgeConfig": judge})
    }

    pub(super) fn server(config: Value) -> Value {
        json!({"name": "a", "serverConfigs": [config]})
    }

    #[test]
    fn mistakes_are_named() {
        check(json!({"name": " "}), expect!["name is blank: name the configuration"]);
        check(
            json!({"name": "a\nb"}),
            expect!["name has control characters: use one line of text"],
        );
        check(
            json!({"name": "1a0c3d5e7f0000-5f0c2e91ab34d678"}),
            expect!["name has the form of an id: use words"],
        );
        check(
            json!({"name": "a"}),
            expect![
                "serverConfigs and judgeConfig are absent: give the servers, the judge, or both"
            ],
        );
        check(json!({"name": "x".repeat(201)}), expect!["name has 201 bytes: use at most 200"]);
        let mut long = judge(json!({}));
        long["description"] = "x".repeat(4097).into();
        check(long, expect!["description has 4097 bytes: use at most 4096"]);
        check(
            judge(json!({"provider": "acme"})),
            expect![[
                r#"judgeConfig has an unknown provider "acme": use openai, anthropic, ollama, or custom with a baseUrl"#
            ]],
        );
        check(judge(json!({"model": ""})), expect!["judgeConfig has no model: name it"]);
        check(
            judge(json!({"votes": 12})),
            expect!["judgeConfig has votes or maxVotes outside of 1 to 11"],
        );
        let many: Vec<Value> =
            (0..65).map(|_| json!({"type": "http", "url": "http://h"})).collect();
        check(
            json!({"name": "a", "serverConfigs": many}),
            expect!["serverConfigs has 65 servers: use at most 64"],
        );
        let twice = json!({"type": "http", "name": "s", "url": "http://h"});
        check(
            json!({"name": "a", "serverConfigs": [twice, twice]}),
            expect![[
                r#"serverConfigs has a name that is blank, not unique or reserved: "s"; give each server its own"#
            ]],
        );
        let args = vec!["x".repeat(1000); 66];
        check(
            server(json!({"type": "stdio", "command": "c", "args": args})),
            expect!["the configuration has 66404 bytes as JSON: use at most 65536"],
        );
    }
}
