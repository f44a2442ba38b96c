//! Turning text into vectors.

#[cfg(feature = "builtin-model")]
mod static_model;
#[cfg(feature = "builtin-model")]
mod wordpiece;

#[cfg(feature = "builtin-model")]
pub use static_model::StaticModel;
