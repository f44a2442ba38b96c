//! Test cases, with the seed's names in JSON (seed 004) and ours beside them.

mod expected;
mod limits;
mod model;
mod server;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::schema_of;

pub use self::{
    expected::{Expectations, ExpectedTool, Matching, ResultExpectation},
    limits::Limits,
    model::{ModelSettings, Price},
    server::ServerConfig,
};

/// A prompt that a model works on with the tools of MCP servers, and the expected behaviour.
///
/// ```
/// let case: marquetry_judge::TestCase = serde_json::from_str(r#"{
///     "name": "File Creation Test",
///     "prompt": "Create a file called hello.txt",
///     "expectedTools": ["create_file"],
///     "serverConfigs": [{"type": "stdio", "command": "file-server"}],
///     "judgeConfig": {"provider": "openai", "model": "gpt-4", "temperature": 0.1, "maxTokens": 1000}
/// }"#)?;
/// assert_eq!(case.expected_tools.unwrap()[0].name, "create_file");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TestCase {
    /// Its name; results of the same name are the history of one case.
    pub name: String,
    /// The task for the model.
    pub prompt: String,
    /// Instructions for the model, instead of the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The tools that the model should call. An empty list means that it should call none; without
    /// a list, the calls are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_tools: Option<Vec<ExpectedTool>>,
    /// How the calls must agree with `expectedTools`.
    pub matching: Matching,
    /// The MCP servers whose tools the model gets. Absent: those that the runner is configured
    /// with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_configs: Option<Vec<ServerConfig>>,
    /// Names of the tools that the model gets; absent: all tools of the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The model that judges. It also works on the prompt, unless `agentConfig` names another
    /// model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge_config: Option<ModelSettings>,
    /// The model that works on the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_config: Option<ModelSettings>,
    /// Statements about the run that the judge answers with yes or no; absent: four usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checklist: Option<Vec<String>>,
    /// Whether a judge is asked; absent: if there is a `judgeConfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<bool>,
    /// Expectations of the whole run, which code checks.
    pub expect: Expectations,
    /// How often the case is tried: 1 to 100. After 3 trials in a row without a verdict, the
    /// remaining repetitions are skipped.
    pub repetitions: u32,
    /// The minimum share of trials that must pass: more than 0, and at most 1.
    pub required_pass_rate: f64,
    /// Limits of each trial.
    pub limits: Limits,
    /// Text for the people who read the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Values of variables that a configuration has put into the case: no result may have them.
    #[serde(skip)]
    pub(crate) variable_values: Vec<String>,
}

impl TestCase {
    /// Returns a case with a name and a prompt.
    pub fn new(name: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self { name: name.into(), prompt: prompt.into(), ..Self::default() }
    }

    /// Adds values that no result may have, such as those of variables that were put into it.
    pub fn hide_values(&mut self, values: Vec<String>) {
        self.variable_values.extend(values);
    }

    /// Returns the JSON Schema of test cases.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schema_of::<Self>()
    }

    /// Returns the model that works on the prompt: `agentConfig`, else `judgeConfig`.
    pub fn agent(&self) -> Option<&ModelSettings> {
        self.agent_config.as_ref().or(self.judge_config.as_ref())
    }

    /// The member that has the settings of [`Self::agent`].
    pub(crate) fn agent_member(&self) -> &'static str {
        if self.agent_config.is_some() { "agentConfig" } else { "judgeConfig" }
    }

    /// Returns the model that judges, unless no judge is asked.
    pub fn judge(&self) -> Option<&ModelSettings> {
        self.judge_config.as_ref().filter(|_| self.judged != Some(false))
    }
}

impl Default for TestCase {
    /// A case without a name and a prompt, with the defaults of all else.
    fn default() -> Self {
        Self {
            name: String::new(),
            prompt: String::new(),
            system_prompt: None,
            expected_tools: None,
            matching: Matching::default(),
            server_configs: None,
            tools: None,
            judge_config: None,
            agent_config: None,
            checklist: None,
            judged: None,
            expect: Expectations::default(),
            repetitions: 1,
            required_pass_rate: 1.0,
            limits: Limits::default(),
            description: None,
            variable_values: Vec::new(),
        }
    }
}
