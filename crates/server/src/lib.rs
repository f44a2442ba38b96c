#![doc = include_str!("../README.md")]

mod app;
mod approvals;
mod call_rate;
mod changes;
#[cfg(feature = "cli")]
pub mod cli;
mod console;
mod events;
mod faults;
mod handler;
mod health;
mod home;
mod http;
mod knowledge;
mod limits;
mod observation;
mod reload;
mod rest;
mod tools;
mod watched_store;

pub use marquetry_config::{Config, ConfigError, Position, ServerSwitches, Transport, sections};

pub use crate::{
    app::{App, AppBuilder, StartError},
    reload::{ConfigSource, Reloaded},
};

/// The MCP crate: types for tools and authenticators.
pub use marquetry_protocol as protocol;
