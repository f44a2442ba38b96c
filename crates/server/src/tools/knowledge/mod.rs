//! The tools `am7_*`: records, and finding passages in them. Names and arguments are those of seed 003, parts 5 and 14.

mod answer;
mod chat;
mod chunks;
mod extract;
mod objects;
mod search;
mod vectorize;

use std::{convert::Infallible, sync::Arc};

use marquetry_protocol::{
    server::{RequestContext, ToolOutput, Toolbox},
    types::CallToolResult,
};
use marquetry_rag::Record;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::answer::Answer;
pub(crate) use self::answer::{ERROR, error_code};
use crate::{
    config::Limits,
    knowledge::{Access, Failure, Library, chat::Chat},
};

pub(crate) const CREATE: &str = "am7_create_object";
pub(crate) const GET: &str = "am7_get_object";
pub(crate) const UPDATE: &str = "am7_update_object";
pub(crate) const DELETE: &str = "am7_delete_object";
pub(crate) const LIST_OBJECTS: &str = "am7_list_objects";
pub(crate) const SEARCH: &str = "am7_vector_search";
pub(crate) const VECTORIZE: &str = "am7_vectorize";
pub(crate) const EXTRACT: &str = "am7_extract_content";
pub(crate) const CHUNK: &str = "am7_chunk_content";
pub(crate) const CHAT: &str = "am7_chat";

/// The tools that work with knowledge.
#[derive(Clone)]
pub(crate) struct KnowledgeTools {
    library: Arc<Library>,
    chat: Arc<Chat>,
    limits: Limits,
}

impl KnowledgeTools {
    /// Their names.
    pub(crate) const NAMES: [&str; 10] =
        [CREATE, GET, UPDATE, DELETE, LIST_OBJECTS, SEARCH, VECTORIZE, EXTRACT, CHUNK, CHAT];

    pub(crate) fn new(library: Arc<Library>, chat: Arc<Chat>, limits: Limits) -> Self {
        Self { library, chat, limits }
    }

    /// Whether there are any.
    pub(crate) fn is_enabled(&self) -> bool {
        self.library.is_enabled()
    }

    /// Whether a successful call shows that what is kept can be reached; the others may work on a text of the call's own.
    pub(crate) fn uses_store(name: &str) -> bool {
        [CREATE, GET, UPDATE, DELETE, LIST_OBJECTS, SEARCH, VECTORIZE].contains(&name)
    }

    /// Adds them to `toolbox`.
    pub(crate) fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let toolbox = self.add_objects(toolbox);
        let toolbox = self.add_search(toolbox);
        let toolbox = self.add_vectorize(toolbox);
        let toolbox = self.add_extract(toolbox);
        self.add_chunks(toolbox)
    }

    /// Whether there is a model to chat with.
    pub(crate) fn has_model(&self) -> bool {
        self.chat.check_is_on().is_ok()
    }

    /// Adds one, which does this work.
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

    /// What a tool is called by people, and what it does to what is there.
    pub(crate) fn says(name: &str) -> Option<(&'static str, Value)> {
        // What is not said is the worst: MCP has each hint default to what asks for most care.
        let reads = json!({"readOnlyHint": true, "openWorldHint": false});
        let writes = |destroys: bool, again: bool| {
            json!({
                "readOnlyHint": false,
                "destructiveHint": destroys,
                "idempotentHint": again,
                "openWorldHint": false,
            })
        };
        Some(match name {
            CREATE => ("Create a record", writes(false, false)),
            GET => ("Get a record", reads),
            UPDATE => ("Update a record", writes(true, true)),
            DELETE => ("Delete a record", writes(true, true)),
            LIST_OBJECTS => ("List records", reads),
            SEARCH => ("Search passages", reads),
            VECTORIZE => ("Make a record searchable", writes(false, true)),
            EXTRACT => ("Extract a document's text", reads),
            CHUNK => ("Cut a text into passages", writes(false, true)),
            // The model may be anywhere.
            CHAT => {
                let hints = json!({"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true});
                ("Chat with a model", hints)
            }
            _ => return None,
        })
    }

    /// The answer of one of them, with what seed 003 has in items of a search's answer beside what MCP knows.
    pub(crate) fn finish(name: &str, result: CallToolResult) -> Value {
        search::with_metadata(name, result)
    }

    async fn open(&self, cx: &RequestContext) -> Result<Access, Failure> {
        self.library.open(cx).await
    }

    /// For what only reads: where nothing is kept, there is no record.
    async fn read(&self, cx: &RequestContext, uri: &str) -> Result<Access, Failure> {
        let nothing = || {
            let uri = &uri[..uri.floor_char_boundary(200)];
            Failure::new(crate::knowledge::ErrorCode::NotFound, format!("there is no record {uri}"))
        };
        self.library.if_there(cx).await?.ok_or_else(nothing)
    }

    /// The URI of a record that is named in one of the two spellings of seed 003.
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
                    .with_organization(self.library.organization());
                let problem = || Failure::invalid("type and objectId make no am7:// URI");
                record.uri().ok_or_else(problem)
            }
            _ => Err(Failure::invalid("name the record by uri, or by type and objectId")),
        }
    }
}
