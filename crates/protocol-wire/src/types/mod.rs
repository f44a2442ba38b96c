//! Types of the values in requests and results, the same for every revision.
//!
//! A member that a revision does not have is absent in its messages. Types whose values are passed
//! through keep unknown members (`extra`).

mod annotations;
mod cache;
mod capabilities;
mod content;
mod icon;
mod interaction;
mod lifecycle;
mod prompt;
mod resource;
mod role;
mod sampling;
mod task;
mod tool;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

pub use self::{
    annotations::Annotations,
    cache::{CacheHint, CacheScope},
    capabilities::{
        ClientCapabilities, ElicitationCapability, ListChanged, ResourcesCapability,
        RootsCapability, SamplingCapability, ServerCapabilities,
    },
    content::Content,
    icon::Icon,
    interaction::{
        CompleteArgument, CompleteContext, CompleteParams, CompleteReference, CompleteResult,
        Completion, ElicitAction, ElicitParams, ElicitResult, ListRootsResult, LogLevel, Root,
    },
    lifecycle::{
        DiscoverResult, Implementation, InitializeParams, InitializeResult, RequestMeta, meta_key,
    },
    prompt::{
        GetPromptParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
    },
    resource::{
        ListResourceTemplatesResult, ListResourcesResult, ReadResourceParams, ReadResourceResult,
        Resource, ResourceContents, ResourceTemplate,
    },
    role::Role,
    sampling::{
        CreateMessageParams, CreateMessageResult, SamplingContent, SamplingMessage, SamplingTool,
    },
    task::{InputRequest, TASKS_EXTENSION, Task, TaskStatus},
    tool::{CallToolParams, CallToolResult, ListToolsResult, Tool, ToolAnnotations},
};

/// Treats an invalid value as a missing one, so that it does not hide its neighbours.
fn valid_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + DeserializeOwned,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// A JSON object, in the order in which it was written.
pub type JsonObject = serde_json::Map<String, serde_json::Value>;
