//! The test API: on a separate server, and as routes of the main server.

use std::{net::SocketAddr, path::Path};

use marquetry_client_files::{ClientFile, ReadOptions, Transport, expand::workspace_of};
use marquetry_judge::{ApiKey, Limits, ServerConfig};
use marquetry_protocol::server::http::HostGuard;
use marquetry_test_server::{ApiOptions, CaseDefaults, Commands, TestApi, Tests};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{
    Environment, Failed,
    arguments::{Bound, DatabaseArgs, TestServerArgs},
    database,
    summary::one_line,
};

/// Port of a test server without `--port` and `$TEST_PORT` (seed 004).
const PORT: u16 = 3002;

/// Runs `marquetry test-server` until SIGINT or SIGTERM.
///
/// # Errors
///
/// Returns an error if the arguments are wrong, the database cannot be opened, or the address is
/// taken.
pub fn test_server(arguments: &TestServerArgs, environment: Environment<'_>) -> Result<(), Failed> {
    let runtime = Runtime::new().map_err(Failed::error)?;
    runtime.block_on(serve(arguments, environment))
}

async fn serve(arguments: &TestServerArgs, environment: Environment<'_>) -> Result<(), Failed> {
    let port = match arguments.port {
        Some(port) => port,
        None => match (environment.variable)("TEST_PORT").filter(|port| !port.is_empty()) {
            Some(port) => port
                .parse()
                .map_err(|_| Failed::usage(format!("TEST_PORT is {port:?}; expected a port")))?,
            None => PORT,
        },
    };
    let token =
        (environment.variable)("TEST_TOKEN").filter(|token| !token.is_empty()).map(ApiKey::new);
    if !arguments.address.is_loopback() && token.is_none() {
        return Err(Failed::usage(format!(
            "--address {}: other machines could run programs here; set a token in $TEST_TOKEN, which requests must send",
            arguments.address
        )));
    }
    let mut defaults = CaseDefaults::default();
    defaults.commands = if arguments.no_commands { Commands::Refused } else { Commands::Allowed };
    defaults.judge_config = arguments.model.as_ref().map(crate::arguments::ModelName::settings);
    let bounds = arguments.limit.iter().cloned().map(|Bound { name, number }| (name, number));
    defaults.limits = Some(Limits::bounds(bounds).map_err(Failed::usage)?);
    let mut servers = Vec::new();
    for file in &arguments.mcp_config {
        servers.extend(servers_of_file(file, environment)?);
    }
    defaults.server_configs = (!servers.is_empty()).then_some(servers);
    let mut options = ApiOptions::default();
    options.max_running = arguments.jobs;
    options.token = token;
    let mut hosts = arguments.allowed_host.clone();
    if !arguments.address.is_unspecified() {
        // DNS rebinding cannot affect an address.
        hosts.push(match arguments.address {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        });
    }
    options.host_guard = Some(HostGuard::loopback().and_hosts(hosts));
    let tests = tests(defaults, &arguments.database, environment).await?;
    let api = TestApi::new(tests.clone(), options);
    let address = SocketAddr::new(arguments.address, port);
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failed::error(format!("failed to listen on {address}: {error}")))?;
    let bound = listener.local_addr().map_err(Failed::error)?;
    eprintln!("Marquetry test server: http://{bound}");
    let stop = stop_signal()?;
    tokio::select! {
        served = api.serve(listener, std::future::pending()) => served.map_err(Failed::error)?,
        () = stop => {}
    }
    api.stop().await;
    // Waits for child processes that their tests did not wait for.
    tests.runner().closed().await;
    Ok(())
}

/// Returns the API for the main server, which checks `Host`, `Origin` and tokens itself. `servers`
/// are for tests that name none. As in the main server, unusable servers are left out.
///
/// # Errors
///
/// Returns an error if the database cannot be opened.
pub async fn main_server(
    servers: impl IntoIterator<Item = (String, Transport)>,
    environment: Environment<'_>,
) -> Result<TestApi, Failed> {
    let servers: Vec<ServerConfig> =
        servers.into_iter().filter_map(|(name, it)| server_config(name, it).ok()).collect();
    let mut defaults = CaseDefaults::default();
    defaults.server_configs = (!servers.is_empty()).then_some(servers);
    defaults.commands = Commands::Allowed;
    let mut options = ApiOptions::default();
    options.host_guard = None;
    Ok(TestApi::new(tests(defaults, &DatabaseArgs::default(), environment).await?, options))
}

async fn tests(
    defaults: CaseDefaults,
    database: &DatabaseArgs,
    environment: Environment<'_>,
) -> Result<Tests, Failed> {
    let store = database::open(database, environment, database::Missing::Create).await?;
    Ok(Tests::new(database::runner(store, environment), defaults))
}

/// Returns the servers of an `mcp.json`. An unusable server is an error, because tests without its
/// tools would fail for a misleading reason.
fn servers_of_file(path: &Path, environment: Environment<'_>) -> Result<Vec<ServerConfig>, Failed> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failed::usage(format!("--mcp-config {name}: {error}")))?;
    let workspace = workspace_of(path);
    let options = ReadOptions {
        variables: &|variable: &str| match variable {
            "workspaceFolder" => Some(workspace.display().to_string()),
            _ => (environment.variable)(variable),
        },
        ..ReadOptions::new(&name)
    };
    let file = ClientFile::read(&text, &options).map_err(Failed::usage)?;
    for warning in &file.warnings {
        eprintln!("warning: {}", one_line(warning));
    }
    let enabled = file.servers.into_iter().filter(|(_, server)| !server.is_disabled);
    enabled.map(|(name, server)| server_config(name, server.transport)).collect()
}

fn server_config(name: String, transport: Transport) -> Result<ServerConfig, Failed> {
    match transport {
        Transport::Stdio { command, args, env, cwd } => Ok(ServerConfig::Stdio {
            name: Some(name),
            command,
            args,
            env: env.into_iter().collect(),
            cwd: cwd.map(|path| path.display().to_string()),
        }),
        Transport::Http { url, headers, is_sse } => {
            let name = Some(name);
            let headers = headers.into_iter().collect();
            Ok(if is_sse {
                ServerConfig::Sse { name, url, headers }
            } else {
                ServerConfig::Http { name, url, headers }
            })
        }
        Transport::Unusable { problem, .. } => {
            Err(Failed::usage(format!("server {name:?} cannot be used: {problem}")))
        }
        Transport::NotGiven => {
            Err(Failed::usage(format!("server {name:?} has no command and no URL")))
        }
    }
}

/// Completes at SIGINT or SIGTERM.
fn stop_signal() -> Result<impl Future<Output = ()>, Failed> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failed::error)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failed::error)?;
        Ok(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
    }
    #[cfg(not(unix))]
    Ok(async {
        _ = tokio::signal::ctrl_c().await;
    })
}
