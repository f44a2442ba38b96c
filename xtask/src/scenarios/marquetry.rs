//! Marquetry as the server that scenarios run against: the library in this process, or the built
//! program.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use marquetry_llm::{ProviderAnswer, ScriptedProvider};
use marquetry_scenarios::{
    Connection, MatrixCell, RunningServer, ServerSetup, ServerStartError, Store, TestedServer,
    Transport,
    given::ModelAnswer,
    plain_http::{Exchange, exchange},
};
use serde_json::{Value, json};

use super::{
    binary::Binary,
    defect_proxy::{Proxy, Side},
    hosted::HostedServer,
    store::Defect,
};

/// Seed of names for scenarios without one.
const SEED: u64 = 7;
const CLOCK: &str = "2026-01-01T00:00:00Z";

/// The tested server.
#[derive(Clone, Debug)]
pub(super) enum ServerKind {
    /// The library in this process, on real sockets and pipes, optionally with an injected defect.
    InProcess(Option<Defect>),
    /// The program at this path, as a child process.
    Binary(PathBuf),
}

/// Marquetry as a [`TestedServer`], with the same settings for all cases of a run.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) server: ServerKind,
    /// Whether knowledge is stored in PostgreSQL instead of a file.
    pub(super) postgres: bool,
}

/// A Marquetry server that runs for one case.
struct RunningMarquetry {
    server: Server,
    cell: MatrixCell,
    /// The defect that the proxies inject.
    defect: Option<Defect>,
    /// Proxies that alter the messages of the agent, and of the `http` requests of the scenario.
    proxies: Option<(Proxy, Proxy)>,
    /// The provider of the server's chat model.
    model: Option<ScriptedProvider>,
}

enum Server {
    Hosted(HostedServer),
    Binary(Box<Binary>),
}

#[async_trait]
impl TestedServer for Setting {
    fn upstream_program(&self) -> Option<(PathBuf, Vec<String>)> {
        Some((env::current_exe().ok()?, vec!["upstream".to_owned()]))
    }

    async fn start(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Box<dyn RunningServer>, ServerStartError> {
        let model = match &setup.given.model {
            Some(answers) => Some(ScriptedProvider::start(answers.iter().map(model_answer)).await?),
            None => None,
        };
        let database = if self.postgres {
            let Some(url) = test_postgres::database().await else {
                let missing = "no PostgreSQL is installed; run tests/postgres/install";
                return Err(ServerStartError::Skip(missing.to_owned()));
            };
            url.into()
        } else {
            setup.folder.join("knowledge.db")
        };
        let config = config(&setup, model.as_ref(), &database)?;
        let (server, defect) = match &self.server {
            ServerKind::InProcess(defect) => {
                let proxy_defect = defect.filter(|defect| !defect.affects_store());
                if proxy_defect.is_some() && setup.cell.transport == Transport::Stdio {
                    return Err(ServerStartError::Skip(
                        "this defect needs HTTP, and the case runs over stdio".into(),
                    ));
                }
                let hosted = HostedServer::start(&config, &setup.given.store, *defect)
                    .await
                    .map_err(ServerStartError::Failed)?;
                (Server::Hosted(hosted), proxy_defect)
            }
            ServerKind::Binary(_) if !setup.given.store.is_empty() => {
                return Err(ServerStartError::Skip(
                    "faults of the store need a server in this process".into(),
                ));
            }
            ServerKind::Binary(program) => {
                let file = setup.folder.join("marquetry.toml");
                std::fs::write(&file, &config)?;
                let binary = Binary::start(program, setup.cell.transport, &file)
                    .await
                    .map_err(ServerStartError::Failed)?;
                (Server::Binary(Box::new(binary)), None)
            }
        };
        Ok(Box::new(RunningMarquetry { server, cell: setup.cell, defect, proxies: None, model }))
    }
}

#[async_trait]
impl RunningServer for RunningMarquetry {
    async fn connect(&mut self) -> Result<Connection, ServerStartError> {
        let address = match &mut self.server {
            Server::Hosted(hosted) if self.cell.transport == Transport::Stdio => {
                let (reader, writer) = hosted.serve_stdio()?;
                return Ok(Connection::pipes(reader, writer));
            }
            Server::Hosted(hosted) => {
                let address = hosted.serve_http().await?;
                match self.defect {
                    Some(defect) => {
                        let agent = Proxy::start(address, defect, Side::Agent).await?;
                        let http = Proxy::start(address, defect, Side::Http).await?;
                        let address = agent.address;
                        self.proxies = Some((agent, http));
                        address
                    }
                    None => address,
                }
            }
            Server::Binary(binary) => match binary.pipes() {
                Some((reader, writer)) => return Ok(Connection::pipes(reader, writer)),
                None => binary.address()?,
            },
        };
        // `/mcp` serves Streamable HTTP, `/sse` HTTP+SSE.
        let path = if self.cell.transport == Transport::Http { "mcp" } else { "sse" };
        Ok(Connection::http(format!("http://{address}/{path}")))
    }

    fn http_address(&self) -> Option<SocketAddr> {
        if let Some((_, http)) = &self.proxies {
            return Some(http.address);
        }
        match &self.server {
            Server::Hosted(hosted) => hosted.address(),
            Server::Binary(binary) => binary.address().ok(),
        }
    }

    async fn health_problem(&self) -> Option<Value> {
        let health = match &self.server {
            Server::Hosted(hosted) => hosted.health(),
            Server::Binary(binary) => {
                let get = Exchange {
                    method: "GET".into(),
                    path: "/healthz".into(),
                    ..Exchange::default()
                };
                exchange(binary.address().ok()?, get).await.ok()?["body"].clone()
            }
        };
        (health["status"] != "ok").then_some(health)
    }

    fn model_requests(&self) -> Vec<Value> {
        let requests = self.model.iter().flat_map(ScriptedProvider::requests);
        requests.map(|request| request.body).collect()
    }

    async fn shut_down(self: Box<Self>) -> Result<(), String> {
        drop(self.proxies);
        match self.server {
            Server::Hosted(hosted) => hosted.end().await,
            Server::Binary(binary) => binary.stop().await,
        }
    }
}

fn model_answer(answer: &ModelAnswer) -> ProviderAnswer {
    let ModelAnswer { says, status, message, garbage, silence: _, delay, pace } = answer;
    let answer = match (says, status, garbage) {
        (Some(text), ..) => ProviderAnswer::text(text),
        (_, Some(status), _) => ProviderAnswer::error(*status, [], message),
        (.., Some(garbage)) => ProviderAnswer::http(200, [("content-type", "text/html")], garbage),
        _ => ProviderAnswer::silence(),
    };
    answer
        .after(delay.map_or(Duration::ZERO, |delay| delay.0))
        .paced(pace.map_or(Duration::ZERO, |pace| pace.0))
}

/// Returns the server's configuration as TOML: the default settings, with the scenario's merged
/// over them key by key.
fn config(
    setup: &ServerSetup<'_>,
    model: Option<&ScriptedProvider>,
    database: &Path,
) -> Result<String, ServerStartError> {
    let ServerSetup { given, folder, .. } = setup;
    let artifacts = match setup.cell.store {
        Store::Memory => json!({ "store": "memory" }),
        Store::Directory => json!({ "store": "directory", "directory": folder.join("artifacts") }),
    };
    let mut config = json!({
        "artifacts": artifacts,
        "knowledge": { "database": database },
        // The list of tools must not depend on the machine.
        "plantuml": { "engine": "off" },
        // On a busy machine the start of a process may take long.
        // Pins of the developer's servers know nothing of these.
        "gateway": { "list_wait_ms": 30_000, "pins_file": folder.join("pins.json") },
        "testing": {
            "seed": given.seed.unwrap_or(SEED),
            "clock": given.clock.as_deref().unwrap_or(CLOCK),
        },
        "mcp_servers": setup.upstreams,
    });
    if let Some(model) = model {
        config["knowledge"]["chat"] = json!({ "provider": "custom", "model": "small-model", "base_url": model.base_url(), "retries": 0 });
    }
    toml::to_string(&given.configured(config))
        .map_err(|error| ServerStartError::Failed(format!("invalid configuration: {error}")))
}
