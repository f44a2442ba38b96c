//! Runs tests for the API, with the defaults of this server.

use std::sync::Arc;

use marquetry_judge::{
    ModelSettings, RunContext, Runner, ServerConfig, TestCase, TestResult, case::Limits,
    store::Configuration,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs tests. Members that a test leaves out are filled from the defaults of this server.
#[derive(Clone)]
pub struct Tests {
    runner: Runner,
    defaults: Arc<CaseDefaults>,
}

/// Defaults for members that tests leave out, and bounds of what tests may do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CaseDefaults {
    /// Servers of tests without `serverConfigs`.
    pub server_configs: Option<Vec<ServerConfig>>,
    /// Judge of tests without `judgeConfig`.
    pub judge_config: Option<ModelSettings>,
    /// Agent of tests that have neither `agentConfig` nor `judgeConfig`. A test without an agent
    /// uses its judge's model.
    pub agent_config: Option<ModelSettings>,
    /// Upper bounds of the limits of tests.
    pub limits: Option<Limits>,
    /// Whether tests may name commands to run.
    pub commands: Commands,
}

/// Whether tests from requests may name commands in `serverConfigs`. The server's own servers are
/// not affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commands {
    /// Requests may run programs as the user of this server. Every caller who may send requests can
    /// do that.
    Allowed,
    /// Only URLs.
    #[default]
    Refused,
}

/// State of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Health {
    /// `true`: discovery accepts no other value.
    pub testing: bool,
    /// Open connections of running tests.
    pub connections: usize,
    /// Whether the database answers.
    pub database: bool,
    /// Version of the server.
    pub version: String,
}

impl Tests {
    /// Returns an executor that runs test cases with this runner, and completes them with these
    /// defaults.
    #[must_use]
    pub fn new(runner: Runner, defaults: CaseDefaults) -> Self {
        let runner = match defaults.limits {
            Some(limits) => runner.with_limits(limits),
            None => runner,
        };
        Self { runner, defaults: Arc::new(defaults) }
    }

    /// Returns the runner.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Returns the reason to refuse this test of a request; `None` if it is allowed.
    pub fn refusal(&self, case: &TestCase) -> Option<String> {
        self.refusal_of_servers(case.server_configs.as_deref().unwrap_or_default())
    }

    /// Returns the reason to refuse servers of a request; `None` if they are allowed.
    pub(crate) fn refusal_of_servers(&self, servers: &[ServerConfig]) -> Option<String> {
        let mut servers = servers.iter();
        let names_command = servers.any(|server| matches!(server, ServerConfig::Stdio { .. }));
        (names_command && self.defaults.commands == Commands::Refused).then(|| {
            "this server does not run commands from requests: leave serverConfigs out, name URLs, or allow commands where it is started".to_owned()
        })
    }

    /// Runs a test, completed with the defaults. A test that fails or cannot be run is a result,
    /// too, and every result is stored.
    pub async fn run(&self, case: TestCase, run: Option<&str>) -> TestResult {
        let mut context = RunContext::default();
        if let Some(run) = run {
            context = context.in_run(run);
        }
        self.run_with(case, context).await
    }

    /// Runs a test as [`Self::run`] does, with a context of the caller.
    pub async fn run_with(&self, mut case: TestCase, context: RunContext) -> TestResult {
        self.complete(&mut case);
        self.runner.run_with(case, context).await
    }

    /// Returns the state of this server.
    pub async fn health(&self) -> Health {
        Health {
            testing: true,
            connections: self.runner.open_connections(),
            database: self.runner.store().check().await.is_ok(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Returns the configuration that all these cases share, completed with the defaults of this
    /// server; see [`Configuration::shared_by`].
    #[must_use]
    pub fn configuration(&self, cases: &[TestCase]) -> Option<Configuration> {
        let mut cases = cases.to_vec();
        for case in &mut cases {
            self.complete(case);
        }
        Configuration::shared_by(&cases)
    }

    fn complete(&self, case: &mut TestCase) {
        let CaseDefaults { server_configs, judge_config, agent_config, .. } = &*self.defaults;
        // A test that names an agent or a judge does not get the server's agent.
        let names_model = case.judge_config.is_some() || case.agent_config.is_some();
        if case.server_configs.is_none() {
            case.server_configs.clone_from(server_configs);
        }
        if case.judge_config.is_none() {
            case.judge_config.clone_from(judge_config);
        }
        if case.agent_config.is_none() && !names_model {
            case.agent_config.clone_from(agent_config);
        }
    }
}

#[cfg(test)]
mod tests {
    use marquetry_judge::{MemoryStore, RemoteModels};

    use super::*;

    #[tokio::test]
    async fn tests_stay_within_the_limits_of_the_server() {
        let mut limits = Limits::default();
        limits.max_turns = 3;
        let defaults = CaseDefaults { limits: Some(limits), ..CaseDefaults::default() };
        let runner = Runner::new(RemoteModels::new(), Arc::new(MemoryStore::new()));
        let result = Tests::new(runner, defaults).run(TestCase::new("a", "b"), None).await;
        assert_eq!(result.test_case.limits.max_turns, 3);
    }
}
