#![doc = include_str!("../README.md")]

#[cfg(feature = "api")]
pub mod api;
pub mod cases;
#[cfg(feature = "client")]
pub mod client;
mod environment;
#[cfg(any(feature = "api", feature = "client"))]
mod query;
mod tests;

pub use marquetry_judge::{ModelSettings, ServerConfig, TestCase, TestResult};

#[cfg(feature = "api")]
pub use crate::api::{ApiOptions, TestApi};
#[cfg(feature = "client")]
pub use crate::client::{ClientError, TestClient};
pub use crate::{
    cases::{CaseFile, CaseFileError},
    environment::ModelEnvironment,
    tests::{CaseDefaults, Commands, Health, Tests},
};
