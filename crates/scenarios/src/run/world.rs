//! The environment of one case: its own server, upstreams and folder.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use marquetry_protocol::client::{Client, HttpTarget};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::{
    agent::{self, Agent},
    case::Case,
};
use crate::{
    language::{self, Given, Over, UpstreamEvent},
    server::{Connection, RunningServer, ServerSetup, ServerStartError, TestedServer},
    upstream::{HttpUpstream, Offer, StdioUpstream, resolve_tools},
};

/// Environment of one case: the server, its upstreams and a directory.
pub(crate) struct World {
    pub(crate) agent: Agent,
    server: Box<dyn RunningServer>,
    upstreams: BTreeMap<String, Upstream>,
    /// Folder that `file` paths of later upstream events are relative to.
    scenario_folder: PathBuf,
    /// Files of the case; removed with it.
    _folder: TempDir,
}

enum Upstream {
    Stdio(Box<StdioUpstream>),
    Http(HttpUpstream),
}

/// Why the environment of a case cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorldError {
    #[error(transparent)]
    Server(#[from] ServerStartError),
    #[error("upstream `{name}`: {error}")]
    Upstream { name: String, error: Box<dyn std::error::Error + Send + Sync> },
    #[error("the agent cannot connect: {0}")]
    Agent(String),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl World {
    /// Starts the upstreams and the server, and connects the agent.
    pub(crate) async fn start(case: &Case, server: &dyn TestedServer) -> Result<Self, WorldError> {
        let given = &case.scenario().given;
        let folder = TempDir::with_prefix("marquetry-")?;
        let scenario_folder = case.loaded.folder.clone();
        let program = server.upstream_program();
        let upstreams =
            start_upstreams(given, &scenario_folder, folder.path(), program.as_ref()).await?;
        let setup = ServerSetup {
            given,
            cell: case.cell,
            folder: folder.path(),
            upstreams: entries(&upstreams),
        };
        let mut server = server.start(setup).await?;

        let options = agent::answering(case.cell.revision, &given.agent);
        let client = match server.connect().await? {
            Connection::Pipes { reader, writer } => Client::connect(reader, writer, options).await,
            Connection::Http { url } => {
                Client::http(HttpTarget { url, ..HttpTarget::default() }, options).await
            }
        };
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                let said = server
                    .shut_down()
                    .await
                    .err()
                    .map_or(String::new(), |said| format!("; {said}"));
                return Err(WorldError::Agent(format!("{error}{said}")));
            }
        };
        let agent = Agent::new(client);
        // Agents list tools first. The answer waits for upstreams that are still starting.
        agent.request("tools/list", Value::Null).await.map_err(WorldError::Agent)?;
        Ok(Self { agent, server, upstreams, scenario_folder, _folder: folder })
    }

    /// Returns the address of the server's HTTP listener.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.server.http_address()
    }

    /// Returns the server's health report if it is not healthy.
    pub(crate) async fn health_problem(&self) -> Option<Value> {
        self.server.health_problem().await
    }

    /// Applies a step's change to an upstream.
    pub(crate) async fn apply(
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

    /// Returns the calls that an upstream received.
    pub(crate) fn calls(&self, upstream: &str) -> io::Result<Vec<Value>> {
        match self.upstreams.get(upstream) {
            Some(Upstream::Stdio(upstream)) => upstream.calls(),
            Some(Upstream::Http(upstream)) => upstream.calls(),
            None => Err(io::Error::other(format!("no upstream `{upstream}`"))),
        }
    }

    /// Returns the bodies of the requests that the chat model received.
    pub(crate) fn model_requests(&self) -> Vec<Value> {
        self.server.model_requests()
    }

    /// Stops the server. Fails if the server does not exit cleanly, or if one of its child
    /// processes still runs.
    pub(crate) async fn shut_down(self) -> Result<(), String> {
        self.agent.close().await;
        let mut ended = self.server.shut_down().await;
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

async fn start_upstreams(
    given: &Given,
    scenario_folder: &Path,
    folder: &Path,
    program: Option<&(PathBuf, Vec<String>)>,
) -> Result<BTreeMap<String, Upstream>, WorldError> {
    let mut upstreams = BTreeMap::new();
    for (name, upstream) in &given.upstreams {
        let started = start_upstream(name, upstream, scenario_folder, folder, program)
            .await
            .map_err(|error| WorldError::Upstream { name: name.clone(), error })?;
        upstreams.insert(name.clone(), started);
    }
    Ok(upstreams)
}

async fn start_upstream(
    name: &str,
    given: &language::Upstream,
    scenario_folder: &Path,
    folder: &Path,
    program: Option<&(PathBuf, Vec<String>)>,
) -> Result<Upstream, Box<dyn std::error::Error + Send + Sync>> {
    let offer = Offer::new(given, scenario_folder)?;
    Ok(match given.over {
        Over::Stdio => {
            let program = program.ok_or("`given.upstreams` is for Marquetry itself: run the scenario without a URL and without a command")?;
            let upstream = StdioUpstream::new(name, offer, folder, program.clone())?;
            Upstream::Stdio(Box::new(upstream))
        }
        Over::Http => Upstream::Http(HttpUpstream::start(name, offer, folder).await?),
    })
}

/// Returns the upstreams in the form of `mcpServers` of an `mcp.json`.
fn entries(upstreams: &BTreeMap<String, Upstream>) -> Map<String, Value> {
    upstreams
        .iter()
        .map(|(name, upstream)| {
            let entry = match upstream {
                Upstream::Stdio(upstream) => {
                    let (program, arguments) = upstream.command();
                    json!({ "command": program, "args": arguments })
                }
                Upstream::Http(upstream) => json!({ "url": upstream.url() }),
            };
            (name.clone(), entry)
        })
        .collect()
}
