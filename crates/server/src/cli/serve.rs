//! `marquetry serve` and `marquetry stdio`

use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use marquetry_config::{
    Config, Loaded,
    sections::{AuthConfig, LogConfig, LogFormat},
};
use marquetry_control::Hangups;
use marquetry_program_log::{self as program_log, Format, LogOptions};
use marquetry_test_command as test_command;
use serde_json::json;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use super::{
    Failure, INTERRUPTED, ServeCommand, StdioCommand, browser, environment, flag_error, problems,
    reload::serve_reloads,
    source::{ServerSource, SourceArgs, bracketed},
    spans::SpanExport,
};
use crate::app::App;

pub(super) fn serve(arguments: &ServeCommand) -> Result<(), Failure> {
    let source = SourceArgs::Serve(arguments.server.clone());
    let (source, Loaded { config, file, mut warnings }) = ServerSource::load(source, guard())?;
    warnings.extend(problems::port_problem(&config));
    let address = config.server.listen;
    start_logging(&config, file.as_deref(), &warnings)?;
    on_runtime(async {
        let signals = EndSignals::new()?;
        let hangups = Hangups::new().map_err(Failure::new)?;
        // Before the app is started: a port in use must not cost a start of all upstreams.
        let listener = bind(address).await?;
        let bound = listener.local_addr().map_err(Failure::new)?;
        let mut greeting = Greeting::new(bound, &config);
        let is_open = !config.auth.is_set() && !bound.ip().is_loopback();
        let views = if config.console.enabled {
            bind_views(bound.ip(), config.console.views_port).await
        } else {
            None
        };
        let metrics = match config.metrics.listen {
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| {
                Failure::new(format!("metrics.listen: failed to listen on {address}: {error}"))
            })?),
            None => None,
        };
        let tests = test_api(&config).await?;
        let routes = tests.as_ref().map(test_command::TestApi::router).unwrap_or_default();
        let description = source.description();
        let spans = SpanExport::from_environment()?;
        let builder = App::builder(config).admin_routes(routes).reload_from(Arc::new(source));
        let app = spans.trace(builder).start().await?;
        let reloads = tokio::spawn(serve_reloads(app.clone(), description, hangups));
        if let Some(tests) = tests {
            let stopping = app.stopping();
            // The shutdown must not wait for tests, nor for pages that read their events.
            tokio::spawn(async move {
                stopping.await;
                tests.stop().await;
            });
        }
        if let Some(listener) = views {
            let app = app.clone();
            tokio::spawn(async move {
                if let Err(error) = app.serve_views(listener).await {
                    tracing::warn!("the console no longer shows Views: {error}");
                }
            });
        }
        if let Some(listener) = metrics {
            let app = app.clone();
            tokio::spawn(async move {
                if let Err(error) = app.serve_metrics(listener).await {
                    tracing::error!("the metrics are no longer served: {error}");
                }
            });
        }
        if let Some(link) = &mut greeting.console {
            link.push_str(&app.console_login());
        }
        greeting.print();
        if arguments.open {
            if let Some(link) = &greeting.console {
                browser::open(link);
            } else {
                tracing::warn!("--open has no effect: console.enabled is false");
            }
        }
        if is_open {
            tracing::warn!(
                "other machines can reach this server without authentication: set [auth]"
            );
        }
        let outcome = until_signal(signals, &app, app.serve(listener)).await;
        reloads.abort();
        spans.close().await;
        outcome
    })
}

pub(super) fn stdio(arguments: &StdioCommand) -> Result<(), Failure> {
    let source = SourceArgs::Stdio(arguments.config.clone());
    let (source, Loaded { config, file, warnings }) = ServerSource::load(source, guard())?;
    start_logging(&config, file.as_deref(), &warnings)?;
    on_runtime(async {
        let signals = EndSignals::new()?;
        let hangups = Hangups::new().map_err(Failure::new)?;
        let description = source.description();
        let spans = SpanExport::from_environment()?;
        let builder = App::builder(config).reload_from(Arc::new(source));
        let app = spans.trace(builder).start().await?;
        let reloads = tokio::spawn(serve_reloads(app.clone(), description, hangups));
        tracing::info!("serving MCP on standard input and output");
        let profile = arguments.profile.as_deref();
        let serving = app.serve_stdio_in(profile, tokio::io::stdin(), tokio::io::stdout());
        let outcome = until_signal(signals, &app, serving).await;
        reloads.abort();
        spans.close().await;
        outcome
    })
}

/// Returns the API of tests, if they are enabled. The upstreams are the servers of tests that name
/// none, with connections of their own.
async fn test_api(config: &Config) -> Result<Option<test_command::TestApi>, Failure> {
    if !config.testing.enabled
        && environment::variable("ENABLE_TESTING").is_none_or(|it| it != "true")
    {
        return Ok(None);
    }
    let enabled = config.mcp_servers.iter().filter(|(_, server)| !server.disabled);
    let servers = enabled.map(|(name, server)| (name.clone(), server.transport.clone()));
    let guard = config.gateway.guard.as_deref();
    let environment = test_command::Environment {
        variable: &environment::variable,
        variables: &environment::variables,
        guard,
        program: None,
    };
    Ok(Some(test_command::main_server(servers, environment).await?))
}

/// Returns the program that supervises upstreams, which is this one, as `marquetry guard`.
pub(super) fn guard() -> Option<PathBuf> {
    program().filter(|_| cfg!(target_os = "linux"))
}

/// Returns the path of this program. If the program's file was replaced after the start, this is
/// the kernel's own path to it.
pub(super) fn program() -> Option<PathBuf> {
    let here = std::env::current_exe().ok().filter(|path| path.exists());
    here.or_else(|| cfg!(target_os = "linux").then(|| "/proc/self/exe".into()))
}

pub(super) fn start_logging(
    config: &Config,
    file: Option<&Path>,
    warnings: &[String],
) -> Result<(), Failure> {
    let LogConfig { level, format, max_bytes_per_second, .. } = &config.log;
    let format = match format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    let options = LogOptions::new(level, *max_bytes_per_second).with_format(format);
    program_log::start(&options).map_err(|problem| flag_error("log.level", problem.to_string()))?;
    if let Some(file) = file {
        tracing::info!(file = %file.display(), "read settings");
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Runs `work` on a Tokio runtime. Threads that are blocked in a read of standard input end with
/// the process.
pub(super) fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime: Runtime =
        Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
    let outcome = runtime.block_on(work);
    // A clean shutdown has left no child process.
    super::children::kill();
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Serves until the transport ends or a signal arrives, then shuts down. A second signal ends the
/// process at once.
///
/// `signals` were created before the app was started: a signal that arrives meanwhile must not
/// leave its upstreams behind.
async fn until_signal(
    mut signals: EndSignals,
    app: &App,
    serving: impl Future<Output = io::Result<()>>,
) -> Result<(), Failure> {
    let mut serving = std::pin::pin!(serving);
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        signal = signals.next() => {
            tracing::info!(signal = signal.name(), "stopping after a signal; a second one stops at once");
            let ended = async { tokio::join!(serving, app.shutdown()) };
            tokio::select! {
                (outcome, ()) = ended => {
                    outcome.map_err(Failure::new)?;
                    // Service managers send SIGTERM and expect success.
                    return match signal {
                        EndSignal::Interrupt => Err(signal.failure("")),
                        EndSignal::Terminate => Ok(()),
                    };
                }
                second = signals.next() => {
                    super::children::kill();
                    return Err(second.failure("stopped at once by a second signal"));
                }
            }
        }
    };
    app.shutdown().await;
    outcome.map_err(Failure::new)
}

/// A signal that asks the process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSignal {
    /// SIGINT, or Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl EndSignal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// Returns the failure of a program that this signal stopped before its work was done.
    pub(super) fn failure(self, message: impl Into<String>) -> Failure {
        let code = match self {
            Self::Interrupt => INTERRUPTED,
            Self::Terminate => 1,
        };
        Failure { code, message: message.into() }
    }
}

/// The signals that ask the process to end. Created once, so that a second signal right after the
/// first is not missed.
#[cfg(unix)]
pub(super) struct EndSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl EndSignals {
    pub(super) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(Failure::new)?,
            terminate: signal(SignalKind::terminate()).map_err(Failure::new)?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }
}

/// The signals that ask the process to end.
#[cfg(not(unix))]
pub(super) struct EndSignals;

#[cfg(not(unix))]
impl EndSignals {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    /// Waits for the next signal; never returns if Ctrl-C cannot be listened for.
    pub(super) async fn next(&mut self) -> EndSignal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => EndSignal::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Binds the second listener, for the frames of Views. If that fails, the server runs without it.
async fn bind_views(ip: IpAddr, port: u16) -> Option<TcpListener> {
    let address = SocketAddr::new(ip, port);
    match TcpListener::bind(address).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(
                "the console shows no Views: failed to listen on {address}: {error}; choose another console.views_port"
            );
            None
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program listens there, perhaps another marquetry: choose another port with --listen"
            }
            io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges: choose another port with --listen",
            io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
            _ => "",
        };
        Failure::new(format!("failed to listen on {address}: {error}{hint}"))
    })
}

/// Returns the host of URLs for clients on this machine. A client cannot connect to 0.0.0.0 or
/// [::], which mean every address of the machine, so they become the loopback address.
fn local_host(ip: IpAddr) -> String {
    bracketed(match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    })
}

/// Returns the URL of a server for clients on this machine, without a path.
pub(super) fn base_url(scheme: &str, listen: SocketAddr) -> String {
    format!("{scheme}://{}:{}", local_host(listen.ip()), listen.port())
}

/// Returns the servers' names as the greeting shows them.
fn described(config: &Config) -> String {
    if config.mcp_servers.is_empty() {
        return "none; add some with --mcp-config".to_owned();
    }
    let names = config.mcp_servers.iter().map(|(name, upstream)| {
        let note = if upstream.disabled { ", disabled" } else { "" };
        format!("{name} ({}{note})", upstream.transport.kind())
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Describes the callers that are allowed, for the greeting.
fn admitted(auth: &AuthConfig) -> String {
    let mut admitted = Vec::new();
    match auth.token_count() {
        0 => {}
        1 => admitted.push("the holder of 1 token".to_owned()),
        count => admitted.push(format!("the holders of {count} tokens")),
    }
    if let Some(issuer) = &auth.issuer {
        admitted.push(format!("holders of tokens from {issuer}"));
    }
    if admitted.is_empty() {
        return "every caller that can connect".to_owned();
    }
    admitted.join(", ")
}

/// The message at the start of `marquetry serve`: URLs, servers and access.
struct Greeting {
    /// The address of the server, without a path, for clients on this machine.
    base: String,
    /// URLs for clients on other machines, by the names in `server.allowed_hosts`.
    others: Vec<String>,
    /// Other machines can connect, but no name is allowed in `Host`.
    refuses_names: bool,
    servers: String,
    access: String,
    /// Whether a client must send one of the configured tokens.
    needs_token: bool,
    /// The link of the console, if it is switched on.
    console: Option<String>,
}

impl Greeting {
    fn new(bound: SocketAddr, config: &Config) -> Self {
        let here = local_host(bound.ip());
        let scheme = config.server.scheme();
        let names = config.server.allowed_hosts.iter().filter(|host| **host != here);
        let others = names
            .filter_map(|host| match host.rsplit_once(':') {
                // The port of a proxy may differ from ours.
                Some((_, port)) if !host.ends_with(']') => {
                    (port.parse() == Ok(bound.port())).then(|| format!("{scheme}://{host}"))
                }
                _ => Some(format!("{scheme}://{host}:{}", bound.port())),
            })
            .collect();
        Self {
            base: base_url(scheme, bound),
            refuses_names: bound.ip().is_unspecified() && config.server.allowed_hosts.is_empty(),
            others,
            servers: described(config),
            access: admitted(&config.auth),
            needs_token: config.auth.token_count() > 0,
            console: config.console.enabled.then(|| format!("{}/", base_url(scheme, bound))),
        }
    }

    /// Prints the greeting at every log level: with port 0, nothing else names the port.
    fn print(&self) {
        if program_log::is_json() {
            let fields = [
                ("url", json!(format!("{}/mcp", self.base))),
                ("other_urls", json!(self.other_urls())),
                ("servers", json!(self.servers)),
                ("access", json!(self.access)),
                ("console", json!(self.console)),
                ("version", json!(env!("CARGO_PKG_VERSION"))),
            ];
            program_log::emit("INFO", "listening", &fields);
        } else {
            eprint!("{}", self.text());
        }
        if self.refuses_names {
            tracing::warn!(
                "requests from other machines are refused: add the host names or addresses under which they reach this machine to server.allowed_hosts"
            );
        }
    }

    fn other_urls(&self) -> Vec<String> {
        self.others.iter().map(|base| format!("{base}/mcp")).collect()
    }

    fn text(&self) -> String {
        let Self { base, servers, access, .. } = self;
        let headers = if self.needs_token {
            ", \"headers\": {\"Authorization\": \"Bearer TOKEN\"}"
        } else {
            ""
        };
        let console = match &self.console {
            Some(link) => format!("  console   {link}\n"),
            None => String::new(),
        };
        let also = match &*self.other_urls() {
            [] => String::new(),
            urls => format!("  also      {}\n", urls.join("  ")),
        };
        format!(
            "\
marquetry {} listens on {base}/mcp
{also}  servers   {servers}
  access    {access}
{console}  clients   {{\"mcpServers\": {{\"marquetry\": {{\"type\": \"http\", \"url\": \"{base}/mcp\"{headers}}}}}}}
  more      {base}/healthz  {base}/api/tools
",
            env!("CARGO_PKG_VERSION")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_names_urls_that_work() {
        for (bound, hosts, base, others, refuses_names) in [
            ("127.0.0.1:3001", &["127.0.0.1"][..], "http://127.0.0.1:3001", "", false),
            ("0.0.0.0:3001", &[], "http://127.0.0.1:3001", "", true),
            ("[::]:3001", &[], "http://[::1]:3001", "", true),
            (
                "0.0.0.0:3001",
                &["tools.example", "b.example:3001", "proxy.example:443", "[fe80::1]"],
                "http://127.0.0.1:3001",
                "http://tools.example:3001/mcp http://b.example:3001/mcp http://[fe80::1]:3001/mcp",
                false,
            ),
            ("192.0.2.1:80", &["192.0.2.1"], "http://192.0.2.1:80", "", false),
        ] {
            let mut config = Config::default();
            config.server.allowed_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
            let greeting = Greeting::new(bound.parse().unwrap(), &config);
            assert!(greeting.text().contains(&format!("listens on {base}/mcp\n")), "{bound}");
            assert_eq!(greeting.base, base, "{bound}");
            assert_eq!(greeting.other_urls().join(" "), others, "{bound}");
            assert_eq!(greeting.refuses_names, refuses_names, "{bound}");
        }
    }

    #[test]
    fn the_greeting_names_the_callers_that_are_allowed() {
        for (toml, want) in [
            ("", "every caller that can connect"),
            ("tokens = { a = { env = 'A' } }", "the holder of 1 token"),
            (
                "issuer = 'https://login.example'\ntokens = { a = { env = 'A' }, b = { env = 'B' } }",
                "the holders of 2 tokens, holders of tokens from https://login.example",
            ),
        ] {
            assert_eq!(admitted(&toml::from_str(toml).unwrap()), want);
        }
    }
}
