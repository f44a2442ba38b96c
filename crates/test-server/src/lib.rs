#![doc = include_str!("../README.md")]

#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "client")]
pub mod client;
mod executor;
#[cfg(any(feature = "api", feature = "client"))]
mod query;

pub use marquetry_judge::{ModelSettings, ServerConfig, TestCase, TestResult};

#[cfg(feature = "api")]
pub use crate::api::{ApiOptions, TestApi};
#[cfg(feature = "client")]
pub use crate::client::{ClientError, TestClient};
pub use crate::executor::{CaseDefaults, Commands, Health, Tests};
