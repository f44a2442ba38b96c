//! The scenario language: one YAML file tells what is given, what is done and what must come of it.
//!
//! The README describes it for people who write scenarios; the types here are what it means,
//! and the JSON Schema that editors complete it by is made from them.

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
    matrix::{Cell, Limits, Store, Transport},
    schema::schema,
    units::Span,
};
pub(crate) use self::{
    compare::{Context, Mismatch},
    expect::{Artifact, Artifacts, Expect, FinalExpect},
    given::{Answer, Item, Over, Question, Tool, View},
    load::{Loaded, load},
    matcher::Matcher,
    matrix::Matrix,
    source::{Source, SourceError},
    step::{Action, HttpRequest, Step, UpstreamEvent},
    template::Template,
};

/// One scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name; the file's name without `.yaml`.
    pub(crate) id: String,
    /// The seed's test that it proves, such as `000/2.1.2`.
    pub(crate) seed: Option<String>,
    /// What it shows, as one sentence.
    pub(crate) title: String,
    /// Which transports, revisions and stores it runs on; all of them unless said.
    #[serde(default)]
    pub(crate) matrix: Matrix,
    /// What is there before the first step.
    #[serde(default)]
    pub(crate) given: Given,
    /// What is done, in order.
    #[schemars(with = "Vec<Step>", length(min = 1))]
    pub(crate) steps: Vec<Spanned<Step>>,
    /// What must be so after the last step.
    #[serde(default)]
    pub(crate) expect: FinalExpect,
}
