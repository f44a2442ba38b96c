//! The scenario language: a YAML file with the state before, the steps, and the expected results.
//!
//! The README describes the language for authors of scenarios. These types define it, and the JSON
//! Schema for editors is generated from them.

mod check;
pub(crate) mod compare;
mod expect;
mod generate;
mod given;
mod load;
mod matcher;
mod matrix;
mod schema;
mod source;
mod step;
mod template;
mod units;
pub(crate) mod vars;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_yaml::Spanned;

pub use self::{
    check::Rules,
    given::{AgentAnswers, Given, ModelAnswer, StoreCall, StoreFault, Upstream},
    load::LoadError,
    matrix::{Limits, MatrixCell, Store, Transport},
    schema::schema,
    units::Span,
};
pub(crate) use self::{
    compare::{Context, Mismatch},
    expect::{Artifact, Artifacts, Expect, FinalExpect},
    given::{Answer, Item, Over, Question, Tool, View},
    load::{LoadedScenario, load},
    matcher::Matcher,
    matrix::Matrix,
    source::{Source, SourceError},
    step::{Action, HttpRequest, SocketExchange, Step, UpstreamEvent},
    template::Template,
};

/// One scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name; the file's name without `.yaml`.
    pub(crate) id: String,
    /// The test of a specification that it implements, such as `000/2.1.2`. The seed of random
    /// numbers is `given.seed`.
    pub(crate) seed: Option<String>,
    /// The behaviour that the scenario tests, in one sentence.
    pub(crate) title: String,
    /// The transports, revisions and stores that it runs with; by default all.
    #[serde(default)]
    pub(crate) matrix: Matrix,
    /// The state before the first step.
    #[serde(default)]
    pub(crate) given: Given,
    /// The steps, in order.
    #[schemars(with = "Vec<Step>", length(min = 1))]
    pub(crate) steps: Vec<Spanned<Step>>,
    /// The expected state after the last step.
    #[serde(default)]
    pub(crate) expect: FinalExpect,
}
