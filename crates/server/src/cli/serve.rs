//! `marquetry serve` and `marquetry stdio`

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use super::{ConfigArgs, Failure, ServeArgs, flag_error};
use crate::{
    app::App,
    config::{AuthConfig, Config},
    logging,
};

pub(super) fn serve(arguments: &ServeArgs) -> Result<(), Failure> {
    let (mut config, warnings) = arguments.load()?;
    let address = config.server.listen;
    if !address.ip().is_unspecified() {
        // The address itself is a name that nobody else can point elsewhere.
        config.server.allowed_hosts.push(bracketed(address.ip()));
    }
    config.gateway.guard = guard();
    start_logging(&config, &warnings)?;
    on_runtime(async {
        let listener = bind(address).await?;
        let bound = listener.local_addr().map_err(Failure::new)?;
        let (names, access) = (described(&config), admitted(&config.auth));
        let is_open = !config.auth.is_set() && !bound.ip().is_loopback();
        let app = App::builder(config).start().await?;
        eprint!("{}", greeting(bound, &names, &access));
        if is_open {
            tracing::warn!("listening without authentication where other machines can reach it");
        }
        until_told(&app, app.serve_http(listener)).await
    })
}

pub(super) fn stdio(arguments: &ConfigArgs) -> Result<(), Failure> {
    let (mut config, warnings) = arguments.load()?;
    config.gateway.guard = guard();
    start_logging(&config, &warnings)?;
    on_runtime(async {
        let app = App::builder(config).start().await?;
        tracing::info!("serving MCP on standard input and output");
        until_told(&app, app.serve_stdio(tokio::io::stdin(), tokio::io::stdout())).await
    })
}

/// This program, which stands guard over upstreams as `marquetry guard`. By its path, which tells people who it is; by the kernel's own name for it
/// where it has been replaced since it started.
fn guard() -> Option<PathBuf> {
    let here = std::env::current_exe().ok().filter(|path| path.exists());
    cfg!(target_os = "linux").then(|| here.unwrap_or_else(|| "/proc/self/exe".into()))
}

fn start_logging(config: &Config, warnings: &[String]) -> Result<(), Failure> {
    logging::start(&config.log).map_err(|problem| flag_error("log.level", problem))?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(())
}

/// Runs `work` to its end. Threads that are stuck in a read of standard input are left to the end of the process.
pub(super) fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime: Runtime =
        Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
    let outcome = runtime.block_on(work);
    // In good order nobody is left by now.
    super::children::kill();
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Serves until the transport ends by itself or a signal comes, then shuts down. A second signal ends the process at once.
async fn until_told(
    app: &App,
    serving: impl Future<Output = io::Result<()>>,
) -> Result<(), Failure> {
    let mut serving = std::pin::pin!(serving);
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        signal = signalled() => {
            tracing::info!(signal = signal.map_err(Failure::new)?, "shutting down");
            let ended = async { tokio::join!(serving, app.shutdown()) };
            tokio::select! {
                (outcome, ()) = ended => return outcome.map_err(Failure::new),
                Ok(_) = signalled() => {
                    super::children::kill();
                    return Err(Failure::new("ended by a second signal, without waiting"));
                }
            }
        }
    };
    app.shutdown().await;
    outcome.map_err(Failure::new)
}

/// The next signal that asks the process to end.
#[cfg(unix)]
pub(super) async fn signalled() -> io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    })
}

#[cfg(not(unix))]
pub(super) async fn signalled() -> io::Result<&'static str> {
    tokio::signal::ctrl_c().await.map(|()| "Ctrl-C")
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; something listens there already, perhaps another marquetry: choose another port with --listen"
            }
            io::ErrorKind::PermissionDenied => "; ports below 1024 need privileges: choose another with --listen",
            io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
            _ => "",
        };
        Failure::new(format!("cannot listen on {address}: {error}{hint}"))
    })
}

/// An address as a `Host` header has it.
fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The servers' names as the greeting shows them.
fn described(config: &Config) -> String {
    let names = config.mcp_servers.iter().map(|(name, upstream)| {
        let note = if upstream.disabled { ", disabled" } else { "" };
        format!("{name} ({}{note})", upstream.transport.kind())
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() { "none; name some with --mcp-config".to_owned() } else { names.join(", ") }
}

/// Who may come in, as the greeting says it.
fn admitted(auth: &AuthConfig) -> String {
    let tokens = match auth.token_count() {
        0 => None,
        1 => Some("the holder of 1 token".to_owned()),
        count => Some(format!("the holders of {count} tokens")),
    };
    let issued = auth.issuer.as_ref().map(|issuer| format!("whom {issuer} gives tokens"));
    let admitted: Vec<String> = [tokens, issued].into_iter().flatten().collect();
    if admitted.is_empty() { "everybody who reaches it".to_owned() } else { admitted.join(", ") }
}

fn greeting(address: SocketAddr, servers: &str, access: &str) -> String {
    format!(
        "\
marquetry {} listens on http://{address}/mcp
  servers   {servers}
  access    {access}
  clients   {{\"mcpServers\": {{\"marquetry\": {{\"type\": \"http\", \"url\": \"http://{address}/mcp\"}}}}}}
  more      http://{address}/healthz  http://{address}/api/tools
",
        env!("CARGO_PKG_VERSION")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_says_who_may_come_in() {
        let of = |toml: &str| admitted(&toml::from_str(toml).unwrap());
        assert_eq!(of(""), "everybody who reaches it");
        assert_eq!(of("tokens = { a = { env = 'A' } }"), "the holder of 1 token");
        assert_eq!(
            of(
                "issuer = 'https://login.example'\ntokens = { a = { env = 'A' }, b = { env = 'B' } }"
            ),
            "the holders of 2 tokens, whom https://login.example gives tokens"
        );
    }
}
