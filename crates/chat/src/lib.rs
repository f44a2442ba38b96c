#![doc = include_str!("../README.md")]

mod characters;
mod chat;
mod context;
pub mod prompts;
mod tool;

pub use crate::{
    chat::{
        AnswerListener, CREATE_MESSAGE, Chat, ChatArguments, ChatList, ChatReply, ChatSummary,
        Conversation, Counts, SamplingPart, SamplingStream, TurnContext, TurnItem, chats,
        conversation,
    },
    context::{ContextItem, ContextKind, OmittedContext},
    tool::{CHAT_TOOL, ChatTool},
};
