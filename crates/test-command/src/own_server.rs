//! This program as the tested server of scenarios. The servers of a scenario are upstreams of its
//! gateway.

use std::{
    fs,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use marquetry_scenarios::{
    CommandServer, Limits, Revision, RunningServer, ServerSetup, ServerStartError, TestedServer,
    Transport,
};
use serde_json::json;

/// The command that serves one server of a scenario on standard input and output. Its argument is
/// the file that describes the server.
const SERVE_UPSTREAM: &str = "scenario-upstream";

/// This program, which each scenario starts with a separate configuration.
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

    async fn start(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Box<dyn RunningServer>, ServerStartError> {
        let given = setup.given;
        if given.model.is_some() || !given.store.is_empty() {
            return Err(ServerStartError::Failed(
                "`given.model` and `given.store` are for the tests of Marquetry itself".to_owned(),
            ));
        }
        let mut config = json!({
            "artifacts": {"store": "memory"},
            // The database in the home directory must not be used.
            "knowledge": {"enabled": false},
            "plantuml": {"engine": "off"},
            // On a busy machine the start of a process may take long.
            // Pins of the user's servers know nothing of these.
            "gateway": {"list_wait_ms": 30_000, "pins_file": setup.folder.join("pins.json")},
            // Otherwise each start would print a line between the results.
            "log": {"level": "warn"},
            "mcp_servers": setup.upstreams,
        });
        for (key, value) in [("seed", json!(given.seed)), ("clock", json!(given.clock))] {
            if !value.is_null() {
                config["testing"][key] = value;
            }
        }
        let config = toml::to_string(&given.configured(config))
            .map_err(|error| ServerStartError::Failed(format!("`given.config`: {error}")))?;
        let file = setup.folder.join("marquetry.toml");
        fs::write(&file, config)?;
        let arguments = ["stdio".into(), "--config".into(), file.to_string_lossy()];
        CommandServer::new(self.program.to_string_lossy(), arguments).start_command()
    }
}
