//! The sections `[policy]` and `[profiles]`.

use marquetry_gateway::Namer;
use marquetry_policy::{Access, Caller, Inventory, Patterns, Policy, PolicyError, Profile, Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Config, ConfigError, ask::AskSetting, upstream::Prefix};

/// Who may see and use which tools, prompts and resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PolicyConfig {
    /// The rules. The rules that match a caller add up, and a `deny` of any of them wins. With any
    /// rule, callers neither see nor reach what no rule allows them.
    #[schemars(example = serde_json::json!([{
        "principals": ["ci"], "upstreams": ["git*"],
        "tools": {"allow": ["get_*"], "deny": ["*secret*"]},
    }]))]
    pub rules: Vec<RuleConfig>,
}

/// A rule of `[[policy.rules]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RuleConfig {
    /// The callers that the rule is for, by patterns: the name of a token in `auth.tokens`, or
    /// "ISSUER SUBJECT" of a token of `auth.issuer`. Callers without authentication are "local".
    /// Not set: all callers.
    #[schemars(example = &["ci", "https://login.example ann"])]
    pub principals: Option<Vec<String>>,
    /// Groups, by patterns: the caller must be in one of them. Not set: no group is needed.
    #[schemars(example = &["developers"])]
    pub groups: Option<Vec<String>>,
    /// Scopes, all of which the caller's token must have.
    #[schemars(example = &["repo:write"])]
    pub scopes: Vec<String>,
    /// The servers that the rule is about, by patterns for their names in `mcp_servers`.
    /// "marquetry" has this server's own tools, prompts and resources. Not set: all servers.
    #[schemars(example = &["git*"])]
    pub upstreams: Option<Vec<String>>,
    /// Tools, by patterns for the names that their server gives them, without a prefix: `*` is any
    /// text, `?` one character. What the rule does not allow, another rule may allow.
    #[schemars(example = serde_json::json!({"allow": ["get_*"], "deny": ["*secret*"]}))]
    pub tools: AccessConfig,
    /// Prompts, as `tools`.
    #[schemars(example = serde_json::json!({"allow": ["review"]}))]
    pub prompts: AccessConfig,
    /// Resources and templates, by patterns for their URIs: `*` is any text without `/`, `**` any
    /// text.
    #[schemars(example = serde_json::json!({"allow": ["repo://acme/**"]}))]
    pub resources: AccessConfig,
    /// Lets callers who lack only the scopes see what the rule allows. When they use it, they are
    /// asked for a token with the scopes (HTTP 403 `insufficient_scope`).
    #[schemars(example = true)]
    pub step_up: bool,
    /// Before which calls a person is asked, as `ask.when`: of the tools that the rule allows, and
    /// without `tools.allow` of all tools of its servers. The strictest rule that matches applies.
    #[schemars(example = &"destructive")]
    pub ask: AskSetting,
}

/// What a rule or a profile allows and denies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AccessConfig {
    /// Patterns for what is allowed. Not set: nothing in a rule, everything in a profile.
    pub allow: Option<Vec<String>>,
    /// Patterns for what is denied, whatever else allows it.
    pub deny: Vec<String>,
}

/// A profile of `[profiles.NAME]`. What it does not mention is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProfileConfig {
    /// Servers, by patterns for their names in `mcp_servers`; "marquetry" has this server's own
    /// tools, prompts and resources.
    #[schemars(example = serde_json::json!({"allow": ["github", "marquetry"]}))]
    pub upstreams: AccessConfig,
    /// Tools, by patterns for the names that their server gives them, without a prefix.
    #[schemars(example = serde_json::json!({"deny": ["delete_*"]}))]
    pub tools: AccessConfig,
    /// Prompts, as `tools`.
    #[schemars(example = serde_json::json!({"allow": []}))]
    pub prompts: AccessConfig,
    /// Resources and templates, by patterns for their URIs: `*` is any text without `/`, `**` any
    /// text.
    #[schemars(example = serde_json::json!({"allow": ["repo://acme/**"]}))]
    pub resources: AccessConfig,
}

/// Why a policy cannot be used, with the setting.
type PolicyFault = (String, PolicyError);

impl Config {
    /// Returns the rules and profiles.
    ///
    /// # Errors
    /// Returns an error if a pattern or a name cannot be used.
    pub fn access_policy(&self) -> Result<Policy, ConfigError> {
        self.read_policy().map_err(|(key, problem)| self.policy_fault(&key, problem.to_string()))
    }

    /// Returns an error about a setting of the policy, with the position of its rule if its own is
    /// not known.
    fn policy_fault(&self, key: &str, problem: String) -> ConfigError {
        let mut known = key;
        while !self.positions.0.contains_key(known)
            && let Some((parent, _)) = known.rsplit_once('.')
        {
            known = parent;
        }
        ConfigError { key: Some(key.to_owned()), ..self.fault(known, problem) }
    }

    fn read_policy(&self) -> Result<Policy, PolicyFault> {
        let rules = self.policy.rules.iter().enumerate();
        let rules = rules.map(|(index, rule)| rule.read(&format!("policy.rules[{index}]")));
        let mut policy = Policy::new(rules.collect::<Result<Vec<_>, _>>()?);
        for (name, profile) in &self.profiles {
            policy = policy.with_profile(name, profile.read(&format!("profiles.{name}"))?);
        }
        policy.check()?;
        Ok(policy)
    }

    /// Returns the servers and tokens that rules may name.
    pub fn policy_inventory(&self) -> Inventory {
        let known = Inventory::of_upstreams(self.mcp_servers.keys());
        if self.auth.issuer.is_some() {
            return known;
        }
        // Without tokens, all callers are "local"; the client of a pipe always is.
        let tokens = self.auth.tokens.iter().flat_map(|tokens| tokens.keys());
        known.with_principals(tokens.map(String::as_str).chain(["local", "console"]))
    }

    /// Returns the names of the servers, each with the beginning that the names of its tools have
    /// for agents.
    pub fn server_prefixes(&self) -> impl Iterator<Item = (&str, String)> {
        let separator = self.gateway.separator.as_str();
        self.mcp_servers.iter().map(move |(name, server)| {
            let prefix = server.prefix.as_ref().map(Prefix::as_str);
            (name.as_str(), Namer::new(name, prefix, separator).head().to_owned())
        })
    }

    /// Returns the callers with a token of the configuration, as rules know them.
    pub fn token_callers(&self) -> impl Iterator<Item = Caller> {
        self.auth.tokens.iter().flatten().map(|(name, token)| {
            let caller = Caller::new(name).with_scopes(token.scopes.iter().cloned());
            caller.with_groups(token.groups.iter().cloned())
        })
    }

    /// Returns a warning for each part of a rule or profile that matches nothing, or is denied
    /// elsewhere.
    pub fn policy_warnings(&self) -> Vec<String> {
        let Ok(policy) = self.read_policy() else { return Vec::new() };
        let warnings = policy.warnings(&self.policy_inventory()).into_iter();
        warnings.map(|it| self.policy_fault(&it.place, it.problem).to_string()).collect()
    }
}

impl RuleConfig {
    fn read(&self, key: &str) -> Result<Rule, PolicyFault> {
        let mut rule = Rule::new()
            .ask(self.ask.0.clone())
            .scopes(self.scopes.iter().cloned())
            .tools(self.tools.read(&format!("{key}.tools"), Patterns::names)?)
            .prompts(self.prompts.read(&format!("{key}.prompts"), Patterns::names)?)
            .resources(self.resources.read(&format!("{key}.resources"), Patterns::uris)?);
        if let Some(principals) = &self.principals {
            rule = rule.principals(names(principals, format!("{key}.principals"))?);
        }
        if let Some(groups) = &self.groups {
            rule = rule.groups(names(groups, format!("{key}.groups"))?);
        }
        if let Some(upstreams) = &self.upstreams {
            rule = rule.upstreams(names(upstreams, format!("{key}.upstreams"))?);
        }
        Ok(if self.step_up { rule.with_step_up() } else { rule })
    }
}

impl ProfileConfig {
    fn read(&self, key: &str) -> Result<Profile, PolicyFault> {
        Ok(Profile::new()
            .upstreams(self.upstreams.read(&format!("{key}.upstreams"), Patterns::names)?)
            .tools(self.tools.read(&format!("{key}.tools"), Patterns::names)?)
            .prompts(self.prompts.read(&format!("{key}.prompts"), Patterns::names)?)
            .resources(self.resources.read(&format!("{key}.resources"), Patterns::uris)?))
    }
}

impl AccessConfig {
    fn read(
        &self,
        key: &str,
        parse: fn(Vec<String>) -> Result<Patterns, PolicyError>,
    ) -> Result<Access, PolicyFault> {
        let deny = parse(self.deny.clone()).map_err(|error| (format!("{key}.deny"), error))?;
        let access = Access::new().deny(deny);
        let Some(allow) = self.allow.clone() else { return Ok(access) };
        Ok(access.allow(parse(allow).map_err(|error| (format!("{key}.allow"), error))?))
    }
}

fn names(patterns: &[String], key: String) -> Result<Patterns, PolicyFault> {
    Patterns::names(patterns.iter().cloned()).map_err(|error| (key, error))
}

#[cfg(test)]
mod tests {
    use marquetry_approvals::ToolHints;
    use marquetry_knowledge::tools::KnowledgeTools;
    use marquetry_policy::Item;

    use super::*;

    fn config(text: &str) -> Config {
        Config::from_toml(text, "t.toml").unwrap()
    }

    #[test]
    fn rules_and_profiles_are_read() {
        let config = config(
            "[[policy.rules]]\nprincipals = ['ci']\nupstreams = ['git*']\n\
             tools = { allow = ['get_*'], deny = ['*secret*'] }\n\
             [profiles.reading]\ntools = { deny = ['get_b'] }\n",
        );
        let policy = config.access_policy().unwrap();
        let explain = |caller: Caller, tool: &str| {
            policy.explain(&caller, &Item::tool("github", tool)).to_string()
        };
        let ci = || Caller::new("ci");
        assert_eq!(explain(ci(), "get_a"), "allowed by policy.rules[0], pattern \"get_*\"");
        assert_eq!(
            explain(ci().in_profile("reading"), "get_b"),
            "denied: it is not in the profile"
        );
        assert!(config.gateway_options(&[]).policy == policy);
    }

    #[test]
    fn faults_name_their_place() {
        for (text, want) in [
            (
                "[[policy.rules]]\ntools = { allow = ['a', '{b}'] }\n",
                "policy.rules[0].tools.allow: \"{b}\" is not a pattern: '{' is not supported; write one pattern for each alternative",
            ),
            (
                "[[policy.rules]]\n[[policy.rules]]\nprincipals = ['']\n",
                "policy.rules[1].principals: \"\" is not a pattern: the pattern is empty; \"*\" matches every name, and \"**\" every URI",
            ),
            (
                "[[policy.rules]]\nstep_up = true\n",
                "policy.rules[0]: \"step_up\" needs \"scopes\": the scopes that a call needs",
            ),
            (
                "[profiles.'a b']\n",
                "profiles: \"a b\" is not a name of a profile: expected up to 64 of a-z, A-Z, 0-9, -, _",
            ),
        ] {
            let config = config(text);
            let error = config.check().unwrap_err().to_string();
            assert!(error.ends_with(want), "{error}");
            let closed = config.gateway_options(&[]).policy;
            assert_eq!(closed, Policy::new([Rule::new()]), "nothing is open");
        }
    }

    #[test]
    fn rules_without_effect_are_warned_about() {
        let config = config(
            "[[policy.rules]]\nprincipals = ['cj']\nupstreams = ['githab']\ntools = { allow = ['*'] }\n\
             [mcp_servers.github]\ncommand = 'x'\n[auth.tokens]\nci = { env = 'T' }\n",
        );
        let warnings = config.policy_warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("t.toml:"), "{warnings:?}");
        assert!(warnings[0].ends_with("\"cj\" matches no token; did you mean \"ci\"?"));
        assert!(warnings[1].ends_with("\"githab\" matches no server; did you mean \"github\"?"));
    }

    #[test]
    fn the_example_of_the_book_does_what_its_text_says() {
        let page = include_str!("../../../docs/guide/policy.md");
        let (_, team) = page.split_once("## A team of three").unwrap();
        let (_, example) = team.split_once("```toml\n").unwrap();
        let (example, text) = example.split_once("```").unwrap();
        let policy = config(example).access_policy().unwrap();
        let ci = policy.grants(&Caller::new("ci"));
        let ann = policy.grants(&Caller::new("https://login.example ann"));
        let knowledge = KnowledgeTools::NAMES.into_iter().filter(|name| {
            let (_, hints) = KnowledgeTools::listing(name).unwrap();
            hints["readOnlyHint"] != true
        });
        let writing: Vec<&str> = knowledge.chain(["delete_artifact"]).collect();
        assert_eq!(writing.len(), 6);
        for tool in writing {
            let item = Item::tool("marquetry", tool);
            assert!(!policy.decide(&ci, &item).is_allowed(), "{tool}");
            assert!(policy.decide(&ann, &item).is_allowed(), "{tool}");
            assert!(text.contains(&format!("`{tool}`")), "the text names {tool}");
        }
        for (server, tool) in [
            ("marquetry", "read_artifact"),
            ("marquetry", "am7_vector_search"),
            ("github", "get_issue"),
        ] {
            assert!(policy.decide(&ci, &Item::tool(server, tool)).is_allowed(), "{tool}");
        }
        assert!(!policy.decide(&ci, &Item::tool("github", "push_files")).is_allowed());
        let bob = Caller::new("https://login.example bob").with_groups(["developers"]);
        for (grants, tool, asks) in [
            (&ann, "delete_repository", true),
            (&policy.grants(&bob), "merge_pull_request", true),
            (&policy.grants(&bob), "push_files", false),
            (&ci, "get_issue", false),
        ] {
            let tool = Item::tool("github", tool);
            let setting = policy.question_before(grants, &tool, &ToolHints::default());
            assert_eq!(setting.is_some(), asks, "{tool:?}: {setting:?}");
        }
    }
}
