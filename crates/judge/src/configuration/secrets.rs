//! Secrets of configurations: they are refused, and references to variables take their place.

use std::collections::{BTreeMap, BTreeSet};

use marquetry_protocol::client::without_secrets;

use super::{Configuration, ConfigurationError, ConfigurationOrigin, member_error};
use crate::{
    ModelSettings, ServerConfig, TestCase,
    redact::{HIDDEN, Reference, hide_server_secrets},
};

/// Longest values of the variables of a configuration, in bytes, counted at each reference. Each
/// case that runs has them.
const MAX_RESOLVED_BYTES: usize = 256 << 10;

/// The servers and the judge of a configuration with the values of its variables. It has secrets,
/// so it is neither stored nor shown.
#[derive(Clone, Debug)]
pub struct ResolvedConfiguration {
    server_configs: Vec<ServerConfig>,
    judge_config: Option<ModelSettings>,
    variable_values: Vec<String>,
}

impl ResolvedConfiguration {
    /// Gives a case the servers and the judge of the configuration, instead of its own. A case
    /// keeps its own ones if the configuration has none.
    pub fn apply(&self, case: &mut TestCase) {
        if !self.server_configs.is_empty() {
            case.server_configs = Some(self.server_configs.clone());
        }
        if self.judge_config.is_some() {
            case.judge_config.clone_from(&self.judge_config);
        }
        case.variable_values.clone_from(&self.variable_values);
    }
}

impl Configuration {
    /// Returns the configuration without the secrets that [`TestCase::redacted`] leaves out, and
    /// with `…` in place of each. References such as `${NAME}` remain.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut configuration = self.clone();
        if let Some(judge) = &mut configuration.judge_config {
            judge.api_key = judge.api_key.take().filter(|key| !key.is_empty());
            if let Some(key) = judge.api_key.as_mut().filter(|key| !is_reference(key)) {
                HIDDEN.clone_into(key);
            }
            if let Some(url) = &mut judge.base_url {
                *url = hidden_url(url);
            }
        }
        for (server, original) in configuration.server_configs.iter_mut().zip(&self.server_configs)
        {
            hide_server_secrets(server, is_reference);
            mark_urls(server, original);
        }
        configuration
    }

    /// Checks that nothing is lost when secrets are left out.
    pub(super) fn check_secrets(&self) -> Result<(), ConfigurationError> {
        let stored = self.redacted();
        for (member, shown) in self.members().into_iter().zip(stored.members()) {
            if member.is_hidden(self.origin) || !member.is_equal(&shown) {
                return Err(member_error(member.path, member.place.advice()));
            }
        }
        Ok(())
    }

    /// Returns the names of the variables that the configuration refers to.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        let members = self.members();
        let references = members.iter().filter_map(Member::reference);
        references.map(|reference| reference.name.to_owned()).collect()
    }

    /// Returns the servers and the judge with the values of their variables.
    ///
    /// # Errors
    ///
    /// Returns an error if a variable has no value, if the values are longer than 256 KiB together,
    /// or if a secret was left out when the configuration was stored.
    pub fn resolve(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<ResolvedConfiguration, ConfigurationError> {
        let mut lost = self.members();
        lost.retain(|member| member.is_hidden(self.origin));
        if !lost.is_empty() {
            let members = lost.into_iter().map(|member| member.path).collect();
            return Err(ConfigurationError::SecretsLost { id: self.id.clone(), members });
        }
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        for name in self.variables() {
            match variable(&name) {
                Some(value) => _ = values.insert(name, value),
                None => missing.push(name),
            }
        }
        if !missing.is_empty() {
            let name = self.name.clone();
            return Err(ConfigurationError::MissingVariables { name, variables: missing });
        }
        let bytes: usize = self
            .members()
            .iter()
            .filter_map(|member| values.get(member.reference()?.name))
            .map(String::len)
            .sum();
        if bytes > MAX_RESOLVED_BYTES {
            let problem =
                format!("add {bytes} bytes to the configuration: use at most {MAX_RESOLVED_BYTES}");
            return Err(member_error("the values of variables", problem));
        }
        let mut server_configs = self.server_configs.clone();
        for server in &mut server_configs {
            let (ServerConfig::Stdio { env: fields, .. }
            | ServerConfig::Sse { headers: fields, .. }
            | ServerConfig::Http { headers: fields, .. }) = server;
            for field in fields.values_mut() {
                resolve(field, &values);
            }
        }
        let mut judge_config = self.judge_config.clone();
        if let Some(key) = judge_config.as_mut().and_then(|judge| judge.api_key.as_mut()) {
            resolve(key, &values);
        }
        let variable_values = values.into_values().collect();
        Ok(ResolvedConfiguration { server_configs, judge_config, variable_values })
    }

    /// Returns the members that may have secrets.
    fn members(&self) -> Vec<Member<'_>> {
        let mut members = Vec::new();
        for (index, server) in self.server_configs.iter().enumerate() {
            let path = format!("serverConfigs[{index}]");
            let (fields, name) = match server {
                ServerConfig::Stdio { args, env, .. } => {
                    members.extend(args.iter().enumerate().map(|(at, arg)| {
                        Member::new(format!("{path}.args[{at}]"), arg, Place::Argument)
                    }));
                    (env, "env")
                }
                ServerConfig::Sse { url, headers, .. }
                | ServerConfig::Http { url, headers, .. } => {
                    members.push(Member::new(format!("{path}.url"), url, Place::Url));
                    (headers, "headers")
                }
            };
            members.extend(fields.iter().map(|(field, value)| {
                Member::new(format!("{path}.{name}.{field}"), value, Place::Value)
            }));
        }
        if let Some(judge) = &self.judge_config {
            // An empty key counts as absent.
            if let Some(key) = judge.api_key.as_deref().filter(|key| !key.is_empty()) {
                members.push(Member::new("judgeConfig.apiKey".to_owned(), key, Place::Value));
            }
            if let Some(url) = &judge.base_url {
                members.push(Member::new("judgeConfig.baseUrl".to_owned(), url, Place::Url));
            }
        }
        members
    }
}

/// A member of a configuration that may have a secret.
struct Member<'a> {
    path: String,
    value: &'a str,
    place: Place,
}

/// The kind of a member that may have a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The value of a variable or a header, or a key.
    Value,
    Argument,
    Url,
}

impl Place {
    /// Returns what is wrong with a secret there, and what to do.
    fn advice(self) -> &'static str {
        match self {
            Self::Value => {
                "has a value, and values there may be secrets, which are not stored: write a reference such as ${NAME}, and give its value with each run"
            }
            Self::Argument => {
                "looks like a secret, which is not stored: pass it in env, as a reference such as ${NAME}"
            }
            Self::Url => {
                "has a user, a query or a fragment, which may be secrets and are not stored: leave them out"
            }
        }
    }
}

impl<'a> Member<'a> {
    fn new(path: String, value: &'a str, place: Place) -> Self {
        Self { path, value, place }
    }

    fn reference(&self) -> Option<Reference<'a>> {
        Reference::parse(self.value).filter(|_| self.place == Place::Value)
    }

    /// Returns whether the member has `…` in place of a secret. A URL without secrets has no user,
    /// no query and no fragment, so each of these counts.
    fn is_hidden(&self, origin: ConfigurationOrigin) -> bool {
        match self.place {
            Place::Value => self.value == HIDDEN,
            Place::Url => without_secrets(self.value) != self.value,
            // Secret arguments of a created configuration were refused, so its `…` are text.
            Place::Argument => {
                origin == ConfigurationOrigin::Derived && self.value.contains(HIDDEN)
            }
        }
    }

    /// Returns whether a stored member has the same value. The spaces of a JSON object in an
    /// argument are not stored.
    fn is_equal(&self, stored: &Self) -> bool {
        self.value == stored.value
            || self.place == Place::Argument
                && json_object(self.value)
                    .is_some_and(|object| Some(object) == json_object(stored.value))
    }
}

fn json_object(text: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    serde_json::from_str(text).ok()
}

fn is_reference(value: &str) -> bool {
    Reference::parse(value).is_some()
}

/// Returns a URL with `…` in place of its user, and of its query and its fragment.
fn hidden_url(url: &str) -> String {
    let base = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    let mut hidden = without_secrets(base);
    if hidden != base {
        hidden = hidden.replacen("://", &format!("://{HIDDEN}@"), 1);
    }
    if base.len() < url.len() {
        hidden.push('?');
        hidden.push_str(HIDDEN);
    }
    hidden
}

/// Marks the parts of URLs that [`hide_server_secrets`] removes without a trace. Otherwise a run
/// would use the server without them.
fn mark_urls(server: &mut ServerConfig, original: &ServerConfig) {
    match (server, original) {
        (ServerConfig::Stdio { args, .. }, ServerConfig::Stdio { args: originals, .. }) => {
            for (arg, original) in args.iter_mut().zip(originals) {
                if *arg != *original && *arg == without_secrets(original) {
                    *arg = hidden_url(original);
                }
            }
        }
        (ServerConfig::Sse { url, .. }, ServerConfig::Sse { url: original, .. })
        | (ServerConfig::Http { url, .. }, ServerConfig::Http { url: original, .. }) => {
            *url = hidden_url(original);
        }
        _ => {}
    }
}

/// Replaces a reference by the value of its variable.
fn resolve(field: &mut String, values: &BTreeMap<String, String>) {
    let reference = Reference::parse(field);
    let resolved = reference.and_then(|it| values.get(it.name).map(|value| it.resolved(value)));
    if let Some(resolved) = resolved {
        *field = resolved;
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::{
        super::tests::{check, judge, new, server},
        *,
    };

    #[test]
    fn secrets_are_refused_with_their_place() {
        check(
            judge(json!({"apiKey": "sk-1"})),
            expect![
                "judgeConfig.apiKey has a value, and values there may be secrets, which are not stored: write a reference such as ${NAME}, and give its value with each run"
            ],
        );
        check(
            judge(json!({"baseUrl": "http://u:p@h/v1"})),
            expect![
                "judgeConfig.baseUrl has a user, a query or a fragment, which may be secrets and are not stored: leave them out"
            ],
        );
        check(
            server(json!({"type": "stdio", "command": "c", "env": {"PIN": "1"}})),
            expect![
                "serverConfigs[0].env.PIN has a value, and values there may be secrets, which are not stored: write a reference such as ${NAME}, and give its value with each run"
            ],
        );
        check(
            server(json!({"type": "stdio", "command": "c", "args": ["-v", "--token=abc"]})),
            expect![
                "serverConfigs[0].args[1] looks like a secret, which is not stored: pass it in env, as a reference such as ${NAME}"
            ],
        );
        check(
            server(json!({"type": "sse", "url": "http://h/sse?key=1"})),
            expect![
                "serverConfigs[0].url has a user, a query or a fragment, which may be secrets and are not stored: leave them out"
            ],
        );
        check(
            server(json!({"type": "http", "url": "http://h", "headers": {"X-Key": "Bearer abc"}})),
            expect![
                "serverConfigs[0].headers.X-Key has a value, and values there may be secrets, which are not stored: write a reference such as ${NAME}, and give its value with each run"
            ],
        );
    }

    #[test]
    fn marks_of_secrets_are_refused_as_secrets_are() {
        check(
            judge(json!({"apiKey": "…"})),
            expect![
                "judgeConfig.apiKey has a value, and values there may be secrets, which are not stored: write a reference such as ${NAME}, and give its value with each run"
            ],
        );
        check(
            server(json!({"type": "http", "url": "http://h/mcp?…"})),
            expect![
                "serverConfigs[0].url has a user, a query or a fragment, which may be secrets and are not stored: leave them out"
            ],
        );
        check(
            server(json!({"type": "stdio", "command": "c", "env": {"PIN": "…"}})),
            expect![
                "serverConfigs[0].env.PIN has a value, and values there may be secrets, which are not stored: write a reference such as ${NAME}, and give its value with each run"
            ],
        );
        let text = server(json!({"type": "stdio", "command": "c", "args": ["--ellipsis", "…"]}));
        new(text).unwrap().resolve(|_| None).unwrap();
    }

    #[test]
    fn references_are_stored_and_resolved() {
        let configuration = new(json!({
            "name": " nightly ",
            "serverConfigs": [
                {"type": "stdio", "command": "c", "args": [r#"{"a": 1}"#, "${HOME}"], "env": {"TOKEN": "${API_TOKEN}"}},
                {"type": "http", "url": "http://h/mcp", "headers": {"Authorization": "Bearer ${API_TOKEN}"}},
            ],
            "judgeConfig": {"provider": "custom", "model": "m", "apiKey": "${JUDGE_KEY}"},
        }))
        .unwrap();
        assert_eq!(configuration.name, "nightly");
        assert_eq!(configuration.redacted(), configuration);
        assert_eq!(
            configuration.variables().into_iter().collect::<Vec<_>>(),
            ["API_TOKEN", "JUDGE_KEY"]
        );
        let missing = configuration.resolve(|_| None).unwrap_err().to_string();
        assert_eq!(
            missing,
            "the configuration \"nightly\" needs values for ${API_TOKEN}, ${JUDGE_KEY}"
        );
        let resolved = configuration.resolve(|name| Some(format!("{name}-value"))).unwrap();
        let mut case = TestCase::new("a", "b");
        case.judge_config = Some(ModelSettings::new("openai", "replaced"));
        resolved.apply(&mut case);
        assert_eq!(
            json!(case.server_configs),
            json!([
                {"type": "stdio", "command": "c", "args": [r#"{"a":1}"#, "${HOME}"], "env": {"TOKEN": "API_TOKEN-value"}},
                {"type": "http", "url": "http://h/mcp", "headers": {"Authorization": "Bearer API_TOKEN-value"}},
            ])
        );
        let judge = case.judge_config.unwrap();
        assert_eq!((&*judge.model, judge.api_key.as_deref()), ("m", Some("JUDGE_KEY-value")));
    }

    #[test]
    fn values_are_bounded_wherever_they_are_used() {
        let env: BTreeMap<String, String> =
            (0..1000).map(|at| (format!("V{at}"), "${V}".to_owned())).collect();
        let configuration =
            new(server(json!({"type": "stdio", "command": "c", "env": env}))).unwrap();
        assert!(configuration.resolve(|_| Some("x".repeat(262))).is_ok());
        let error = configuration.resolve(|_| Some("x".repeat(263))).unwrap_err().to_string();
        assert_eq!(
            error,
            "the values of variables add 263000 bytes to the configuration: use at most 262144"
        );
    }

    #[test]
    fn a_configuration_without_servers_or_judge_leaves_those_of_a_case() {
        let mut case = TestCase::new("a", "b");
        case.server_configs = Some(vec![ServerConfig::http("http://own")]);
        let judge = new(judge(json!({}))).unwrap().resolve(|_| None).unwrap();
        judge.apply(&mut case);
        assert_eq!(case.server_configs, Some(vec![ServerConfig::http("http://own")]));
        let servers = server(json!({"type": "http", "url": "http://h"}));
        new(servers).unwrap().resolve(|_| None).unwrap().apply(&mut case);
        assert_eq!(case.judge_config.unwrap().model, "m");
    }

    /// Checks which members have lost a secret in the configuration that is derived from a case.
    #[track_caller]
    fn check_lost(servers: Value, model: Value, want: &[&str]) {
        let mut case = TestCase::new("a", "b");
        case.server_configs = serde_json::from_value(servers).unwrap();
        case.judge_config = serde_json::from_value(model).unwrap();
        let derived = Configuration::shared_by([&case]).unwrap();
        assert_eq!(derived.origin, ConfigurationOrigin::Derived);
        assert_eq!(derived.redacted(), derived, "a store redacts it once more");
        assert_eq!(Configuration::shared_by([&case]).unwrap().id, derived.id);
        let shown = json!(derived).to_string();
        assert!(!shown.contains("mine"), "{shown}");
        let resolved = derived.resolve(|_| Some(String::new()));
        if want.is_empty() {
            resolved.unwrap();
            return;
        }
        let Err(ConfigurationError::SecretsLost { id, members }) = resolved else {
            panic!("{resolved:?}")
        };
        assert_eq!(id, derived.id);
        assert_eq!(members, want);
    }

    #[test]
    fn a_derived_configuration_that_lost_a_secret_is_refused() {
        let key = json!({"provider": "openai", "model": "m", "apiKey": "sk-mine"});
        check_lost(json!(null), key.clone(), &["judgeConfig.apiKey"]);
        let query = json!([{"type": "http", "url": "http://h/mcp?key=mine"}]);
        check_lost(query.clone(), json!(null), &["serverConfigs[0].url"]);
        check_lost(query, key, &["serverConfigs[0].url", "judgeConfig.apiKey"]);
        for url in ["http://u:mine@h/mcp", "http://mine@h", "http://h/mcp#mine"] {
            let servers =
                json!([{"type": "http", "url": "http://h/"}, {"type": "sse", "url": url}]);
            check_lost(servers, json!(null), &["serverConfigs[1].url"]);
            let judge = json!({"provider": "custom", "model": "m", "baseUrl": url});
            check_lost(json!(null), judge, &["judgeConfig.baseUrl"]);
            for arg in [url.to_owned(), format!("--url={url}?project=mine")] {
                let servers = json!([{"type": "stdio", "command": "c", "args": ["a", arg]}]);
                check_lost(servers, json!(null), &["serverConfigs[0].args[1]"]);
            }
        }
        let args = json!([{"type": "stdio", "command": "c", "args": ["--token", "mine"]}]);
        check_lost(args, json!(null), &["serverConfigs[0].args[1]"]);
        let env = json!([{"type": "stdio", "command": "c", "env": {"PIN": "mine"}}]);
        check_lost(env, json!(null), &["serverConfigs[0].env.PIN"]);
        let headers = json!([{"type": "http", "url": "http://h", "headers": {"X-Key": "mine"}}]);
        check_lost(headers, json!(null), &["serverConfigs[0].headers.X-Key"]);
    }

    #[test]
    fn a_derived_configuration_that_lost_nothing_is_used() {
        let args = ["mcp-remote", "http://h/mcp", r#"{"a": 1}"#];
        let headers = json!({"Authorization": "Bearer ${TOKEN}"});
        let servers = json!([
            {"type": "stdio", "command": "c", "args": args},
            {"type": "http", "url": "http://h/mcp", "headers": headers},
        ]);
        for key in [json!(null), json!(""), json!("${JUDGE_KEY}")] {
            let judge = json!({"provider": "openai", "model": "m", "apiKey": key});
            check_lost(servers.clone(), judge, &[]);
        }
    }

    #[test]
    fn a_lost_secret_distinguishes_derived_configurations() {
        let mut case = TestCase::new("a", "b");
        case.judge_config = Some(ModelSettings::new("openai", "m"));
        let without = Configuration::shared_by([&case]).unwrap();
        case.judge_config.as_mut().unwrap().api_key = Some("sk-mine".to_owned());
        let lost = Configuration::shared_by([&case]).unwrap();
        assert_ne!(lost.id, without.id);
        let error = lost.resolve(|_| None).unwrap_err().to_string();
        let want = format!(
            "the configuration {:?} was stored without the secrets of judgeConfig.apiKey: create one without them, or with references such as ${{NAME}} in env, headers and apiKey",
            lost.id
        );
        assert_eq!(error, want);
    }
}
