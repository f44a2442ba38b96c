#![doc = include_str!("../README.md")]

mod env_file;
mod error;
mod file;
mod form;
mod json;
pub mod transport;

pub use marquetry_secrets::expand::{self, Variables};

pub use crate::{
    error::{ConfigError, Position, dotted},
    file::{
        ClientFile, ClientServer, Input, PickOption, ReadOptions, References, ToolLists,
        not_started,
    },
    transport::Transport,
};
