//! Models that make vectors.

#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod server;
