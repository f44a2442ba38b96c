//! Upstream servers of a scenario: real MCP servers with prescribed answers.
//!
//! The gateway starts an upstream over stdio as a child process: a program that calls [`serve`]
//! with the file that describes the upstream. An upstream over HTTP runs in the runner, on a
//! loopback port.

mod answer;
mod child;
mod hosted;
mod journal;
mod server;
mod spec;

pub use self::{
    child::serve,
    journal::Journal,
    spec::{Offer, Spec},
};
pub(crate) use self::{
    hosted::{HttpUpstream, StdioUpstream},
    spec::{ToolSpec, ViewSpec, resolve_tools},
};
