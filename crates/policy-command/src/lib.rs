#![doc = include_str!("../README.md")]

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use marquetry_approvals::{AskRules, AskWhen, ToolHints};
use marquetry_config::{Config, ConfigError};
use marquetry_nearest::nearest;
use marquetry_policy::{
    Access, Caller, Grants, Item, ItemKind, OWN_UPSTREAM, Patterns, Policy, Profile, Rule,
};
use marquetry_printable::printable_line;

/// The principal of a person who logs in to the console with the printed link.
const CONSOLE: &str = "console";

/// Arguments of `marquetry policy`.
#[derive(Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Print which rule decides whether a caller may use a tool, and which setting demands a
    /// question to a person first; or all rules of a caller.
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
    own_tools: Option<Vec<String>>,
    ask: AskRules,
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

    /// Sets the tools of this server itself. Other names are refused.
    #[must_use]
    pub fn with_own_tools(self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { own_tools: Some(tools.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets the rules of `[ask]`.
    #[must_use]
    pub fn with_ask(self, ask: AskRules) -> Self {
        Self { ask, ..self }
    }

    fn has_own_tool(&self, name: &str) -> bool {
        self.own_tools.iter().flatten().any(|tool| tool == name)
    }
}

/// What the command prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyReport {
    /// Lines for standard output.
    pub text: String,
    /// Warnings for standard error.
    pub warnings: Vec<String>,
}

/// Runs the command with the settings of the files that the user named, and returns what it prints.
/// `own_tools` returns the tools that this server itself has with these settings.
///
/// # Errors
/// Returns an error if the files cannot be read or used, or there is no such profile, server or
/// tool of this server itself.
pub fn run(
    arguments: &PolicyArgs,
    own_tools: impl FnOnce(&Config) -> Vec<&'static str>,
) -> Result<PolicyReport, String> {
    explain(arguments, |file, servers| {
        configured(file, servers, own_tools).map_err(|it| it.to_string())
    })
}

fn configured(
    file: Option<&Path>,
    servers: &[PathBuf],
    own_tools: impl FnOnce(&Config) -> Vec<&'static str>,
) -> Result<PolicySettings, ConfigError> {
    let mut config = marquetry_config::load(file)?.config;
    for servers in servers {
        config.add_mcp_json_file(servers)?;
    }
    config = config.with_user_folders();
    let servers = config.server_prefixes().map(|(name, head)| KnownServer::new(name, head));
    Ok(PolicySettings::new(config.access_policy()?)
        .with_servers(servers)
        .with_tokens(config.token_callers())
        .with_own_tools(own_tools(&config))
        .with_ask(config.ask.rules()))
}

/// Runs the command, and returns what it prints. `load` returns the settings of the files that the
/// user named.
///
/// # Errors
/// Returns an error if the settings cannot be loaded, or there is no such profile, server or tool
/// of this server itself.
pub fn explain(
    arguments: &PolicyArgs,
    load: impl FnOnce(Option<&Path>, &[PathBuf]) -> Result<PolicySettings, String>,
) -> Result<PolicyReport, String> {
    let PolicyCommand::Explain(arguments) = &arguments.command;
    let settings = load(arguments.config.as_deref(), &arguments.mcp_config)?;
    if let Some(profile) = &arguments.profile
        && !settings.policy.has_profile(profile)
    {
        let known: Vec<&str> = settings.policy.profiles().collect();
        let meant = did_you_mean(profile, &known);
        return Err(format!("there is no profile {profile:?}{meant}; add [profiles.{profile}]"));
    }
    let known = settings.tokens.iter().find(|token| token.principal() == arguments.principal);
    let warning = match known {
        Some(_) => None,
        None => principal_warning(&settings, &arguments.principal),
    };
    let caller = known.cloned().unwrap_or_else(|| Caller::new(&arguments.principal));
    let caller = caller
        .with_scopes(arguments.scope.iter().cloned())
        .with_groups(arguments.group.iter().cloned());
    let caller = match &arguments.profile {
        Some(profile) => caller.in_profile(profile),
        None => caller,
    };
    let mut text = match &arguments.item {
        Some(item) => of_item(&settings, &caller, arguments.kind, item)?,
        None => of_caller(&settings, &caller),
    };
    if let Some(name) = &arguments.profile
        && let Some(profile) = settings.policy.profile(name)
    {
        let line = format!("profiles.{name}  {}", profile_in_words(profile));
        text.push_str(&format!("{}\n", printable_line(&line)));
    }
    Ok(PolicyReport { text, warnings: warning.into_iter().collect() })
}

/// Warns of a name that no token has. An issuer's callers are not known here.
fn principal_warning(settings: &PolicySettings, name: &str) -> Option<String> {
    if name == Caller::LOCAL || name == CONSOLE || name.contains(' ') {
        return None;
    }
    let known: Vec<&str> = settings.tokens.iter().map(Caller::principal).collect();
    let meant = did_you_mean(name, &known);
    let end = if meant.is_empty() { "." } else { "" };
    Some(format!(
        "no token {name:?} in [auth.tokens]{meant}{end} A caller of auth.issuer is \"ISSUER SUBJECT\""
    ))
}

/// Returns a question with the known name that was probably meant, or nothing.
fn did_you_mean(name: &str, known: &[&str]) -> String {
    let meant = nearest(name, known).map(|it| format!("; did you mean {it:?}?"));
    meant.unwrap_or_default()
}

/// Explains the decision about one item.
fn of_item(
    settings: &PolicySettings,
    caller: &Caller,
    kind: Kind,
    text: &str,
) -> Result<String, String> {
    let (server, name) = server_and_name(settings, kind, text)?;
    let item = match kind {
        Kind::Tool => Item::tool(server, name),
        Kind::Prompt => Item::prompt(server, name),
        Kind::Resource => Item::resource(server, name),
    };
    let explanation = settings.policy.explain(caller, &item);
    let mut line = format!("{} {} of {server}: {explanation}", item.kind(), item.name());
    // The tools of this server itself are called without a question.
    if kind == Kind::Tool && server != OWN_UPSTREAM && explanation.decision.is_allowed() {
        let grants = settings.policy.grants(caller);
        line.push_str(&question_in_words(settings, &grants, &item).unwrap_or_default());
    }
    Ok(format!("{}\n", printable_line(&line)))
}

/// Returns the part of a sentence about the question to a person before a call of a tool; `None` if
/// no setting demands one.
fn question_in_words(
    settings: &PolicySettings,
    grants: &Grants,
    tool: &Item<'_>,
) -> Option<String> {
    let harmless =
        ToolHints { read_only: Some(true), destructive: Some(false), open_world: Some(false) };
    if let Some(setting) = asking_setting(settings, grants, tool, &harmless) {
        return Some(format!("; and a person is asked first: {setting}"));
    }
    // Without annotations, MCP assumes the worst of a tool.
    let setting = asking_setting(settings, grants, tool, &ToolHints::default())?;
    let when = setting.rsplit_once(" = ").map_or("this", |(_, when)| when).trim_matches('"');
    Some(format!(
        "; and a person is asked first: {setting}; {when} depends on the tool's annotations"
    ))
}

/// Returns the setting that demands a question before a call of a tool with these hints.
fn asking_setting(
    settings: &PolicySettings,
    grants: &Grants,
    tool: &Item<'_>,
    hints: &ToolHints,
) -> Option<String> {
    settings
        .ask
        .reason(tool.upstream(), tool.name(), hints)
        .or_else(|| settings.policy.question_before(grants, tool, hints))
}

/// Returns the server of an item and its name there: `SERVER/NAME`, or a name with the prefix of a
/// server. Other names are those of this server itself.
fn server_and_name<'a>(
    settings: &'a PolicySettings,
    kind: Kind,
    text: &'a str,
) -> Result<(&'a str, &'a str), String> {
    let in_front = text.split_once('/');
    if let Some((server, name)) = in_front
        && settings.servers.iter().any(|it| it.name == server)
    {
        return Ok((server, name));
    }
    if let Some((OWN_UPSTREAM, name)) = in_front {
        return own_item(settings, kind, name);
    }
    if kind != Kind::Resource && !settings.has_own_tool(text) {
        let heads = settings.servers.iter().filter(|it| !it.head.is_empty());
        let owners = heads.filter(|it| text.starts_with(&it.head));
        if let Some(owner) = owners.max_by_key(|it| it.head.len()) {
            return Ok((&owner.name, &text[owner.head.len()..]));
        }
        if let Some(owner) = settings.servers.iter().find(|it| it.head.is_empty()) {
            return Ok((&owner.name, text));
        }
    }
    match in_front {
        // The scheme of a URI is not a server.
        Some((server, _)) if kind != Kind::Resource || !server.ends_with(':') => {
            Err(unknown_server(settings, server))
        }
        _ => own_item(settings, kind, text),
    }
}

/// Returns an item of this server itself.
fn own_item<'a>(
    settings: &PolicySettings,
    kind: Kind,
    name: &'a str,
) -> Result<(&'a str, &'a str), String> {
    let Some(known) = settings.own_tools.as_ref().filter(|_| kind == Kind::Tool) else {
        return Ok((OWN_UPSTREAM, name));
    };
    if settings.has_own_tool(name) {
        return Ok((OWN_UPSTREAM, name));
    }
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let meant = did_you_mean(name, &known);
    let mut error = format!("{OWN_UPSTREAM} itself has no tool {name:?}{meant}");
    if meant.is_empty() {
        let prefixes: Vec<&str> = settings.servers.iter().map(|it| it.head.as_str()).collect();
        error.push_str(&match prefixes.as_slice() {
            [] => format!("; {NO_SERVERS}"),
            prefixes => format!(
                ", and no server's prefix is in front of it ({}); write SERVER/TOOL",
                prefixes.join(", ")
            ),
        });
    }
    Err(printable_line(&error))
}

const NO_SERVERS: &str = "the configuration has no servers; name their file with --mcp-config FILE";

fn unknown_server(settings: &PolicySettings, name: &str) -> String {
    let mut known: Vec<&str> = settings.servers.iter().map(|it| it.name.as_str()).collect();
    if known.is_empty() {
        return format!("no server {name:?}; {NO_SERVERS}");
    }
    known.push(OWN_UPSTREAM);
    let meant = did_you_mean(name, &known);
    if meant.is_empty() {
        return format!("no server {name:?}; there are {}", printable_line(&known.join(", ")));
    }
    format!("no server {name:?}{meant}")
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
    for setting in settings.ask.settings() {
        let line = format!("{setting}  a person is asked before calls");
        text.push_str(&format!("{}\n", printable_line(&line)));
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
    if rule.ask != AskWhen::Never {
        parts.push(format!("asks {}", rule.ask));
    }
    if needs_scopes {
        let scopes: Vec<&str> = rule.scopes.iter().map(String::as_str).collect();
        parts.push(format!("listed; a call needs the scopes \"{}\"", scopes.join(" ")));
    }
    parts.join("; ")
}

/// Describes what a profile leaves of everything.
fn profile_in_words(profile: &Profile) -> String {
    let kinds: [(&str, &Access); 4] = [
        ("servers", &profile.upstreams),
        ("tools", &profile.tools),
        ("prompts", &profile.prompts),
        ("resources", &profile.resources),
    ];
    let mut parts = Vec::new();
    for (kind, access) in kinds {
        match &access.allow {
            Some(allowed) if allowed.is_empty() => parts.push(format!("allows no {kind}")),
            Some(allowed) => parts.push(format!("allows {kind} {}", list(allowed))),
            None => {}
        }
        if !access.deny.is_empty() {
            parts.push(format!("denies {kind} {}", list(&access.deny)));
        }
    }
    if parts.is_empty() { "allows everything".to_owned() } else { parts.join("; ") }
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
        run_with(settings(), arguments).map(|report| report.text)
    }

    fn run_with(settings: PolicySettings, arguments: &[&str]) -> Result<PolicyReport, String> {
        let all = ["policy", "explain"].iter().chain(arguments);
        explain(&Cli::parse_from(all).policy, |_, _| Ok(settings))
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
                "tool get_b of github: denied: it is not in the profile\nprofiles.few  allows tools get_a\n",
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
            nobody.unwrap().text,
            "no rule is for this caller: it sees nothing\nservers that it sees: none\n"
        );
    }

    #[test]
    fn unknown_servers_and_tools_are_errors() {
        let all = || settings().with_own_tools(["encodePlantUML", "list_artifacts"]);
        for (arguments, want) in [
            (&["githb/delete"][..], "no server \"githb\"; did you mean \"github\"?"),
            (&["--kind", "prompt", "x/y"], "no server \"x\"; there are github, files, marquetry"),
            (
                &["--kind", "resource", "gitub/repo://a"],
                "no server \"gitub\"; did you mean \"github\"?",
            ),
            (
                &["marquetry/list_artifact"],
                "marquetry itself has no tool \"list_artifact\"; did you mean \"list_artifacts\"?",
            ),
            (
                &["write_file"],
                "marquetry itself has no tool \"write_file\", and no server's prefix is in front of it (github__, f__); write SERVER/TOOL",
            ),
        ] {
            let error = run_with(all(), &[&["--as", "rob"], arguments].concat()).unwrap_err();
            assert_eq!(error, want, "{arguments:?}");
        }
        let none = PolicySettings::default().with_own_tools(["list_artifacts"]);
        for tool in ["files/write_file", "files__write_file"] {
            let error = run_with(none.clone(), &["--as", "ci", tool]).unwrap_err();
            assert!(error.ends_with("name their file with --mcp-config FILE"), "{error}");
        }
        for arguments in [&["marquetry/list_artifacts"][..], &["--kind", "resource", "a://b/c"]] {
            let report = run_with(all(), &[&["--as", "rob"], arguments].concat()).unwrap();
            assert!(report.text.contains(" of marquetry: denied"), "{}", report.text);
        }
    }

    #[test]
    fn a_principal_that_is_no_token_is_warned_of() {
        for (name, want) in [
            ("rob", None),
            ("local", None),
            ("console", None),
            ("https://login.example ann", None),
            ("robb", Some("no token \"robb\" in [auth.tokens]; did you mean \"rob\"?")),
            ("somebody", Some("no token \"somebody\" in [auth.tokens]. A caller of")),
        ] {
            let warnings = run_with(settings(), &["--as", name]).unwrap().warnings;
            assert_eq!(warnings.len(), usize::from(want.is_some()), "{warnings:?}");
            assert!(warnings.iter().all(|it| it.starts_with(want.unwrap())), "{warnings:?}");
        }
    }

    #[test]
    fn questions_to_a_person_are_explained() {
        let all = Rule::new().tools(Access::new().allow(names(&["*"])));
        let rules = [all.clone(), all.clone().ask(AskWhen::Destructive)];
        let settings = PolicySettings::new(Policy::new(rules)).with_servers([
            KnownServer::new("files", "files__"),
            KnownServer::new("mail", "mail__"),
        ]);
        let report = run_with(settings.clone(), &["--as", "local", "files/write"]).unwrap();
        assert_eq!(
            report.text,
            "tool write of files: allowed by policy.rules[0], pattern \"*\"; and a person is asked first: policy.rules[1].ask = \"destructive\"; destructive depends on the tool's annotations\n"
        );
        let own = run_with(settings.clone(), &["--as", "local", "x"]).unwrap().text;
        assert!(!own.contains("asked"), "{own}");
        let ask = AskRules::new(AskWhen::OpenWorld).with_server("mail", AskWhen::Always);
        let settings = settings.with_ask(ask);
        let report = run_with(settings.clone(), &["--as", "local", "mail__send"]).unwrap();
        let asked = "; and a person is asked first: ask.servers.mail = \"always\"\n";
        assert!(report.text.ends_with(asked), "{}", report.text);
        assert_eq!(
            run_with(settings, &["--as", "local"]).unwrap().text,
            "policy.rules[0]  allows tools *\n\
             policy.rules[1]  allows tools *; asks \"destructive\"\n\
             ask.when = \"open-world\"  a person is asked before calls\n\
             ask.servers.mail = \"always\"  a person is asked before calls\n\
             servers that it sees: files, mail, marquetry\n"
        );
    }

    #[test]
    fn a_profile_is_described() {
        let profile = Profile::new()
            .upstreams(Access::new().allow(names(&["github"])))
            .tools(Access::new().deny(names(&["*delete*"])))
            .prompts(Access::new().allow(names(&[])));
        let policy = Policy::default().with_profile("p", profile).with_profile("q", Profile::new());
        let settings = PolicySettings::new(policy);
        let text = run_with(settings.clone(), &["--as", "local", "--profile", "p"]).unwrap().text;
        let want =
            "\nprofiles.p  allows servers github; denies tools *delete*; allows no prompts\n";
        assert!(text.ends_with(want), "{text}");
        let text = run_with(settings, &["--as", "local", "--profile", "q"]).unwrap().text;
        assert!(text.ends_with("\nprofiles.q  allows everything\n"), "{text}");
    }
}
