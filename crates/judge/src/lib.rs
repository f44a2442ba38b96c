#![doc = include_str!("../README.md")]

mod agent;
mod budget;
pub mod case;
mod case_check;
pub mod case_file;
pub mod cassette;
pub mod check;
mod configuration;
mod connect;
mod error;
mod event;
pub mod fault;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;

pub mod judge;
pub mod matcher;
mod models;
mod page;
mod redact;
pub mod report;
pub mod result;
mod runner;
mod schema;
pub mod stats;
pub mod store;
mod time;

pub use marquetry_database::DatabaseError;
pub use marquetry_llm::ApiKey;

#[cfg(feature = "libsql")]
pub use crate::store::LibsqlStore;
pub use crate::{
    budget::LimitReached,
    case::{ExpectedTool, Limits, Matching, ModelSettings, ServerConfig, TestCase},
    error::TrialError,
    event::TestEvent,
    models::{FixedModels, Models, RemoteModels, Role},
    result::{Status, TestResult, ToolCallRecord, Trial, Verdict},
    runner::{RunContext, Runner},
    store::{MemoryStore, ResultStore, StoreError},
    time::Timestamp,
};
