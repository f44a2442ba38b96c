#![doc = include_str!("../README.md")]

mod index;
mod ranking;
mod synonyms;
mod text;
mod vectors;
mod words;

pub use crate::{
    index::ToolIndex,
    ranking::Hit,
    text::{Argument, Embed, ToolText},
};
