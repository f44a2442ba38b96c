#![doc = include_str!("../README.md")]

mod answer;
mod call;
mod definitions;
mod lists;
mod options;
mod search;

pub use crate::{
    call::{not_found, target},
    definitions::{CALL, SEARCH},
    options::{Client, Mode, SearchOptions},
    search::{Origin, ToolSearch},
};
