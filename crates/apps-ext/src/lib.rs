#![doc = include_str!("../README.md")]

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod host;
#[cfg(feature = "server")]
pub mod server;
pub mod types;
