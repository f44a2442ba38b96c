//! Record types that this crate uses by name; seed 003, parts 4 and 13.

/// A chat.
pub(crate) const CHAT: &str = "olio.llm.chatRequest";
/// The model of a chat, and its character.
pub(crate) const CHAT_CONFIG: &str = "olio.llm.chatConfig";
/// A character that speaks in a chat.
pub(crate) const CHARACTER: &str = "olio.charPerson";
/// A passage of a document.
pub(crate) const CHUNK: &str = "common.vectorModelStore";
/// A document or medium.
pub(crate) const DATA: &str = "data.data";
/// The state of a chat at a time.
pub(crate) const KEYFRAME: &str = "narrative.keyframe";
/// A note, whose text is an attribute.
pub(crate) const NOTE: &str = "data.note";
/// A prompt.
pub(crate) const PROMPT_CONFIG: &str = "olio.llm.promptConfig";
/// Facts that a model gets with each message.
pub(crate) const REMINDER: &str = "narrative.reminder";
