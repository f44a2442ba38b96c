#![doc = include_str!("../README.md")]

mod config;
mod error;
mod message;
mod model;
#[cfg(feature = "scripted-provider")]
mod provider;
#[cfg(feature = "remote")]
mod remote;
#[cfg(feature = "remote")]
mod retry;
mod scripted;

#[cfg(feature = "scripted-provider")]
pub use crate::provider::{ProviderAnswer, ProviderRequest, ScriptedProvider};
#[cfg(feature = "remote")]
pub use crate::remote::RemoteModel;
pub use crate::{
    config::{ApiKey, ModelConfig, Provider},
    error::ChatError,
    message::{ChatAnswer, ChatRequest, Finish, Format, Message, Tool, ToolCall, Usage},
    model::ChatModel,
    scripted::ScriptedModel,
};
