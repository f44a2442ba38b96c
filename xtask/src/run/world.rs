//! One world a case: a server of its own, upstreams of its own, a folder of its own.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use marquetry_llm::{ProviderAnswer, ScriptedProvider};
use marquetry_protocol::client::{Client, HttpTarget};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{
    agent::{self, Agent},
    binary::Binary,
    case::Case,
    damage::{Proxy, Side},
    hosted::Hosted,
    http::{Exchange, exchange},
    store::Sabotage,
};
use crate::{
    scenario::{Given, ModelAnswer, Over, Store, Transport, UpstreamEvent},
    upstream::{HttpUpstream, Offer, StdioUpstream, resolve_tools},
};

/// The seed of names and the time, where a scenario gives none.
const SEED: u64 = 7;
const CLOCK: &str = "2026-01-01T00:00:00Z";

/// Which server a case runs against.
#[derive(Clone, Debug)]
pub(crate) enum ServerKind {
    /// The library, in this process, on real sockets and pipes, perhaps with a defect put into it.
    InProcess(Option<Sabotage>),
    /// This program, as a child.
    Binary(PathBuf),
}

/// What is the same for all cases of a run.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) server: ServerKind,
    /// Whether knowledge is kept in a PostgreSQL; in a file otherwise.
    pub(crate) postgres: bool,
}

/// What a case runs in.
pub(crate) struct World {
    pub(crate) agent: Agent,
    server: Server,
    /// What puts a defect between the server and those who ask it: the agent's, and that of requests which a scenario writes itself.
    proxies: Option<(Proxy, Proxy)>,
    upstreams: BTreeMap<String, Upstream>,
    /// What the server's chat model is.
    model: Option<ScriptedProvider>,
    /// Where `file` paths of later upstream events start.
    scenario_folder: PathBuf,
    /// The case's own files; gone with it.
    _folder: TempDir,
}

enum Server {
    Hosted(Hosted),
    Binary(Box<Binary>),
}

enum Upstream {
    Stdio(StdioUpstream),
    Http(HttpUpstream),
}

/// Why there is no world.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorldError {
    /// The case cannot run against this kind of server.
    #[error("{0}")]
    NotHere(String),
    #[error("upstream `{name}`: {error}")]
    Upstream { name: String, error: Box<dyn std::error::Error + Send + Sync> },
    #[error("the configuration: {0}")]
    Config(String),
    #[error("the server: {0}")]
    Server(String),
    #[error("the agent cannot connect: {0}")]
    Agent(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl World {
    /// Starts upstreams and server, and connects the agent.
    pub(crate) async fn start(case: &Case, setting: &Setting) -> Result<Self, WorldError> {
        let given = &case.scenario().given;
        let folder = TempDir::with_prefix("marquetry-")?;
        let scenario_folder = case.loaded.folder.clone();
        let upstreams = start_upstreams(given, &scenario_folder, folder.path()).await?;
        let model = match &given.model {
            Some(answers) => Some(ScriptedProvider::start(answers.iter().map(model_answer)).await?),
            None => None,
        };
        let database = if setting.postgres {
            let missing = "no PostgreSQL is installed; tests/postgres/install does it";
            let url = test_postgres::database().await;
            url.ok_or_else(|| WorldError::NotHere(missing.to_owned()))?.into()
        } else {
            folder.path().join("knowledge.db")
        };
        let config = config(case, &upstreams, model.as_ref(), folder.path(), &database)?;

        let options = agent::answering(case.cell.revision, &given.agent);
        let mut proxies = None;
        let (server, client) = match &setting.server {
            ServerKind::InProcess(sabotage) => {
                let mut hosted =
                    Hosted::start(&config, case, *sabotage).await.map_err(WorldError::Server)?;
                let client = match case.cell.transport {
                    Transport::Http | Transport::Sse => {
                        let mut address = hosted.serve_http().await?;
                        if let Some(defect) = sabotage.filter(|sabotage| !sabotage.is_of_store()) {
                            let agent = Proxy::start(address, defect, Side::Agent).await?;
                            let http = Proxy::start(address, defect, Side::Http).await?;
                            address = agent.address;
                            proxies = Some((agent, http));
                        }
                        Client::http(target(address, case), options).await
                    }
                    Transport::Stdio
                        if sabotage.is_some_and(|sabotage| !sabotage.is_of_store()) =>
                    {
                        return Err(WorldError::NotHere(
                            "this defect is put into HTTP, and there is none over stdio".into(),
                        ));
                    }
                    Transport::Stdio => {
                        let (reader, writer) = hosted.serve_stdio()?;
                        Client::connect(reader, writer, options).await
                    }
                };
                (Server::Hosted(hosted), client)
            }
            ServerKind::Binary(_) if !given.store.is_empty() => {
                return Err(WorldError::NotHere(
                    "faults of the store can only be put into a server in this process".into(),
                ));
            }
            ServerKind::Binary(program) => {
                let file = folder.path().join("marquetry.toml");
                std::fs::write(&file, &config)?;
                let mut binary = Binary::start(program, case.cell.transport, &file)
                    .await
                    .map_err(WorldError::Server)?;
                let client = match binary.pipes() {
                    None => Client::http(target(binary.address()?, case), options).await,
                    Some((reader, writer)) => Client::connect(reader, writer, options).await,
                };
                (Server::Binary(Box::new(binary)), client)
            }
        };
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                let said =
                    server.end().await.err().map_or(String::new(), |said| format!("; {said}"));
                return Err(WorldError::Agent(format!("{error}{said}")));
            }
        };
        let agent = Agent::new(client);
        // As every agent does first; the answer waits for upstreams that are still starting.
        agent.request("tools/list", Value::Null).await.map_err(WorldError::Agent)?;
        Ok(Self { agent, server, proxies, upstreams, model, scenario_folder, _folder: folder })
    }

    /// Where the server is reached over HTTP.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        if let Some((_, http)) = &self.proxies {
            return Some(http.address);
        }
        match &self.server {
            Server::Hosted(hosted) => hosted.address(),
            Server::Binary(binary) => binary.address().ok(),
        }
    }

    /// What the server says of its own health, when it is not well.
    pub(crate) async fn complaint(&self) -> Option<Value> {
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

    /// Makes something happen to an upstream.
    pub(crate) async fn tell(
        &mut self,
        event: &UpstreamEvent,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let upstream = self.upstreams.get_mut(&event.name).ok_or("no such upstream")?;
        if let Some(tools) = &event.tools {
            let tools = resolve_tools(tools, &self.scenario_folder)?;
            match upstream {
                Upstream::Stdio(upstream) => upstream.set_tools(tools).await?,
                Upstream::Http(upstream) => upstream.set_tools(tools),
            }
        }
        if event.crash
            && let Upstream::Stdio(upstream) = upstream
        {
            upstream.crash().await?;
        }
        Ok(())
    }

    /// The calls that an upstream got.
    pub(crate) fn calls(&self, upstream: &str) -> io::Result<Vec<Value>> {
        match self.upstreams.get(upstream) {
            Some(Upstream::Stdio(upstream)) => upstream.calls(),
            Some(Upstream::Http(upstream)) => upstream.calls(),
            None => Err(io::Error::other(format!("no upstream `{upstream}`"))),
        }
    }

    /// The bodies of the requests that the chat model got.
    pub(crate) fn model_requests(&self) -> Vec<Value> {
        let requests = self.model.iter().flat_map(ScriptedProvider::requests);
        requests.map(|request| request.body).collect()
    }

    /// Ends the server in good order. It is an error when it does not end so, or leaves a child behind.
    pub(crate) async fn end(self) -> Result<(), String> {
        self.agent.close().await;
        drop(self.proxies);
        let mut ended = self.server.end().await;
        for (name, upstream) in self.upstreams {
            match upstream {
                Upstream::Stdio(upstream) => {
                    let gone = upstream.has_ended().await;
                    ended = ended.and(gone.map_err(|error| format!("upstream `{name}` {error}")));
                }
                Upstream::Http(upstream) => upstream.end().await,
            }
        }
        ended
    }
}

impl Server {
    async fn end(self) -> Result<(), String> {
        match self {
            Self::Hosted(hosted) => hosted.end().await,
            Self::Binary(binary) => binary.end().await,
        }
    }
}

fn target(address: SocketAddr, case: &Case) -> HttpTarget {
    // Nothing but HTTP+SSE is spoken at the second.
    let path = if case.cell.transport == Transport::Http { "mcp" } else { "sse" };
    HttpTarget { url: format!("http://{address}/{path}"), ..HttpTarget::default() }
}

fn model_answer(answer: &ModelAnswer) -> ProviderAnswer {
    let ModelAnswer { says, status, message, garbage, silence: _, delay, pace } = answer;
    let answered = match (says, status, garbage) {
        (Some(text), ..) => ProviderAnswer::text(text),
        (_, Some(status), _) => ProviderAnswer::error(*status, [], message),
        (.., Some(garbage)) => ProviderAnswer::http(200, [("content-type", "text/html")], garbage),
        _ => ProviderAnswer::silence(),
    };
    let answered = answered.after(delay.map_or(Duration::ZERO, |delay| delay.0));
    answered.paced(pace.map_or(Duration::ZERO, |pace| pace.0))
}

async fn start_upstreams(
    given: &Given,
    scenario_folder: &Path,
    folder: &Path,
) -> Result<BTreeMap<String, Upstream>, WorldError> {
    let mut upstreams = BTreeMap::new();
    for (name, upstream) in &given.upstreams {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| WorldError::Upstream {
            name: name.clone(),
            error,
        };
        let offer = Offer::new(upstream, scenario_folder).map_err(|it| failed(it.into()))?;
        let started = match upstream.over {
            Over::Stdio => StdioUpstream::new(name, offer, folder).map(Upstream::Stdio),
            Over::Http => HttpUpstream::start(name, offer, folder).await.map(Upstream::Http),
        };
        upstreams.insert(name.clone(), started.map_err(|error| failed(error.into()))?);
    }
    Ok(upstreams)
}

/// The server's configuration as TOML: what every case needs, and over it what the scenario says.
fn config(
    case: &Case,
    upstreams: &BTreeMap<String, Upstream>,
    model: Option<&ScriptedProvider>,
    folder: &Path,
    database: &Path,
) -> Result<String, WorldError> {
    let given = &case.scenario().given;
    let mut servers = Map::new();
    for (name, upstream) in upstreams {
        let server = match upstream {
            Upstream::Stdio(upstream) => {
                let (program, args) = upstream.command()?;
                json!({ "command": program, "args": args })
            }
            Upstream::Http(upstream) => json!({ "url": upstream.url() }),
        };
        servers.insert(name.clone(), server);
    }
    let artifacts = match case.cell.store {
        Store::Memory => json!({ "store": "memory" }),
        Store::Directory => json!({ "store": "directory", "directory": folder.join("artifacts") }),
    };
    let mut config = json!({
        "artifacts": artifacts,
        "knowledge": { "database": database },
        // A busy machine may take its time to start a process.
        "gateway": { "list_wait_ms": 30_000 },
        "testing": {
            "seed": given.seed.unwrap_or(SEED),
            "clock": given.clock.as_deref().unwrap_or(CLOCK),
        },
        "mcp_servers": servers,
    });
    if let Some(model) = model {
        config["knowledge"]["chat"] = json!({ "provider": "custom", "model": "small-model", "base_url": model.base_url(), "retries": 0 });
    }
    merge(&mut config, &Value::Object(given.config.clone()));
    toml::to_string(&config).map_err(|error| WorldError::Config(error.to_string()))
}

/// Lays `over` on `base`, mapping by mapping.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_laid_over_key_by_key() {
        let mut base = json!({"a": {"x": 1, "y": 2}, "b": [1]});
        merge(&mut base, &json!({"a": {"y": 3, "z": {"w": 4}}, "b": [2]}));
        assert_eq!(base, json!({"a": {"x": 1, "y": 3, "z": {"w": 4}}, "b": [2]}));
    }

    #[test]
    fn the_configuration_is_toml() {
        let text = toml::to_string(&json!({"a": {"b": {"c": 1}}, "d": "x"})).unwrap();
        let again: toml::Table = text.parse().unwrap();
        assert_eq!(again["a"]["b"]["c"].as_integer(), Some(1));
    }
}
