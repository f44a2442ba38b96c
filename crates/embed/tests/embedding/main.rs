//! Models that make vectors.

#[cfg(any(feature = "builtin-model", feature = "transformer"))]
mod executor;
#[cfg(feature = "transformer")]
mod folder;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod server;
#[cfg(feature = "transformer")]
mod transformer;
