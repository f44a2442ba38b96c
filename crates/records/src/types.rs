//! The table of types of records.

use serde_json::Value;

/// A type of records, which AccountManager7, the source of the names, calls a model.
///
/// ```
/// use marquetry_records::ModelType;
///
/// let note = ModelType::of("data.note")?;
/// assert!(note.attributes.iter().any(|attribute| attribute.name == "text"));
/// assert_eq!(ModelType::of("data.nots").unwrap_err().to_string(), "no type \"data.nots\"; did you mean data.note?");
/// # Ok::<(), marquetry_records::RecordError>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelType {
    /// Name of the type, such as `data.data`.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Purpose of the type.
    pub description: &'static str,
    /// The attributes with a known kind. Other attributes are stored unchecked: the models of
    /// AccountManager7 have hundreds of attributes, and new ones are added.
    pub attributes: &'static [AttributeType],
}

/// An attribute of a type.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttributeType {
    /// Name of the attribute.
    pub name: &'static str,
    /// Kind of the value. Null counts as absent.
    pub kind: AttributeKind,
    /// Purpose of the attribute.
    pub description: &'static str,
    /// Whether a record must have it.
    pub required: bool,
}

/// Kind of the value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeKind {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
    /// A list of any values.
    Array,
    /// An object.
    Object,
    /// An `am7://` URI.
    Uri,
    /// A list of `am7://` URIs.
    Uris,
    /// A list of texts.
    Texts,
}

impl AttributeKind {
    /// Returns the `type` of JSON Schema.
    pub fn json_type(self) -> &'static str {
        match self {
            Self::Text | Self::Uri => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array | Self::Uris | Self::Texts => "array",
            Self::Object => "object",
        }
    }

    /// Describes the kind in an error message.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Array => "a list",
            Self::Object => "an object",
            Self::Uri => "an am7:// URI",
            Self::Uris => "a list of am7:// URIs",
            Self::Texts => "a list of texts",
        }
    }

    /// Returns whether a JSON value is of this kind.
    pub(crate) fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
            Self::Uri => is_uri(value),
            Self::Uris => value.as_array().is_some_and(|list| list.iter().all(is_uri)),
            Self::Texts => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        }
    }
}

fn is_uri(value: &Value) -> bool {
    value.as_str().is_some_and(|uri| uri.starts_with("am7://"))
}

impl ModelType {
    /// All types.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "system.user",
            title: "User",
            description: "A user, who owns and reads records",
            attributes: &[
                text("status", "NORMAL, ACTIVE, DISABLED and the like"),
                text("description", "A description of the user"),
                text("email", "An email address"),
            ],
        },
        Self {
            name: "auth.group",
            title: "Group",
            description: "Users under one name, and a folder of records",
            attributes: &[
                of("members", AttributeKind::Uris, "URIs of the users and groups in it"),
                text("description", "The purpose of the group"),
                text("groupType", "DATA, USER, ACCOUNT and the like"),
            ],
        },
        Self {
            name: "common.tag",
            title: "Tag",
            description: "A label by which records are found",
            attributes: &[text("description", "The purpose of the tag")],
        },
        Self {
            name: "data.data",
            title: "Document",
            description: "A document, a picture or a recording, with its bytes",
            attributes: &[
                text("description", "A description of the document"),
                text("fileName", "The name of the original file"),
                of("size", AttributeKind::Integer, "Its size in bytes"),
                text("sourceUri", "The URI of its source"),
                text("content", "Its text, if it has no bytes"),
            ],
        },
        Self {
            name: "data.note",
            title: "Note",
            description: "A text",
            attributes: &[text("text", "The text"), text("description", "The subject of the text")],
        },
        Self {
            name: "olio.charPerson",
            title: "Character",
            description: "A person in a story",
            attributes: &[
                text("firstName", "The first name"),
                text("middleName", "The middle name"),
                text("lastName", "The last name"),
                text("gender", "The gender"),
                of("age", AttributeKind::Integer, "The age in years"),
                of("race", AttributeKind::Texts, "The races"),
                text("description", "Appearance and personality"),
                text("narrative", "The narrative description"),
            ],
        },
        Self {
            name: "olio.llm.chatConfig",
            title: "Chat configuration",
            description: "The chat model, and the characters of model and user",
            attributes: &[
                text("model", "The name of the chat model"),
                text("serviceType", "The kind of the service: OPENAI, OLLAMA and the like"),
                text("serverUrl", "The URL of the service"),
                uri("systemCharacter", "The character that the model plays"),
                uri("userCharacter", "The character that the user plays"),
                uri("promptConfig", "The prompt configuration"),
                text("systemPrompt", "The system prompt"),
                of("temperature", AttributeKind::Number, "The sampling temperature"),
                of(
                    "maxTokens",
                    AttributeKind::Integer,
                    "The maximum length of an answer, in tokens",
                ),
                of("messageTrim", AttributeKind::Integer, "The number of earlier messages to send"),
            ],
        },
        Self {
            name: "olio.llm.promptConfig",
            title: "Prompt configuration",
            description: "Templates of prompts",
            attributes: &[
                of("system", AttributeKind::Texts, "The system prompt, by lines"),
                of("user", AttributeKind::Texts, "The first message of the user, by lines"),
                of("assistant", AttributeKind::Texts, "The first message of the model, by lines"),
                of(
                    "userCitation",
                    AttributeKind::Texts,
                    "Instructions for the use of citations, by lines",
                ),
            ],
        },
        Self {
            name: "olio.llm.chatRequest",
            title: "Chat",
            description: "A chat: its configuration, and the session with its messages",
            attributes: &[
                uri("chatConfig", "Its configuration"),
                uri("promptConfig", "Its prompts"),
                uri("session", "A record with the messages so far, if they are not here"),
                of("messages", AttributeKind::Array, "The messages so far, the oldest first"),
                of(
                    "droppedMessages",
                    AttributeKind::Integer,
                    "The number of older messages that were dropped",
                ),
                of("dataReferences", AttributeKind::Uris, "Records that it cites"),
                text("setting", "The place of the story"),
            ],
        },
        Self {
            name: "narrative.reminder",
            title: "Reminder",
            description: "Facts that a model gets with each message of its owner, until they expire",
            attributes: &[
                of("items", AttributeKind::Array, "The facts: a list of {key, value}"),
                text("expires", "Time (RFC 3339) of its expiry"),
                uri(
                    "chatRequest",
                    "The chat that it belongs to; without it, all chats of its owner",
                ),
                text("schema", "Schema of its data; urn:am7:narrative:reminder by default"),
            ],
        },
        Self {
            name: "narrative.keyframe",
            title: "Keyframe",
            description: "The state of a story or a task at a time. The newest one counts",
            attributes: &[
                of("state", AttributeKind::Object, "The state"),
                text("timestamp", "Its time (RFC 3339); without it, the time of its last change"),
                text("expires", "Time (RFC 3339) of its expiry"),
                uri(
                    "chatRequest",
                    "The chat that it belongs to; without it, all chats of its owner",
                ),
                of("number", AttributeKind::Integer, "Its number, if the model wrote it"),
                text("schema", "Schema of its data; urn:am7:narrative:keyframe by default"),
            ],
        },
        Self {
            name: "olio.llm.openai.openaiRequest",
            title: "Chat session",
            description: "The messages of a chat",
            attributes: &[
                text("model", "The name of the chat model"),
                of("messages", AttributeKind::Array, "The messages, the oldest first"),
                of("stream", AttributeKind::Boolean, "Whether answers are streamed"),
            ],
        },
        Self {
            name: "olio.llm.openai.openaiMessage",
            title: "Chat message",
            description: "A message of a chat",
            attributes: &[
                text("role", "The author: system, user or assistant"),
                text("content", "The text"),
            ],
        },
        Self {
            name: "olio.vectorChatHistory",
            title: "Chunk of a chat",
            description: "A piece of a chat with its vector",
            attributes: &CHUNK_OF_CHAT,
        },
        Self {
            name: "olio.vectorChatHistoryList",
            title: "Chunks of a chat",
            description: "The pieces of a chat with their vectors",
            attributes: &[of("vectors", AttributeKind::Array, "The pieces")],
        },
        Self {
            name: "common.vectorModelStore",
            title: "Chunk",
            description: "A piece of a document with its vector",
            attributes: &CHUNK,
        },
    ];
}

const CHUNK: [AttributeType; 6] = [
    AttributeType { required: true, ..text("content", "The text") },
    AttributeType { required: true, ..uri("vectorReferenceUri", "Its source record") },
    text("vectorReferenceType", "The type of its source record"),
    of("chunk", AttributeKind::Integer, "Its index, from 0"),
    of("chunkCount", AttributeKind::Integer, "The number of pieces"),
    of("score", AttributeKind::Number, "Its relevance to a question"),
];

const CHUNK_OF_CHAT: [AttributeType; 9] = {
    let [content, reference, kind, chunk, count, _] = CHUNK;
    [
        content,
        reference,
        kind,
        chunk,
        count,
        uri("chatConfig", "The chat's configuration"),
        uri("promptConfig", "The chat's prompts"),
        uri("systemCharacter", "The character of the model"),
        uri("userCharacter", "The character of the user"),
    ]
};

const fn of(name: &'static str, kind: AttributeKind, description: &'static str) -> AttributeType {
    AttributeType { name, kind, description, required: false }
}

const fn text(name: &'static str, description: &'static str) -> AttributeType {
    of(name, AttributeKind::Text, description)
}

const fn uri(name: &'static str, description: &'static str) -> AttributeType {
    of(name, AttributeKind::Uri, description)
}
