#![doc = include_str!("../README.md")]

pub mod client;
pub mod diff;
pub mod edit;
mod error;
pub mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod journal;
mod json;
pub mod place;
mod style;
mod toml;
mod yaml;

pub use crate::{
    client::{Client, Launch},
    diff::unified,
    edit::{EditError, Section, Syntax},
    files::{ConfigFile, FileError},
    journal::{Change, CreatedFile, CreatedFileState, Journal, Operation},
    place::{Home, Platform},
};
