//! Upstream servers as a scenario gives them: real MCP servers whose answers are data.
//!
//! One that speaks over stdio is a program that calls [`serve`] with the file that describes it; the gateway starts
//! it as it starts any child. One that speaks HTTP runs in the runner on a loopback port.

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
