#![doc = include_str!("../README.md")]

mod access;
mod characters;
pub mod chat;
pub mod config;
mod context;
mod error;
mod failure;
mod kinds;
mod knowledge;
mod location;
mod media;
mod models;
mod open;
mod options;
mod parameters;
pub mod prompts;
pub mod resources;
mod search;
mod search_method;
mod service;
mod text;
pub mod tools;
mod vectorize;
mod watch;
mod work;

pub use crate::{
    access::Access,
    config::{KnowledgeConfig, Variables},
    error::KnowledgeError,
    failure::{ErrorCode, Failure},
    knowledge::Knowledge,
    location::DatabaseLocation,
    media::Media,
    options::KnowledgeOptions,
    search::{Passage, PassageDetails, Question},
    search_method::{SEARCH_RESOURCES, search_resources},
    service::KnowledgeService,
    tools::{AnswerLimits, KnowledgeTools},
};
