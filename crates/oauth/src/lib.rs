#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "client", feature = "server"))]
mod fetch;
mod lenient;
mod metadata;
#[cfg(any(feature = "client", feature = "server"))]
mod provider;
mod secret;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "client")]
mod signing_key;
#[cfg(any(feature = "client", feature = "server"))]
mod url;

#[cfg(feature = "client")]
pub use crate::signing_key::{Algorithm, SigningKey, SigningKeyError};
pub use crate::{metadata::ResourceMetadata, secret::Secret};
