#![doc = include_str!("../README.md")]

mod language;
pub mod plain_http;
mod run;
mod server;
pub mod upstream;

pub use self::{
    language::{Cell, Limits, LoadError, Revision, Rules, Scenario, Store, Transport, schema},
    run::{Case, Filter, Format, Options, Outcome, Suite, agent_options, assert_all_pass},
    server::{
        CommandServer, Connection, PipeServer, RunningServer, Start, StartError, TestedServer,
        UrlServer,
    },
    upstream::serve as serve_upstream,
};

/// What a scenario gives, for those who start a server with it.
pub mod given {
    pub use crate::language::{
        AgentAnswers, Given, ModelAnswer, Span, StoreCall, StoreFault, Upstream,
    };
}
