//! The tools `am7_*`: records, and searching their passages. Names and arguments are those of seed
//! 003, parts 5 and 14.

mod answer;
mod chunks;
mod embed;
mod extract;
mod objects;
mod search;
mod size;
mod vectorize;

use std::{convert::Infallible, num::NonZeroUsize, sync::Arc};

use marquetry_protocol::{
    server::{RequestContext, ToolOutput, Toolbox},
    types::CallToolResult,
};
use marquetry_rag::Record;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::answer::Answer;
pub use self::{
    answer::{ERROR, error_code},
    size::DEFAULT_TOKENS,
};
use crate::{
    access::Access,
    config::non_zero,
    failure::{ErrorCode, Failure},
    service::KnowledgeService,
};

/// Tool: creates a record.
pub const CREATE: &str = "am7_create_object";
/// Tool: reads a record.
pub const GET: &str = "am7_get_object";
/// Tool: changes a record.
pub const UPDATE: &str = "am7_update_object";
/// Tool: removes a record.
pub const DELETE: &str = "am7_delete_object";
/// Tool: lists records.
pub const LIST_OBJECTS: &str = "am7_list_objects";
/// Tool: finds passages.
pub const SEARCH: &str = "am7_vector_search";
/// Tool: makes a record searchable.
pub const VECTORIZE: &str = "am7_vectorize";
/// Tool: returns the text of a document.
pub const EXTRACT: &str = "am7_extract_content";
/// Tool: cuts a text into passages.
pub const CHUNK: &str = "am7_chunk_content";
/// Tool: returns vectors of texts.
pub const EMBED: &str = "am7_embed";

/// Limits of answers, in bytes. Errors and answers name the settings of the program `marquetry`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AnswerLimits {
    /// Longest answer of a tool that is asked for more than [`DEFAULT_TOKENS`]
    /// (`limits.max_own_answer_bytes`).
    pub max_answer_bytes: NonZeroUsize,
    /// Largest content that is shown with its record (`limits.read_artifact_max_bytes`).
    pub max_shown_content_bytes: NonZeroUsize,
    /// Largest content that `resources/read` returns (`limits.max_resource_bytes`).
    pub max_resource_bytes: NonZeroUsize,
}

impl Default for AnswerLimits {
    /// Returns the defaults of the program `marquetry`.
    fn default() -> Self {
        Self {
            max_answer_bytes: non_zero(131_072),
            max_shown_content_bytes: non_zero(262_144),
            max_resource_bytes: non_zero(16 << 20),
        }
    }
}

/// The tools `am7_*` over one service.
#[derive(Clone)]
pub struct KnowledgeTools {
    service: Arc<KnowledgeService>,
    limits: AnswerLimits,
}

impl KnowledgeTools {
    /// The names of all tools.
    pub const NAMES: [&str; 10] =
        [CREATE, GET, UPDATE, DELETE, LIST_OBJECTS, SEARCH, VECTORIZE, EXTRACT, CHUNK, EMBED];

    /// Creates the tools for a service.
    #[must_use]
    pub fn new(service: Arc<KnowledgeService>, limits: AnswerLimits) -> Self {
        Self { service, limits }
    }

    /// Returns whether a successful call of this tool shows that the database works. Some tools
    /// work only on a text in their arguments.
    #[must_use]
    pub fn uses_store(name: &str) -> bool {
        [CREATE, GET, UPDATE, DELETE, LIST_OBJECTS, SEARCH, VECTORIZE].contains(&name)
    }

    /// Adds all tools but [`EMBED`] to a toolbox.
    #[must_use]
    pub fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let toolbox = self.add_objects(toolbox);
        let toolbox = self.add_search(toolbox);
        let toolbox = self.add_vectorize(toolbox);
        let toolbox = self.add_extract(toolbox);
        self.add_chunks(toolbox)
    }

    /// Adds a tool.
    fn add<A, R, Fut>(
        &self,
        toolbox: Toolbox,
        (name, description): (&str, &str),
        work: fn(Self, A, RequestContext) -> Fut,
    ) -> Toolbox
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: ToolOutput + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        let tools = self.clone();
        toolbox.tool(name, description, move |arguments: A, cx| {
            let work = work(tools.clone(), arguments, cx);
            async move { Ok::<_, Infallible>(work.await) }
        })
    }

    /// Returns title and annotations (hints) of a tool, for lists; `None` if no tool here has this
    /// name.
    #[must_use]
    pub fn listing(name: &str) -> Option<(&'static str, Value)> {
        // MCP's default for each hint is the most dangerous value.
        let reads = json!({"readOnlyHint": true, "openWorldHint": false});
        let adds = WriteHints { is_destructive: false, is_idempotent: false };
        let replaces = WriteHints { is_destructive: false, is_idempotent: true };
        let destroys = WriteHints { is_destructive: true, is_idempotent: true };
        Some(match name {
            CREATE => ("Create a record", adds.to_json()),
            GET => ("Get a record", reads),
            UPDATE => ("Update a record", destroys.to_json()),
            DELETE => ("Delete a record", destroys.to_json()),
            LIST_OBJECTS => ("List records", reads),
            SEARCH => ("Search passages", reads),
            VECTORIZE => ("Make a record searchable", replaces.to_json()),
            EXTRACT => ("Extract a document's text", reads),
            CHUNK => ("Cut a text into passages", replaces.to_json()),
            EMBED => ("Embed texts", reads),
            _ => return None,
        })
    }

    /// Returns the result of a tool in its final form: the items of a search have the member
    /// `metadata` of seed 003, part 14.
    #[must_use]
    pub fn finish(name: &str, result: CallToolResult) -> Value {
        search::with_metadata(name, result)
    }

    async fn open(&self, cx: &RequestContext) -> Result<Access, Failure> {
        self.service.open(cx).await
    }

    /// Opens the database for reading a record; without a database the record does not exist.
    async fn read(&self, cx: &RequestContext, uri: &str) -> Result<Access, Failure> {
        self.service.open_existing(cx).await?.ok_or_else(|| {
            let uri = &uri[..uri.floor_char_boundary(200)];
            Failure::new(ErrorCode::NotFound, format!("no record {uri}"))
        })
    }

    /// Returns the URI of a record that is named in one of the two spellings of seed 003.
    fn uri(
        &self,
        uri: Option<&String>,
        kind: Option<&String>,
        object_id: Option<&String>,
    ) -> Result<String, Failure> {
        match (uri, kind, object_id) {
            (Some(uri), None, None) => Ok(uri.clone()),
            (None, Some(kind), Some(object_id)) => {
                let record = Record::new(kind, "")
                    .with_object_id(object_id)
                    .with_organization(self.service.organization());
                record.uri().ok_or_else(|| Failure::invalid("type and objectId make no am7:// URI"))
            }
            _ => Err(Failure::invalid("name the record by uri, or by type and objectId")),
        }
    }
}

/// The hints of a tool that writes.
struct WriteHints {
    is_destructive: bool,
    is_idempotent: bool,
}

impl WriteHints {
    fn to_json(&self) -> Value {
        json!({
            "readOnlyHint": false,
            "destructiveHint": self.is_destructive,
            "idempotentHint": self.is_idempotent,
            "openWorldHint": false,
        })
    }
}
