//! Expectations of a step, and of the state after the last step.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

use super::{matcher::Matcher, source::Source};

/// The expected result of a step. The kind of the step decides which keys are allowed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// Of a `call`: the content items that the model sees.
    pub(crate) content: Option<Matcher>,
    /// Of a `call`: `structuredContent`. Without this key the answer must have none.
    pub(crate) structured: Option<Matcher>,
    /// Of a `call`: `isError`; false by default.
    pub(crate) is_error: Option<bool>,
    /// Of a `call`: the capture report in `_meta`. Without this key the answer must have none.
    pub(crate) capture: Option<Matcher>,

    /// Of a `call`: its progress notifications before the answer, as a list. With this key the call
    /// asks for progress.
    pub(crate) progress: Option<Matcher>,

    /// Of a `request`: its result.
    pub(crate) result: Option<Matcher>,
    /// Of a `call` or `request`: the JSON-RPC error of the response.
    pub(crate) error: Option<Matcher>,

    /// Of an `http` request: the status code.
    pub(crate) status: Option<u16>,
    /// Of an `http` request: headers, by lower-case name.
    pub(crate) headers: BTreeMap<String, Matcher>,
    /// Of an `http` request: the body; parsed if it is JSON, else a string.
    pub(crate) body: Option<Matcher>,
    /// Of an `http` request that is answered by a stream: its events so far, each as
    /// `{id, event, data, retry}`. `data` is parsed if it is JSON.
    pub(crate) events: Option<Matcher>,

    /// Of a `socket`: the messages that were received, as a list.
    pub(crate) messages: Option<Matcher>,
    /// Of a `socket`: whether the server has closed it; false by default.
    pub(crate) closed: Option<bool>,

    /// All artifacts that exist after the step.
    pub(crate) artifacts: Option<Artifacts>,
}

/// The expected state after the last step.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FinalExpect {
    /// All artifacts that exist: `none`, or the list. Marquetry's own scenarios must have this key.
    pub(crate) artifacts: Option<Artifacts>,
    /// The calls that each upstream received, by name.
    pub(crate) upstreams: BTreeMap<String, UpstreamExpect>,
    /// The bodies of all requests to the chat model, in OpenAI's format, in order.
    pub(crate) model: Option<Matcher>,
}

/// The calls that an upstream received.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamExpect {
    /// Its calls in order, each as `{tool, arguments}`; also `{cancelled: tool}` for a call that
    /// the agent cancelled, and `{asked, answer}` for a question that the agent answered.
    pub(crate) calls: Matcher,
}

/// The artifacts that exist: `none`, or the complete list in any order.
#[derive(Clone, Debug)]
pub(crate) struct Artifacts(pub(crate) Vec<Artifact>);

/// One artifact. Its content is exactly one of `content` and `sha256`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Artifact {
    /// Its name.
    pub(crate) name: Matcher,
    /// Its version; by default 0, the first one.
    #[serde(default)]
    pub(crate) version: u64,
    /// Its MIME type.
    pub(crate) mime_type: String,
    /// Its content, byte for byte.
    pub(crate) content: Option<Source>,
    /// The content is JSON that matches.
    pub(crate) json: Option<Matcher>,
    /// The SHA-256 of its content, in lower-case hexadecimal.
    pub(crate) sha256: Option<String>,
    /// Its metadata.
    pub(crate) metadata: Option<Matcher>,
}

impl<'de> Deserialize<'de> for Artifacts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArtifactsVisitor;

        impl<'de> Visitor<'de> for ArtifactsVisitor {
            type Value = Artifacts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, or a list of artifacts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Artifacts, E> {
                if text == "none" {
                    return Ok(Artifacts(Vec::new()));
                }
                Err(E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Artifacts, A::Error> {
                let mut artifacts = Vec::new();
                while let Some(artifact) = list.next_element()? {
                    artifacts.push(artifact);
                }
                if artifacts.is_empty() {
                    return Err(de::Error::custom("an empty list; write `none` if that is meant"));
                }
                Ok(Artifacts(artifacts))
            }
        }

        deserializer.deserialize_any(ArtifactsVisitor)
    }
}

impl JsonSchema for Artifacts {
    fn schema_name() -> Cow<'static, str> {
        "Artifacts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let artifact = generator.subschema_for::<Artifact>();
        json_schema!({
            "description": "All artifacts that exist: `none`, or the complete list in any order.",
            "anyOf": [{ "const": "none" }, { "type": "array", "items": artifact, "minItems": 1 }],
        })
    }
}
