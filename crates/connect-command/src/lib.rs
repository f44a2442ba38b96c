#![doc = include_str!("../README.md")]

mod apply;
mod arguments;
mod collect;
mod connect;
mod differences;
mod fetch;
mod guide;
mod import;
mod machine;
mod move_secrets;
mod registry;
mod undo;

pub use crate::{
    arguments::{Conflict, ConnectArgs, ImportArgs, TransportKind},
    connect::connect,
    guide::guide,
    import::import,
    machine::{ConnectCommandError, Dialog, Machine, TerminalDialog, program_on_path},
};
