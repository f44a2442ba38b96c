#![doc = include_str!("../README.md")]

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use marquetry_config::ConfigError;
use marquetry_policy::{Caller, Grants, Item, ItemKind, OWN_UPSTREAM, Patterns, Policy, Rule};
use marquetry_printable::printable_line;

/// Arguments of `marquetry policy`.
#[derive(Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Print which rule decides whether a caller may use a tool, or all rules of a caller.
    ///
    /// Decides by the configuration alone, and starts no server.
    #[command(after_help = "\
Examples:
  marquetry policy explain --as ci
  marquetry policy explain --as ci github__get_issue
  marquetry policy explain --as 'https://login.example ann' --scope repo:write github/push
  marquetry policy explain --as ci --kind resource github/repo://acme/readme
  marquetry policy explain --as local --profile reading files/read_file")]
    Explain(ExplainArgs),
}

#[derive(Args)]
struct ExplainArgs {
    /// The caller: the name of a token, "ISSUER SUBJECT", or "local" without authentication.
    #[arg(long = "as", value_name = "NAME")]
    principal: String,
    /// A scope of its token, beside those that the configuration gives a token of this name. May be
    /// given several times.
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// A group of its token. May be given several times.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// The profile that it uses.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Kind of what it wants to use.
    #[arg(long, value_enum, default_value_t = Kind::Tool)]
    kind: Kind,
    /// What it wants to use: a name as agents see it, or SERVER/NAME with the server's own name or
    /// URI. Without it, the rules of the caller are printed.
    #[arg(value_name = "TOOL")]
    item: Option<String>,
    /// File of settings in TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File of MCP servers in the format of a client. May be given several times.
    #[arg(long, value_name = "FILE")]
    mcp_config: Vec<PathBuf>,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tool,
    Prompt,
    Resource,
}

/// What the configuration says.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PolicySettings {
    policy: Policy,
    servers: Vec<KnownServer>,
    tokens: Vec<Caller>,
}

/// A server of the configuration.
#[derive(Clone, Debug)]
pub struct KnownServer {
    name: String,
    head: String,
}

impl KnownServer {
    /// Creates a server with this name, whose tools have names that begin with `head` for agents.
    #[must_use]
    pub fn new(name: impl Into<String>, head: impl Into<String>) -> Self {
        Self { name: name.into(), head: head.into() }
    }
}

impl PolicySettings {
    /// Creates settings with a policy.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    /// Adds servers.
    #[must_use]
    pub fn with_servers(mut self, servers: impl IntoIterator<Item = KnownServer>) -> Self {
        self.servers.extend(servers);
        self
    }

    /// Adds callers with the scopes and groups of their tokens.
    #[must_use]
    pub fn with_tokens(mut self, tokens: impl IntoIterator<Item = Caller>) -> Self {
        self.tokens.extend(tokens);
        self
    }
}

/// Runs the command with the settings of the files that the user named, and returns what it prints.
///
/// # Errors
/// Returns an error if the files cannot be read or used, or there is no such profile.
pub fn run(arguments: &PolicyArgs) -> Result<String, String> {
    explain(arguments, |file, servers| configured(file, servers).map_err(|it| it.to_string()))
}

fn configured(file: Option<&Path>, servers: &[PathBuf]) -> Result<PolicySettings, ConfigError> {
    let mut config = marquetry_config::load(file)?.config;
    for servers in servers {
        config.add_mcp_json_file(servers)?;
    }
    let servers = config.server_prefixes().map(|(name, head)| KnownServer::new(name, head));
    let settings = PolicySettings::new(config.access_policy()?).with_servers(servers);
    Ok(settings.with_tokens(config.token_callers()))
}

/// Runs the command, and returns what it prints. `load` returns the settings of the files that the
/// user named.
///
/// # Errors
/// Returns an error if the settings cannot be loaded, or there is no such profile.
pub fn explain(
    arguments: &PolicyArgs,
    load: impl FnOnce(Option<&Path>, &[PathBuf]) -> Result<PolicySettings, String>,
) -> Result<String, String> {
    let PolicyCommand::Explain(arguments) = &arguments.command;
    let settings = load(arguments.config.as_deref(), &arguments.mcp_config)?;
    if let Some(profile) = &arguments.profile
        && !settings.policy.has_profile(profile)
    {
        return Err(format!("there is no profile {profile:?}; add [profiles.{profile}]"));
    }
    let known = settings.tokens.iter().find(|token| token.principal() == arguments.principal);
    let caller = known.cloned().unwrap_or_else(|| Caller::new(&arguments.principal));
    let caller = caller
        .with_scopes(arguments.scope.iter().cloned())
        .with_groups(arguments.group.iter().cloned());
    let caller = match &arguments.profile {
        Some(profile) => caller.in_profile(profile),
        None => caller,
    };
    Ok(match &arguments.item {
        Some(item) => of_item(&settings, &caller, arguments.kind, item),
        None => of_caller(&settings, &caller),
    })
}

/// Explains the decision about one item.
fn of_item(settings: &PolicySettings, caller: &Caller, kind: Kind, text: &str) -> String {
    let (server, name) = server_and_name(settings, kind, text);
    let item = match kind {
        Kind::Tool => Item::tool(server, name),
        Kind::Prompt => Item::prompt(server, name),
        Kind::Resource => Item::resource(server, name),
    };
    let explanation = settings.policy.explain(caller, &item);
    let line = format!("{} {} of {server}: {explanation}", item.kind(), item.name());
    format!("{}\n", printable_line(&line))
}

/// Returns the server of an item and its name there: `SERVER/NAME`, or a name with the prefix of a
/// server. Other names are those of this server itself.
fn server_and_name<'a>(
    settings: &'a PolicySettings,
    kind: Kind,
    text: &'a str,
) -> (&'a str, &'a str) {
    if let Some((server, name)) = text.split_once('/')
        && (server == OWN_UPSTREAM || settings.servers.iter().any(|it| it.name == server))
    {
        return (server, name);
    }
    if kind != Kind::Resource {
        let heads = settings.servers.iter().filter(|it| !it.head.is_empty());
        let owners = heads.filter(|it| text.starts_with(&it.head));
        if let Some(owner) = owners.max_by_key(|it| it.head.len()) {
            return (&owner.name, &text[owner.head.len()..]);
        }
        if let Some(owner) = settings.servers.iter().find(|it| it.head.is_empty()) {
            return (&owner.name, text);
        }
    }
    (OWN_UPSTREAM, text)
}

/// Describes the rules of a caller, and the servers that it sees.
fn of_caller(settings: &PolicySettings, caller: &Caller) -> String {
    let policy = &settings.policy;
    let grants = policy.grants(caller);
    let mut text = String::new();
    if policy.rules().is_empty() {
        text.push_str("there are no rules: every caller may use everything\n");
    } else if grants.rules().is_empty() && grants.step_up_rules().is_empty() {
        text.push_str("no rule is for this caller: it sees nothing\n");
    }
    for (numbers, needs) in [(grants.rules(), false), (grants.step_up_rules(), true)] {
        for &number in numbers {
            let line =
                format!("policy.rules[{number}]  {}", described(&policy.rules()[number], needs));
            text.push_str(&format!("{}\n", printable_line(&line)));
        }
    }
    let seen = seen_servers(settings, &grants);
    let seen = if seen.is_empty() { "none".to_owned() } else { seen.join(", ") };
    text.push_str(&format!("servers that it sees: {}\n", printable_line(&seen)));
    text
}

fn seen_servers<'a>(settings: &'a PolicySettings, grants: &Grants) -> Vec<&'a str> {
    let names = settings.servers.iter().map(|server| server.name.as_str());
    names
        .chain([OWN_UPSTREAM])
        .filter(|name| settings.policy.shows_upstream(grants, name))
        .collect()
}

/// Describes what a rule allows and denies.
fn described(rule: &Rule, needs_scopes: bool) -> String {
    let mut parts = Vec::new();
    if let Some(upstreams) = &rule.upstreams.allow {
        parts.push(format!("servers {}", list(upstreams)));
    }
    for kind in [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource] {
        let access = rule.access(kind);
        if let Some(allowed) = access.allow.as_ref().filter(|allowed| !allowed.is_empty()) {
            parts.push(format!("allows {} {}", kind.setting(), list(allowed)));
        }
        if !access.deny.is_empty() {
            parts.push(format!("denies {} {}", kind.setting(), list(&access.deny)));
        }
    }
    if needs_scopes {
        let scopes: Vec<&str> = rule.scopes.iter().map(String::as_str).collect();
        parts.push(format!("listed; a call needs the scopes \"{}\"", scopes.join(" ")));
    }
    parts.join("; ")
}

fn list(patterns: &Patterns) -> String {
    patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use marquetry_policy::{Access, Profile};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        policy: PolicyArgs,
    }

    fn names(patterns: &[&str]) -> Patterns {
        Patterns::names(patterns.iter().copied()).unwrap()
    }

    fn settings() -> PolicySettings {
        let read = Rule::new()
            .principals(names(&["ci"]))
            .upstreams(names(&["git*"]))
            .tools(Access::new().allow(names(&["get_*"])).deny(names(&["*secret*"])));
        let write = Rule::new()
            .scopes(["repo:write"])
            .with_step_up()
            .upstreams(names(&["github"]))
            .tools(Access::new().allow(names(&["*"])));
        let profile = Profile::new().tools(Access::new().allow(names(&["get_a"])));
        PolicySettings::new(Policy::new([read, write]).with_profile("few", profile))
            .with_servers([
                KnownServer::new("github", "github__"),
                KnownServer::new("files", "f__"),
            ])
            .with_tokens([Caller::new("rob").with_scopes(["repo:write"])])
    }

    fn run(arguments: &[&str]) -> Result<String, String> {
        let all = ["policy", "explain"].iter().chain(arguments);
        explain(&Cli::parse_from(all).policy, |_, _| Ok(settings()))
    }

    #[test]
    fn decisions_about_items_are_explained() {
        for (arguments, want) in [
            (
                &["--as", "ci", "github__get_a"][..],
                "tool get_a of github: allowed by policy.rules[0], pattern \"get_*\"\n",
            ),
            (
                &["--as", "ci", "github/get_secret"],
                "tool get_secret of github: denied by policy.rules[0], pattern \"*secret*\"\n",
            ),
            (
                &["--as", "ci", "--profile", "few", "github/get_b"],
                "tool get_b of github: denied: it is not in the profile\n",
            ),
            (
                &["--as", "rob", "github__push"],
                "tool push of github: allowed by policy.rules[1], pattern \"*\"\n",
            ),
            (
                &["--as", "ann", "--scope", "x", "github__push"],
                "tool push of github: listed by policy.rules[1]; a call needs the scopes \"repo:write\", pattern \"*\"\n",
            ),
            (
                &["--as", "ann", "encodePlantUML"],
                "tool encodePlantUML of marquetry: denied: no rule of this caller allows it\n",
            ),
            (
                &["--as", "ci", "--kind", "resource", "github/REPO://Acme/a\u{1b}[31m"],
                "resource repo://acme/a\\u{1b}[31m of github: denied: no rule of this caller allows it\n",
            ),
        ] {
            assert_eq!(run(arguments).as_deref(), Ok(want), "{arguments:?}");
        }
        assert_eq!(
            run(&["--as", "ci", "--profile", "x"]).unwrap_err(),
            "there is no profile \"x\"; add [profiles.x]"
        );
    }

    #[test]
    fn the_rules_of_a_caller_are_listed() {
        assert_eq!(
            run(&["--as", "ci"]).unwrap(),
            "policy.rules[0]  servers git*; allows tools get_*; denies tools *secret*\n\
             policy.rules[1]  servers github; allows tools *; listed; a call needs the scopes \"repo:write\"\n\
             servers that it sees: github\n"
        );
        let nobody =
            explain(&Cli::parse_from(["policy", "explain", "--as", "ann"]).policy, |_, _| {
                let rule = Rule::new().principals(names(&["ci"]));
                Ok(PolicySettings::new(Policy::new([rule])))
            });
        assert_eq!(
            nobody.unwrap(),
            "no rule is for this caller: it sees nothing\nservers that it sees: none\n"
        );
    }
}
