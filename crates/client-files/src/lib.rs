#![doc = include_str!("../README.md")]

mod env_file;
mod error;
pub mod expand;
mod file;
mod json;
pub mod transport;

pub use crate::{
    error::{ConfigError, Position, dotted},
    expand::Variables,
    file::{ClientFile, ClientServer, Input, PickOption, ReadOptions, ToolLists, not_started},
    transport::Transport,
};
