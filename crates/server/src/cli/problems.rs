//! Problems of a configuration that show only when the server starts, for `marquetry check` and
//! for the log of a server.

mod knowledge;

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use http::Uri;
use indexmap::IndexMap;
use marquetry_artifacts::DirectoryStore;
use marquetry_gateway::Namer;
use marquetry_protocol::client::check_program;
use tokio::runtime::Builder;

pub(super) use self::knowledge::warning as chat_warning;
use marquetry_config::{
    Config, Transport,
    sections::{Prefix, StoreKind},
};

use super::ConfigArgs;
use crate::app::{open_tls, try_bucket};

/// Returns the warnings for the log of a server, one sentence each: settings that are valid, but do
/// not do what they seem to. Missing programs are left out, because the server reports them when it
/// starts them.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let chat = knowledge::warning(config).into_iter();
    chat.chain(problems(config)).collect()
}

/// Returns the programs that cannot be started here, one sentence each.
pub(super) fn missing_programs(config: &Config) -> Vec<String> {
    let servers = config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled);
    servers
        .filter_map(|(name, upstream)| {
            let Transport::Stdio { command, env, cwd, .. } = &upstream.transport else {
                return None;
            };
            let path = env.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
            let error = check_program(command, path, cwd.as_deref()).err()?;
            Some(format!("server {name:?}: {error}"))
        })
        .collect()
}

/// Tries the stores of artifacts, records and savings. Returns their problems, one sentence each.
/// Changes nothing.
pub(super) fn store_problems(config: &Config) -> Vec<String> {
    let runtime = match Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return vec![error.to_string()],
    };
    let artifacts = &config.artifacts;
    let mut problems = Vec::new();
    problems.extend(runtime.block_on(try_bucket(config)).err().map(|error| error.to_string()));
    if artifacts.store == StoreKind::Directory
        && let Some(path) = &artifacts.directory
        && let Err(error) = DirectoryStore::check(path)
    {
        problems.push(format!("artifacts.directory: {} cannot be used: {error}", path.display()));
    }
    // A file that is not a database is a problem of its own.
    if config.has_knowledge()
        && knowledge::problem(config).is_none()
        && let Err(error) = runtime
            .block_on(marquetry_knowledge::Knowledge::try_database(&config.knowledge_options()))
    {
        problems.push(error.to_string());
    }
    if let Some(path) = &artifacts.savings_database
        && let Err(error) = runtime.block_on(marquetry_savings::read(path, 1))
    {
        problems.push(format!("artifacts.savings_database: {error}"));
    }
    problems
}

/// Returns the problems that the server would have if it were started here, one sentence each.
/// Leaves out missing programs. Starts nothing and writes nothing.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let java = config.plantuml.missing_java(std::env::var_os("PATH"));
    let mut problems: Vec<String> =
        java.map(|problem| format!("plantuml.engine: {problem}")).into_iter().collect();
    if let Some(Err(error)) = config.server.tls.as_ref().map(open_tls) {
        problems.push(format!("server.tls: {error}"));
    }
    let mut prefixes: IndexMap<String, &str> = IndexMap::new();
    for (name, upstream) in config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled) {
        if let Transport::Stdio { args, .. } = &upstream.transport
            && let Some(index) = args.iter().position(|arg| arg.starts_with("~/"))
        {
            let number = index + 1;
            problems.push(format!(
                "server {name:?}: argument {number} begins with ~, which is not expanded here: write ${{userHome}} instead"
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
                "server {name:?}: its tools have the same prefix {head:?} as those of server {first:?}, whose tools win if names are equal; set another \"prefix\""
            )),
            None => _ = prefixes.insert(head, name),
        }
    }
    problems.extend(knowledge::problem(config));
    problems
}

/// Returns why the server cannot use its ports, in one sentence. `stdio` has no ports.
pub(super) fn port_problem(config: &Config) -> Option<String> {
    let problem = config.console.check_views_port(config.server.listen.port()).err()?;
    Some(format!("console.views_port: {problem}"))
}

/// Marks the servers that are this server itself as unusable: they would start or call themselves
/// again and again. Returns a warning for each. `listens` is whether this server has an address.
pub(super) fn leave_out_itself(
    config: &mut Config,
    arguments: &ConfigArgs,
    file: Option<&Path>,
    listens: bool,
) -> Vec<String> {
    let mut own = self_starting_servers(config, || sources(arguments, file));
    let listen = config.server.listen;
    let servers = config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled);
    own.extend(servers.filter(|_| listens).filter_map(|(name, upstream)| {
        let is_own = upstream.transport.url().is_some_and(|url| is_address_of(listen, url));
        let why = "this server itself listens on that address; remove the server";
        is_own.then(|| (name.clone(), why.to_owned()))
    }));
    own.into_iter()
        .filter_map(|(name, why)| {
            let upstream = config.mcp_servers.get_mut(&name)?;
            let warning = format!("server {name:?} is not started: {why}");
            upstream.transport = upstream.transport.unusable(why);
            Some(warning)
        })
        .collect()
}

/// Returns whether a URL leads to the address on which this server listens.
fn is_address_of(listen: SocketAddr, url: &str) -> bool {
    let Ok(url) = url.parse::<Uri>() else { return false };
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let default = if url.scheme_str() == Some("https") { 443 } else { 80 };
    // A server on all addresses is reached over loopback, too.
    let is_host = host.parse::<IpAddr>().is_ok_and(|host| {
        host == listen.ip() || (listen.ip().is_unspecified() && host.is_loopback())
    });
    is_host && listen.port() != 0 && url.port_u16().unwrap_or(default) == listen.port()
}

/// A file that names servers.
struct Source {
    path: PathBuf,
    /// Names of its servers that run a program.
    servers: Vec<String>,
}

/// Returns the files that the configuration comes from, each with the servers that it names itself.
fn sources(arguments: &ConfigArgs, settings: Option<&Path>) -> Vec<Source> {
    let settings = settings.and_then(|path| Source::new(path, Config::from_toml_file(path).ok()?));
    let user_servers = arguments.user_servers();
    let others = arguments.mcp_config.iter().chain(&user_servers).filter_map(|path| {
        let mut config = Config::default();
        config.add_mcp_json_file(path).ok()?;
        Source::new(path, config)
    });
    settings.into_iter().chain(others).collect()
}

impl Source {
    fn new(path: &Path, config: Config) -> Option<Self> {
        let servers = config.mcp_servers.into_keys().collect();
        Some(Self { path: path.canonicalize().ok()?, servers })
    }
}

/// Returns the servers that would start Marquetry with the file that names them, which would start
/// them again, and so on: their names, and why they are not started.
fn self_starting_servers(
    config: &Config,
    sources: impl FnOnce() -> Vec<Source>,
) -> Vec<(String, String)> {
    let servers = config.mcp_servers.iter().filter(|(_, upstream)| !upstream.disabled);
    let own = servers.filter_map(|(name, upstream)| {
        let Transport::Stdio { command, args, cwd, .. } = &upstream.transport else { return None };
        let is_ours = Path::new(command).file_stem().is_some_and(|stem| stem == "marquetry")
            || std::env::current_exe().is_ok_and(|program| program == Path::new(command));
        if !is_ours {
            return None;
        }
        let folder = cwd.as_deref().unwrap_or_else(|| "".as_ref());
        let mut read: Vec<PathBuf> = files_of(args).map(|file| folder.join(file)).collect();
        if read.is_empty() && args.iter().any(|arg| ["stdio", "serve"].contains(&&**arg)) {
            read.extend(marquetry_config::user_servers());
        }
        let read: Vec<PathBuf> =
            read.into_iter().filter_map(|file| file.canonicalize().ok()).collect();
        (!read.is_empty()).then_some((name, read))
    });
    let own: Vec<(&String, Vec<PathBuf>)> = own.collect();
    if own.is_empty() {
        // The files need not be read again.
        return Vec::new();
    }
    let sources = sources();
    own.iter()
        .filter_map(|(name, read)| {
            let source = sources.iter().find(|source| {
                source.servers.contains(*name) && read.contains(&source.path)
            })?;
            let why = format!(
                "it runs Marquetry with {}, the file that names it, and would start itself again and again; remove the server",
                source.path.display()
            );
            Some(((*name).clone(), why))
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_unusable(config: &Config, server: &str) -> bool {
        matches!(config.mcp_servers[server].transport, Transport::Unusable { .. })
    }

    fn marquetry(args: &[&str]) -> serde_json::Value {
        json!({"command": "marquetry", "args": args})
    }

    #[test]
    fn problems_name_the_server_and_the_remedy() {
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
        let mut found = missing_programs(&config);
        found.extend(problems(&config));
        let found = found.join("\n").replace(&text.display().to_string(), "FILE");
        expect_test::expect![[r#"
            server "gone": program "no-such-program" not found in PATH
            server "line": program "npx -y x" not found in PATH; "command" is the program alone, its arguments belong in "args"
            server "home": argument 1 begins with ~, which is not expanded here: write ${userHome} instead
            server "a_b": its tools have the same prefix "a_b__" as those of server "a b", whose tools win if names are equal; set another "prefix"
            knowledge.database: FILE is not a database"#]]
        .assert_eq(&found);
    }

    #[test]
    fn a_server_with_our_own_address_is_found() {
        for (listen, url, is_found) in [
            ("127.0.0.1:3001", "http://127.0.0.1:3001/mcp", true),
            ("127.0.0.1:3001", "http://localhost:3001/sse", true),
            ("0.0.0.0:3001", "http://127.0.0.1:3001/mcp", true),
            ("[::1]:80", "http://[::1]/mcp", true),
            ("127.0.0.1:3001", "http://127.0.0.1:3002/mcp", false),
            ("127.0.0.1:3001", "http://127.0.0.2:3001/mcp", false),
            ("127.0.0.1:3001", "http://example.com:3001/mcp", false),
            ("127.0.0.1:0", "http://127.0.0.1/mcp", false),
        ] {
            let toml = format!("server.listen = '{listen}'\n[mcp_servers.a]\nurl = '{url}'\n");
            let mut config = Config::from_toml(&toml, "t").unwrap();
            let arguments =
                ConfigArgs { config: None, mcp_config: Vec::new(), log: None, log_format: None };
            let warnings = leave_out_itself(&mut config, &arguments, None, false);
            assert_eq!(warnings, [""; 0]);
            assert!(!is_unusable(&config, "a"), "{listen} {url}: over stdio");
            let warnings = leave_out_itself(&mut config, &arguments, None, true);
            assert_eq!(warnings.len(), usize::from(is_found), "{listen} {url}: {warnings:?}");
            assert_eq!(is_unusable(&config, "a"), is_found, "{listen} {url}");
        }
    }

    #[test]
    fn a_server_that_starts_itself_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own.json");
        let other = folder.path().join("other.json");
        std::fs::write(&other, r#"{"mcpServers": {}}"#).unwrap();
        let own_path = own.to_str().unwrap();
        let other_path = other.to_str().unwrap();
        let joined = format!("--mcp-config={own_path}");
        let servers = json!({
            "itself": marquetry(&["stdio", "--mcp-config", own_path]),
            "joined": marquetry(&["stdio", &joined]),
            "another": marquetry(&["stdio", "--mcp-config", other_path]),
            "defaults": marquetry(&["stdio"]),
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
        let warnings = leave_out_itself(&mut config, &arguments, None, false);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        let own_path = own.canonicalize().unwrap().display().to_string();
        let unusable = config.mcp_servers.iter().filter_map(|(name, upstream)| {
            let Transport::Unusable { problem, .. } = &upstream.transport else { return None };
            Some(format!("{name}: {}", problem.replace(&own_path, "FILE")))
        });
        expect_test::expect![[r"
            itself: it runs Marquetry with FILE, the file that names it, and would start itself again and again; remove the server
            joined: it runs Marquetry with FILE, the file that names it, and would start itself again and again; remove the server"]]
        .assert_eq(&unusable.collect::<Vec<_>>().join("\n"));
    }
}
