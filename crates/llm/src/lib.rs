//! Chat models behind one small trait.
//!
//! ```
//! use marquetry_llm::{ChatAnswer, ChatModel, ChatRequest, Message, ScriptedModel};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // In production: RemoteModel::new(ModelConfig::new(Provider::Ollama, "qwen3:4b"))?
//! let model: Box<dyn ChatModel> = Box::new(ScriptedModel::new([ChatAnswer::text("Good morning.")]));
//! let mut shown = String::new();
//! let request = ChatRequest::new([Message::system("Be polite."), Message::user("Morning!")]);
//! let answer = model.stream(&request, &mut |text| shown.push_str(text)).await?;
//! assert_eq!(shown, answer.text);
//! # Ok::<(), marquetry_llm::ChatError>(())
//! # }).unwrap();
//! ```
//!
//! [`RemoteModel`] (feature `remote`, on by default) speaks OpenAI's chat completions and Anthropic's messages, by way
//! of the crate genai; [`ScriptedModel`] says what a test tells it to.
//!
//! # What to know
//!
//! - A request is sent again when the provider is busy (429, 5xx) or cannot be reached, up to
//!   [`ModelConfig::retries`], after the wait that the provider asks for. A streamed answer is not begun twice.
//! - Each attempt has [`ModelConfig::timeout`]; while an answer streams, each piece has. All of it together, with the
//!   waits between attempts, has [`ModelConfig::answer_timeout`].
//! - A streamed answer is given up when its text and reasoning are longer than [`ModelConfig::max_answer_bytes`]. What
//!   genai reads in one piece is bounded by those times alone, not in bytes: the answer to
//!   [`ChatModel::chat`], the body of an error, and one event of a stream. Ask only
//!   providers that are trusted with this program's memory.
//! - What a provider says of its failure is shown without control characters and marks that change the direction of
//!   writing.
//! - A provider on this machine is reached without any proxy; what is meant for this machine does not leave it.
//! - Redirects are not followed, and no error shows the key.
//! - A JSON schema is a wish: what comes back must be checked.

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
