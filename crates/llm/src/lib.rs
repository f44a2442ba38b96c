#![doc = include_str!("../README.md")]

mod config;
mod error;
#[cfg(all(any(test, fuzzing), feature = "remote"))]
#[doc(hidden)]
pub mod fuzz;
mod message;
mod model;
#[cfg(feature = "scripted-provider")]
mod provider;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "sampling")]
pub mod sampling;
mod scripted;

pub use marquetry_endpoint::{ApiKey, EndpointFailure};

#[cfg(feature = "scripted-provider")]
pub use crate::provider::{ProviderAnswer, ProviderRequest, ScriptedProvider};
#[cfg(feature = "remote")]
pub use crate::remote::RemoteModel;
pub use crate::{
    config::{ModelConfig, Provider},
    error::ChatError,
    message::{ChatAnswer, ChatRequest, Finish, Format, Message, Tool, ToolCall, Usage},
    model::ChatModel,
    scripted::ScriptedModel,
};
