#![doc = include_str!("../README.md")]

mod answer;
#[cfg(unix)]
mod client;
mod hangups;
#[cfg(unix)]
mod server;

pub use crate::{answer::Answer, hangups::Hangups};
#[cfg(unix)]
pub use crate::{
    client::{RunningServer, ask, servers},
    server::Server,
};
