#![doc = include_str!("../README.md")]

mod block;
mod build;
mod datamark;
mod filter;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod json;
mod legacy;
mod markup;
mod neutralize;
mod parse;
mod splice;
mod trust;
mod uri;
mod user_text;

pub use crate::{
    block::{Block, Element, Payload},
    build::{Builder, Context, InlineResource},
    filter::{Contexts, Filter, Filtered},
    legacy::{downgrade, upgrade},
    neutralize::neutralize,
    parse::{Blocks, Parsed, Problem, ProblemKind, blocks, parse},
    trust::Trust,
    uri::{Am7Uri, Am7UriBuilder, Am7UriError},
    user_text::{LegacyTokens, user_text},
};
