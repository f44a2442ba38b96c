//! Record types with a meaning for search and chat; seed 003, parts 4 and 13.

/// A chat.
pub const CHAT: &str = "olio.llm.chatRequest";
/// The model of a chat, and its character.
pub const CHAT_CONFIG: &str = "olio.llm.chatConfig";
/// A character that speaks in a chat.
pub const CHARACTER: &str = "olio.charPerson";
/// A passage of a document.
pub const CHUNK: &str = "common.vectorModelStore";
/// A document or medium.
pub const DATA: &str = "data.data";
/// The state of a chat at a time.
pub const KEYFRAME: &str = "narrative.keyframe";
/// A note, whose text is an attribute.
pub const NOTE: &str = "data.note";
/// A prompt.
pub const PROMPT_CONFIG: &str = "olio.llm.promptConfig";
/// Facts that a model gets with each message.
pub const REMINDER: &str = "narrative.reminder";
