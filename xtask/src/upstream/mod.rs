//! Upstream servers as a scenario gives them: real MCP servers whose answers are data.
//!
//! One that speaks over stdio is this program again, as `xtask upstream SPEC`; the gateway starts it
//! as it starts any child. One that speaks HTTP runs in the runner on a loopback port.

mod answer;
mod child;
mod hosted;
mod journal;
mod server;
mod spec;

pub(crate) use self::{
    child::serve,
    hosted::{HttpUpstream, StdioUpstream},
    journal::Journal,
    spec::{Offer, Spec, ToolSpec, resolve_tools},
};
