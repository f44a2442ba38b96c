#![doc = include_str!("../README.md")]

mod access;
mod announce;
pub mod config;
mod error;
mod failure;
mod identity;
pub mod kinds;
mod knowledge;
mod location;
mod media;
mod models;
mod options;
mod parameters;
mod quota;
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
    search::{Passage, PassageDetails, PassageQuery, StoredPassage},
    search_method::{SEARCH_RESOURCES, search_resources},
    service::KnowledgeService,
    tools::{AnswerLimits, KnowledgeTools},
};
