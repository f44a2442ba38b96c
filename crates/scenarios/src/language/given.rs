//! The state before the first step: configuration, upstream servers and faults.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use super::{source::Source, units::Span};

/// The state before the first step.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// Settings that replace those of the server's configuration, key by key.
    pub config: Map<String, Value>,
    /// The agent's answers to requests of servers. It offers the capabilities that have an answer
    /// here.
    pub agent: AgentAnswers,
    /// The servers behind the gateway, by name.
    pub upstreams: BTreeMap<String, Upstream>,
    /// The answers of the chat model, one for each request. With this key a model is served at a
    /// loopback address.
    pub model: Option<Vec<ModelAnswer>>,
    /// Faults of the artifact store.
    pub store: Vec<StoreFault>,
    /// Seed of the random parts of names, a number; 7 by default.
    pub seed: Option<u64>,
    /// The server's time, RFC 3339; by default the start of 2026.
    pub clock: Option<String>,
}

impl Given {
    /// Lays the settings of the scenario over a configuration, key by key.
    #[must_use]
    pub fn configured(&self, mut base: Value) -> Value {
        for (key, value) in &self.config {
            lay_over(&mut base[key], value);
        }
        base
    }
}

fn lay_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// The agent's answers to requests of servers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentAnswers {
    /// The values that the user enters into every form.
    pub elicit: Option<Map<String, Value>>,
    /// The answer of the agent's model to every sampling request.
    pub sample: Option<String>,
    /// The URIs of its roots.
    pub roots: Option<Vec<String>>,
    /// The extensions of the protocol that it declares, by their ids, each with its settings.
    pub extensions: Map<String, Value>,
}

/// One answer of the chat model's provider: exactly one of `says`, `status`, `garbage` and
/// `silence`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelAnswer {
    /// Text of the model.
    pub says: Option<String>,
    /// HTTP status of a failure.
    pub status: Option<u16>,
    /// Message of the failure.
    pub message: String,
    /// A body that is not a valid answer.
    pub garbage: Option<String>,
    /// Never answers.
    pub silence: bool,
    /// Wait before the answer.
    pub delay: Option<Span>,
    /// Wait before each word of a streamed answer.
    pub pace: Option<Span>,
}

/// A question of an upstream to the agent before it answers a call: exactly one of `elicit`,
/// `sample` and `roots`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Question {
    /// Asks the user with this message for a `name`.
    pub(crate) elicit: Option<String>,
    /// Asks the model with this text.
    pub(crate) sample: Option<String>,
    /// Asks for the roots.
    pub(crate) roots: bool,
}

/// A server behind the gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// How the gateway reaches it.
    #[serde(default)]
    pub(crate) over: Over,
    /// Its tools, by name.
    pub(crate) tools: BTreeMap<String, Tool>,
    /// Its resources: text by URI.
    #[serde(default)]
    pub(crate) resources: BTreeMap<String, Source>,
    /// Its Views (MCP Apps), by URI.
    #[serde(default)]
    pub(crate) views: BTreeMap<String, View>,
    /// Its prompts: the single message of each, by name.
    #[serde(default)]
    pub(crate) prompts: BTreeMap<String, Source>,
}

/// A View of an upstream (MCP Apps): a resource of the type `text/html;profile=mcp-app`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct View {
    /// Its HTML document.
    pub(crate) html: Source,
    /// The description in `resources/list`.
    pub(crate) description: Option<String>,
    /// Its `_meta.ui`.
    pub(crate) ui: Option<Value>,
    /// It is sent in base64.
    #[serde(default)]
    pub(crate) blob: bool,
    /// `resources/list` leaves it out.
    #[serde(default)]
    pub(crate) unlisted: bool,
}

/// How the gateway reaches an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Over {
    /// As a child process.
    #[default]
    Stdio,
    /// At a loopback address.
    Http,
}

/// A tool of an upstream.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    /// Description of the tool.
    pub(crate) description: Option<String>,
    /// Schema of its arguments; by default any object.
    pub(crate) input_schema: Option<Value>,
    /// Schema of its structured content.
    pub(crate) output_schema: Option<Value>,
    /// Its `_meta`.
    pub(crate) meta: Option<Map<String, Value>>,
    /// The answer to every call.
    pub(crate) answer: Option<Answer>,
    /// Answers to the first call, the second, …; the last one serves all further calls.
    #[serde(default)]
    pub(crate) answers: Vec<Answer>,
}

/// Answer to a tool call: a plain string for one text item, or a mapping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer(pub(crate) AnswerParts);

/// An answer in full.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AnswerParts {
    /// Number of progress notifications before the answer, if the caller asked for progress.
    pub(crate) progress: u32,
    /// Questions to the agent before the answer. Their answers are in the upstream's `calls` as
    /// `{asked, answer}`.
    pub(crate) asks: Vec<Question>,
    /// Wait before the answer.
    pub(crate) delay: Option<Span>,
    /// Content items of a valid result.
    pub(crate) content: Option<Vec<Item>>,
    /// `structuredContent` of a valid result.
    pub(crate) structured_content: Option<Value>,
    /// `isError` of a valid result.
    pub(crate) is_error: Option<bool>,
    /// `_meta` of a valid result.
    pub(crate) meta: Option<Value>,
    /// A result object as JSON text; it need not be valid as a tool result.
    pub(crate) raw: Option<Source>,
    /// A JSON-RPC error instead of a result.
    pub(crate) error: Option<RpcError>,
    /// The server exits without an answer.
    pub(crate) crash: bool,
    /// Never answers.
    pub(crate) silence: bool,
    /// A line that is not JSON-RPC, instead of an answer; over stdio only.
    pub(crate) garbage: Option<String>,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: String,
}

/// One item of an answer's content: exactly one of `text`, `image`, `audio`, `resource` and `item`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Item {
    /// A text item.
    pub(crate) text: Option<Source>,
    /// An image item.
    pub(crate) image: Option<Media>,
    /// An audio item.
    pub(crate) audio: Option<Media>,
    /// An embedded resource.
    pub(crate) resource: Option<EmbeddedResource>,
    /// An item as on the wire.
    pub(crate) item: Option<Value>,
    /// `annotations` of the item.
    pub(crate) annotations: Option<Value>,
}

/// Binary content: exactly one of `content` and `verbatim`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Media {
    /// MIME type that the item declares.
    pub(crate) mime_type: Option<String>,
    /// The content.
    pub(crate) content: Option<Source>,
    /// The `data` string itself, whether base64 or not.
    pub(crate) verbatim: Option<String>,
}

/// An embedded resource; without `text` and `blob` it has only a URI.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddedResource {
    pub(crate) uri: String,
    pub(crate) mime_type: Option<String>,
    /// Its content as text.
    pub(crate) text: Option<Source>,
    /// Its content as base64.
    pub(crate) blob: Option<Source>,
}

/// A fault of the artifact store.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreFault {
    /// The method of the store that fails or waits.
    pub call: StoreCall,
    /// The call fails with this message.
    pub fail: Option<String>,
    /// The call waits for this time.
    pub delay: Option<Span>,
    /// Number of calls without the fault before it begins.
    #[serde(default)]
    pub after: u32,
    /// Number of calls with the fault; all by default.
    pub times: Option<u32>,
}

/// A method of the artifact store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is the method of the store that has its name")]
pub enum StoreCall {
    Put,
    Record,
    Get,
    ReadRange,
    List,
    Versions,
    Delete,
}

impl Tool {
    /// Returns the answers in order.
    pub(crate) fn answers(&self) -> &[Answer] {
        self.answer.as_ref().map_or(&self.answers, std::slice::from_ref)
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnswerVisitor;

        impl<'de> Visitor<'de> for AnswerVisitor {
            type Value = Answer;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a mapping")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Answer, E> {
                let item = Item { text: Some(Source::Text(text.to_owned())), ..Item::default() };
                Ok(Answer(AnswerParts { content: Some(vec![item]), ..AnswerParts::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Answer, A::Error> {
                AnswerParts::deserialize(MapAccessDeserializer::new(map)).map(Answer)
            }
        }

        deserializer.deserialize_any(AnswerVisitor)
    }
}

impl JsonSchema for Answer {
    fn schema_name() -> Cow<'static, str> {
        "Answer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let parts = generator.subschema_for::<AnswerParts>();
        json_schema!({
            "description": "Answer to a tool call; a plain string is one text item.",
            "anyOf": [{ "type": "string" }, parts],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_laid_over_key_by_key() {
        let Value::Object(config) = json!({"a": {"y": 3, "z": {"w": 4}}, "b": [2], "c": 5}) else {
            unreachable!()
        };
        let given = Given { config, ..Given::default() };
        assert_eq!(
            given.configured(json!({"a": {"x": 1, "y": 2}, "b": [1], "d": 6})),
            json!({"a": {"x": 1, "y": 3, "z": {"w": 4}}, "b": [2], "c": 5, "d": 6})
        );
    }
}
