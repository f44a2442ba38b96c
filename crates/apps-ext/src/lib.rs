#![doc = include_str!("../README.md")]

#[cfg(feature = "server")]
pub mod server;
pub mod types;
