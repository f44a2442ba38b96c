//! This program as the server of scenarios, behind whose gateway the scenario's own servers are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use marquetry_scenarios::{
    CommandServer, Limits, Revision, RunningServer, Start, StartError, TestedServer, Transport,
};
use serde_json::json;

/// The command that serves one server of a scenario on standard input and output. Its argument is the file that describes the server.
const SERVE_UPSTREAM: &str = "scenario-upstream";

/// This program, which each scenario starts with a configuration of its own.
pub(crate) struct OwnServer {
    program: PathBuf,
    revisions: Vec<Revision>,
}

impl OwnServer {
    pub(crate) fn new(program: &Path, revisions: Vec<Revision>) -> Self {
        Self { program: program.to_owned(), revisions }
    }
}

#[async_trait]
impl TestedServer for OwnServer {
    fn limits(&self) -> Limits {
        Limits::only(Transport::Stdio, self.revisions.clone())
    }

    fn upstream_program(&self) -> Option<(PathBuf, Vec<String>)> {
        Some((self.program.clone(), vec![SERVE_UPSTREAM.to_owned()]))
    }

    async fn start(&self, start: Start<'_>) -> Result<Box<dyn RunningServer>, StartError> {
        let given = start.given;
        if given.model.is_some() || !given.store.is_empty() {
            return Err(StartError::Failed(
                "`given.model` and `given.store` are for the tests of Marquetry itself".to_owned(),
            ));
        }
        let mut config = json!({
            "artifacts": {"store": "memory"},
            // Nothing in the home directory is used.
            "knowledge": {"enabled": false},
            "plantuml": {"engine": "off"},
            // A busy machine may take its time to start a process.
            "gateway": {"list_wait_ms": 30_000},
            // Each start would be a line among the results.
            "log": {"level": "warn"},
            "mcp_servers": start.upstreams,
        });
        for (key, value) in [("seed", json!(given.seed)), ("clock", json!(given.clock))] {
            if !value.is_null() {
                config["testing"][key] = value;
            }
        }
        let config = toml::to_string(&given.configured(config))
            .map_err(|error| StartError::Failed(format!("`given.config`: {error}")))?;
        let file = start.folder.join("marquetry.toml");
        fs::write(&file, config)?;
        let arguments = ["stdio".into(), "--config".into(), file.to_string_lossy()];
        CommandServer::new(self.program.to_string_lossy(), arguments).start_command()
    }
}
