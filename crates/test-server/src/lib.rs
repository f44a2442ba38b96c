#![doc = include_str!("../README.md")]

#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "api", feature = "client"))]
mod query;
mod tests;

pub use marquetry_judge::{ModelSettings, ServerConfig, TestCase, TestResult};

#[cfg(feature = "api")]
pub use crate::api::{ApiOptions, TestApi};
#[cfg(feature = "client")]
pub use crate::client::{ClientError, TestClient};
pub use crate::tests::{CaseDefaults, Commands, Health, Tests};
