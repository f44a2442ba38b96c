#![doc = include_str!("../README.md")]

mod database;
mod error;
mod index;
mod output;
mod records;
mod search;
mod terminal;

pub use self::{
    database::{DatabaseArgs, Settings},
    error::LibraryCommandError,
    index::{IndexArgs, index},
    output::write_to_stdout,
    records::{RecordsArgs, records},
    search::{SearchArgs, search},
};
