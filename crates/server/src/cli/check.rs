//! `marquetry check`

#[cfg(feature = "knowledge")]
mod knowledge;

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use marquetry_gateway::Namer;
use marquetry_protocol::client::check_program;
use serde_json::{Value, json};

use super::{ConfigArgs, Failure, ServeArgs, print, serve::base_url};
use crate::{
    config::{AuthConfig, Config, Loaded, Prefix, Transport, UpstreamConfig},
    logging,
};

pub(super) fn check(arguments: &ServeArgs) -> Result<(), Failure> {
    let Loaded { config, file, mut warnings } = arguments.load()?;
    warnings.extend(knowledge::warning(&config));
    let mut problems = missing_programs(&config);
    problems.extend(self::problems(&config, &arguments.config, file.as_deref()));
    warnings.iter().chain(&problems).for_each(|warning| logging::warn(warning));
    if logging::is_json() {
        print(&format!("{}\n", as_json(&config, file.as_deref(), &warnings, &problems)))?;
    } else {
        let file = file.map_or("the defaults; no file was found".to_owned(), |file| {
            file.display().to_string()
        });
        print(&format!("settings   {file}\n{}", summary(&config)))?;
    }
    let unusable = config.mcp_servers.values().filter(|upstream| {
        !upstream.disabled && matches!(upstream.transport, Transport::Unusable { .. })
    });
    match problems.len() + unusable.count() {
        0 => Ok(()),
        1 => Err(Failure::new("1 problem was found; everything else would work")),
        many => {
            Err(Failure::new(format!("{many} problems were found; everything else would work")))
        }
    }
}

/// Returns the warnings for the log of a server, one sentence each: settings that are valid, but do not do what they seem to. Missing programs
/// are left out, because the server reports them when it starts them.
pub(super) fn warnings(
    config: &Config,
    arguments: &ConfigArgs,
    file: Option<&Path>,
) -> Vec<String> {
    let chat = knowledge::warning(config).into_iter();
    chat.chain(problems(config, arguments, file)).collect()
}

/// Returns the programs that cannot be started here, one sentence each.
fn missing_programs(config: &Config) -> Vec<String> {
    let servers = config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled);
    let missing = servers.filter_map(|(name, upstream)| {
        let Transport::Stdio { command, env, cwd, .. } = &upstream.transport else { return None };
        let path = env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
        let error = check_program(command, path, cwd.as_deref()).err()?;
        Some(format!("server {name:?}: {error}"))
    });
    missing.collect()
}

/// Returns what would not work if the server were started here, apart from missing programs, one sentence each. Starts nothing and writes
/// nothing.
fn problems(config: &Config, arguments: &ConfigArgs, file: Option<&Path>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut prefixes: IndexMap<String, &str> = IndexMap::new();
    for (name, upstream) in config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled) {
        if let Transport::Stdio { args, .. } = &upstream.transport
            && let Some(index) = args.iter().position(|arg| arg.starts_with("~/"))
        {
            let number = index + 1;
            problems.push(format!(
                "server {name:?}: argument {number} begins with ~, which no shell expands here: write ${{userHome}} instead"
            ));
        }
        let head = {
            let prefix = upstream.prefix.as_ref().map(Prefix::as_str);
            Namer::new(name, prefix, config.gateway.separator.as_str()).head().to_owned()
        };
        if head.is_empty() {
            continue;
        }
        match prefixes.get(&head) {
            Some(first) => problems.push(format!(
                "server {name:?}: its tools have the prefix {head:?} of server {first:?}, which keeps names that both have; set \"prefix\""
            )),
            None => _ = prefixes.insert(head, name),
        }
    }
    problems.extend(knowledge::problem(config));
    problems.extend(loops(config, || sources(arguments, file)));
    problems
}

/// A file that names servers.
struct Source {
    path: PathBuf,
    /// Names of its servers that run a program.
    servers: Vec<String>,
}

/// Returns the files that the configuration comes from, each with the servers that it names itself.
fn sources(arguments: &ConfigArgs, settings: Option<&Path>) -> Vec<Source> {
    let names = |config: Config| config.mcp_servers.into_keys().collect();
    let settings = settings.and_then(|path| {
        let servers = names(Config::from_toml_file(path).ok()?);
        Some(Source { path: path.canonicalize().ok()?, servers })
    });
    let others = arguments.mcp_config.iter().filter_map(|path| {
        let mut config = Config::default();
        config.add_mcp_json_file(path).ok()?;
        Some(Source { path: path.canonicalize().ok()?, servers: names(config) })
    });
    settings.into_iter().chain(others).collect()
}

/// Returns the servers that would start Marquetry with the file that names them, which starts them again, and so on.
fn loops(config: &Config, sources: impl FnOnce() -> Vec<Source>) -> Vec<String> {
    let servers = config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled);
    let ours = servers.filter_map(|(name, upstream)| {
        let Transport::Stdio { command, args, cwd, .. } = &upstream.transport else { return None };
        let is_ours = Path::new(command).file_stem().is_some_and(|stem| stem == "marquetry")
            || std::env::current_exe().is_ok_and(|program| program == Path::new(command));
        if !is_ours {
            return None;
        }
        let cwd = cwd.as_deref().unwrap_or_else(|| "".as_ref());
        let read = files_of(args).filter_map(|file| cwd.join(file).canonicalize().ok());
        let read: Vec<PathBuf> = read.collect();
        (!read.is_empty()).then_some((name, read))
    });
    let ours: Vec<_> = ours.collect();
    if ours.is_empty() {
        // The files need not be read again.
        return Vec::new();
    }
    let sources = sources();
    let looping = ours.iter().filter_map(|(name, read)| {
        let source = sources.iter().find(|source| {
            source.servers.contains(*name) && read.contains(&source.path)
        })?;
        Some(format!(
            "server {name:?} starts Marquetry with {}, the file that names it: it would start itself again and again; remove the server",
            source.path.display()
        ))
    });
    looping.collect()
}

/// Returns the files that arguments of Marquetry name with `--config` and `--mcp-config`.
fn files_of(args: &[String]) -> impl Iterator<Item = &str> {
    const OPTIONS: [&str; 2] = ["--config", "--mcp-config"];
    let separate = args.windows(2).filter(|pair| OPTIONS.contains(&pair[0].as_str()));
    let joined = args.iter().filter_map(|arg| {
        let (option, file) = arg.split_once('=')?;
        OPTIONS.contains(&option).then_some(file)
    });
    separate.map(|pair| pair[1].as_str()).chain(joined)
}

/// Returns the checked configuration as JSON, without secrets as in [`summary`].
fn as_json(
    config: &Config,
    settings: Option<&Path>,
    warnings: &[String],
    problems: &[String],
) -> Value {
    let artifacts = config.artifacts.settings();
    let servers = config.mcp_servers.iter().map(|(name, upstream)| {
        let mut server = match &upstream.transport {
            Transport::Stdio { command, args, env, .. } => json!({
                "command": command, "arguments": args.len(), "environmentVariables": env.len(),
            }),
            Transport::Http { url, headers, .. } => {
                json!({"url": without_secrets(url), "headers": headers.len()})
            }
            Transport::Unusable { problem, .. } => json!({"problem": problem}),
            Transport::NotGiven => json!({}),
        };
        server["name"] = json!(name);
        server["transport"] = json!(upstream.transport.kind());
        server["disabled"] = json!(upstream.disabled);
        server
    });
    json!({
        "settings": settings.map(|path| path.display().to_string()),
        "listen": format!("{}/mcp", base_url(config.server.listen)),
        "auth": {
            "issuer": config.auth.issuer.as_deref().map(without_secrets),
            "tokens": config.auth.token_count(),
            "requiredScopes": config.auth.required_scopes,
        },
        "artifacts": {
            "store": config.artifacts.store.as_str(),
            "directory": config.artifacts.directory,
            "saveThresholdBytes": artifacts.mcp_tool_response_save_threshold_bytes,
            "maxShownBytes": artifacts.mcp_tool_llm_return_max_bytes,
        },
        "knowledge": knowledge::as_json(config),
        "servers": servers.collect::<Vec<_>>(),
        "warnings": warnings,
        "problems": problems,
    })
}

/// Describes what would be started. Arguments, variables and headers may be secret, so they are counted, not shown.
fn summary(config: &Config) -> String {
    let artifacts = &config.artifacts;
    let settings = artifacts.settings();
    let place = artifacts.directory.as_ref().map(|path| format!(" in {}", path.display()));
    let mut text = format!(
        "listen     {}/mcp{}\nauth       {}\nartifacts  {}{}; saved above {} bytes, shown up to {} bytes\n{}servers    {}\n",
        base_url(config.server.listen),
        if config.server.listen.ip().is_unspecified() {
            ", and every other address of this machine"
        } else {
            ""
        },
        auth(&config.auth),
        artifacts.store.as_str(),
        place.unwrap_or_default(),
        settings.mcp_tool_response_save_threshold_bytes,
        settings.mcp_tool_llm_return_max_bytes,
        knowledge::summary(config),
        config.mcp_servers.len(),
    );
    let width = config.mcp_servers.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, upstream) in &config.mcp_servers {
        text.push_str(&format!("  {name:width$}  {}\n", line(upstream)));
    }
    text
}

/// Describes the callers that are allowed.
fn auth(auth: &AuthConfig) -> String {
    let mut who = Vec::new();
    if let Some(issuer) = &auth.issuer {
        who.push(format!("tokens of {}", without_secrets(issuer)));
    }
    match auth.token_count() {
        0 => {}
        1 => who.push("1 fixed token".to_owned()),
        many => who.push(format!("{many} fixed tokens")),
    }
    if who.is_empty() {
        return "none; every caller that can connect is accepted".to_owned();
    }
    match auth.required_scopes.as_slice() {
        [] => who.join(", "),
        scopes => format!("{}; every request needs {}", who.join(", "), scopes.join(" ")),
    }
}

/// Returns a number of things, in words.
fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn line(upstream: &UpstreamConfig) -> String {
    let what = match &upstream.transport {
        Transport::Stdio { command, args, env, .. } => {
            format!(
                "stdio  {command}, {}, {}",
                count(args.len(), "argument"),
                count(env.len(), "environment variable")
            )
        }
        Transport::Http { url, headers, .. } => {
            let kind = upstream.transport.kind();
            format!("{kind:5}  {}, {}", without_secrets(url), count(headers.len(), "header"))
        }
        Transport::Unusable { kind, problem } => format!("{kind:5}  not started: {problem}"),
        Transport::NotGiven => "not reached".to_owned(),
    };
    if upstream.disabled { format!("{what} (disabled)") } else { what }
}

/// Returns a URL's scheme, host, port and path; users, passwords and queries may be secret.
fn without_secrets(url: &str) -> String {
    let Ok(uri) = url.parse::<http::Uri>() else { return "a URL that is not valid".to_owned() };
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    format!("{}://{place}{}", uri.scheme_str().unwrap_or_default(), uri.path())
}

#[cfg(not(feature = "knowledge"))]
mod knowledge {
    use crate::config::Config;

    pub(super) fn warning(_: &Config) -> Option<String> {
        None
    }

    pub(super) fn problem(_: &Config) -> Option<String> {
        None
    }

    pub(super) fn summary(_: &Config) -> String {
        "knowledge  not built in\n".to_owned()
    }

    pub(super) fn as_json(_: &Config) -> serde_json::Value {
        serde_json::Value::Null
    }
}

#[cfg(all(test, feature = "knowledge"))]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_counted_and_not_shown() {
        let text = "[mcp_servers.fs]\ncommand = 'npx'\nargs = ['--token=hush']\nenv = { K = 'hush' }\n\
                    [mcp_servers.remote]\nurl = 'http://me:hush@h:1/mcp?key=hush#hush'\ndisabled = true\n";
        let mut config = Config::from_toml(text, "t").unwrap();
        assert!(
            summary(&config)
                .contains("\nauth       none; every caller that can connect is accepted\n")
        );
        let auth = "issuer = 'https://login.example'\nrequired_scopes = ['tools']\ntokens = { hush = { env = 'T' } }";
        config.auth = toml::from_str(auth).unwrap();
        let knowledge = "database = 'postgres://me:hush@h:2/k?password=hush'\n[embedding]\nprovider = 'ollama'\nmodel = 'm'\n\
            base_url = 'http://me:hush@h:3'\n[chat]\nprovider = 'openai'\nmodel = 'c'";
        config.knowledge = toml::from_str(knowledge).unwrap();
        let summary = summary(&config);
        assert!(!summary.contains("hush"), "{summary}");
        let auth = "auth       tokens of https://login.example/, 1 fixed token; every request needs tools\n";
        assert!(summary.contains(auth), "{summary}");
        let knowledge = "\nknowledge  postgres://h:2/k\n  vectors  m of ollama at http://h:3/\n  chat     c of openai\n";
        assert!(summary.contains(knowledge), "{summary}");
        assert!(
            summary.contains("  fs      stdio  npx, 1 argument, 1 environment variable\n"),
            "{summary}"
        );
        assert!(
            summary.contains("  remote  http   http://h:1/mcp, 0 headers (disabled)\n"),
            "{summary}"
        );
    }

    #[test]
    fn problems_name_the_server_and_the_mend() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("notes.txt");
        std::fs::write(&text, "not a database at all").unwrap();
        let toml = "[mcp_servers.gone]\ncommand = 'no-such-program'\n[mcp_servers.line]\ncommand = 'npx -y x'\n\
                    [mcp_servers.home]\ncommand = 'sh'\nargs = ['~/x.py']\n\
                    [mcp_servers.off]\ncommand = 'no-such-program'\ndisabled = true\n\
                    [mcp_servers.'a b']\nurl = 'http://h/'\n[mcp_servers.'a_b']\nurl = 'http://h/'\n\
                    [mcp_servers.sh]\ncommand = 'sh'\n";
        let mut config = Config::from_toml(toml, "t").unwrap();
        config.knowledge.database = Some(text.display().to_string());
        let arguments =
            ConfigArgs { config: None, mcp_config: Vec::new(), log: None, log_format: None };
        let mut found = missing_programs(&config);
        found.extend(problems(&config, &arguments, None));
        let found = found.join("\n").replace(&text.display().to_string(), "FILE");
        expect_test::expect![[r#"
            server "gone": program "no-such-program" not found in PATH
            server "line": program "npx -y x" not found in PATH; "command" is the program alone, its arguments belong in "args"
            server "home": argument 1 begins with ~, which no shell expands here: write ${userHome} instead
            server "a_b": its tools have the prefix "a_b__" of server "a b", which keeps names that both have; set "prefix"
            knowledge.database: FILE is not a database"#]]
        .assert_eq(&found);
    }

    #[test]
    fn a_server_that_starts_itself_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own.json"), folder.path().join("other.json"));
        std::fs::write(&other, r#"{"mcpServers": {}}"#).unwrap();
        let server = |args: &[&str]| json!({"command": "marquetry", "args": args});
        let (own_path, other_path) = (own.to_str().unwrap(), other.to_str().unwrap());
        let joined = format!("--mcp-config={own_path}");
        let servers = json!({
            "itself": server(&["stdio", "--mcp-config", own_path]),
            "joined": server(&["stdio", &joined]),
            "another": server(&["stdio", "--mcp-config", other_path]),
            "defaults": server(&["stdio"]),
        });
        std::fs::write(&own, json!({"mcpServers": servers}).to_string()).unwrap();
        let mut config = Config::default();
        config.add_mcp_json_file(&own).unwrap();
        let arguments = ConfigArgs {
            config: None,
            mcp_config: vec![own.clone(), other.clone()],
            log: None,
            log_format: None,
        };
        let found = loops(&config, || sources(&arguments, None)).join("\n");
        let own_path = own.canonicalize().unwrap().display().to_string();
        expect_test::expect![[r#"
            server "itself" starts Marquetry with FILE, the file that names it: it would start itself again and again; remove the server
            server "joined" starts Marquetry with FILE, the file that names it: it would start itself again and again; remove the server"#]]
        .assert_eq(&found.replace(&own_path, "FILE"));
    }

    #[test]
    fn json_has_members_and_no_secrets() {
        let text = "[mcp_servers.fs]\ncommand = 'npx'\nargs = ['--token=hush']\n[knowledge]\ndatabase = 'k.db'\n";
        let config = Config::from_toml(text, "t").unwrap();
        let json = as_json(&config, Some("m.toml".as_ref()), &[], &["p".to_owned()]);
        assert_eq!(json["settings"], "m.toml");
        assert_eq!(json["servers"][0]["arguments"], 1);
        assert_eq!(json["knowledge"]["database"], "k.db");
        assert_eq!(json["problems"], json!(["p"]));
        assert!(!json.to_string().contains("hush"), "{json}");
    }

    #[test]
    fn servers_are_called_by_what_they_speak() {
        let toml = "[mcp_servers.old]\nurl = 'http://h/sse'\ntype = 'sse'\n[mcp_servers.new]\nurl = 'http://h/mcp'\n\
                    [mcp_servers.unset]\ncommand = '${MARQUETRY_NOT_SET}'\n";
        let summary = summary(&Config::from_toml(toml, "t").unwrap());
        let servers = summary.split_once("servers ").unwrap().1.trim_start();
        expect_test::expect![[r#"
            3
              old    sse    http://h/sse, 0 headers
              new    http   http://h/mcp, 0 headers
              unset  stdio  not started: t:7:11: mcp_servers.unset.command: the environment variable MARQUETRY_NOT_SET is not set; set it, or give a default with ${MARQUETRY_NOT_SET:-…}
        "#]]
        .assert_eq(servers);
    }

    #[test]
    fn the_summary_opens_and_creates_no_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/k.db");
        let mut config = Config::default();
        config.knowledge.database = Some(path.display().to_string());
        let place = format!("knowledge  {}", path.display());
        let said = summary(&config);
        assert!(said.contains(&format!("{place}, not there yet\n")), "{said}");
        assert!(
            said.contains("\n  vectors  by the model in this program\n  chat     none\n"),
            "{said}"
        );
        assert!(!path.parent().unwrap().exists());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(summary(&config).contains(&format!("{place}\n")));
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        config.knowledge.enabled = false;
        assert!(summary(&config).contains("\nknowledge  none\n"));
    }
}
