#![doc = include_str!("../README.md")]

mod language;
pub mod plain_http;
mod run;
mod server;
pub mod upstream;
mod web_socket;

/// The revisions of MCP. The type is [`marquetry_protocol::Revision`].
pub use marquetry_protocol::Revision;

pub use self::{
    language::{Limits, LoadError, MatrixCell, Rules, Scenario, Store, Transport, schema},
    run::{Case, Filter, Format, Options, Outcome, Suite, agent_options, assert_all_pass},
    server::{
        CommandServer, Connection, PipeServer, RunningServer, ServerSetup, ServerStartError,
        TestedServer, UrlServer,
    },
    upstream::serve as serve_upstream,
};

/// The part `given` of a scenario, for implementations of [`TestedServer`].
pub mod given {
    pub use crate::language::{
        AgentAnswers, Given, ModelAnswer, Span, StoreCall, StoreFault, Upstream,
    };
}
