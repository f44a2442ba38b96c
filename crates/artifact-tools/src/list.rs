//! `list_artifacts`

use marquetry_artifacts::{ArtifactName, Record, store::Page};
use marquetry_protocol::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ArtifactTools, DEFAULT_TOKENS, ToolError, description, uri_of};

pub(super) const DESCRIPTION: &str =
    "Lists artifacts: saved tool answers that were too large or not text.";

/// Maximum bytes of details on one page, as JSON; further artifacts go to the next page.
const MAX_DETAILS_BYTES: usize = 64 << 10;

/// Arguments of `list_artifacts`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ListArguments {
    /// The `next_cursor` of an earlier answer.
    cursor: Option<String>,
    /// 1 to 200; by default as many as 2,000 tokens hold, up to 50.
    limit: Option<u32>,
    /// Text in their name or MIME type.
    filter: Option<String>,
    /// Adds origin, format, summary and schema.
    details: bool,
}

/// Result of `list_artifacts`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ArtifactList {
    /// The newest version of each artifact, by name.
    artifacts: Vec<ListedArtifact>,
    /// Give it as `cursor` to see more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Number of damaged artifacts; the server's log names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<usize>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ListedArtifact {
    /// Its name, for `read_artifact`.
    name: String,
    /// Its newest version.
    version: u64,
    /// Its resource URI.
    uri: String,
    /// Its MIME type.
    mime_type: String,
    /// Size in bytes.
    size_bytes: u64,
    /// Its description, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Warnings of the capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    /// Further metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    details: Option<Value>,
}

impl ArtifactTools {
    /// Lists artifacts as the tool does, for a page: `arguments` are those of the tool.
    ///
    /// # Errors
    /// Returns an error if an argument is unknown or wrong, or if the store cannot be read.
    pub async fn list_json(&self, arguments: Value) -> Result<Value, RpcError> {
        let arguments: ListArguments = serde_json::from_value(arguments)
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        match self.list(&arguments).await {
            Ok(list) => Ok(json!(list)),
            Err(ToolError::Arguments(problem)) => Err(RpcError::invalid_params(problem)),
            Err(error) => Err(RpcError::internal(error.to_string())),
        }
    }

    pub(super) async fn list(&self, arguments: &ListArguments) -> Result<ArtifactList, ToolError> {
        const MAX_LIMIT: u32 = 200;
        /// Maximum number of records that one call examines, because a filter may match none of
        /// them.
        const MAX_EXAMINED: usize = 10_000;
        let limit = arguments.limit.unwrap_or(50).clamp(1, MAX_LIMIT) as usize;
        let filter = arguments.filter.as_deref().unwrap_or_default().to_lowercase();
        let mut after = match &arguments.cursor {
            Some(cursor) => Some(ArtifactName::parse(cursor).map_err(|_| {
                ToolError::Arguments("cursor is not one that this tool gave".to_owned())
            })?),
            None => None,
        };
        let mut artifacts: Vec<ListedArtifact> = Vec::new();
        let mut examined = 0;
        let mut damaged = 0;
        let mut room = MAX_DETAILS_BYTES;
        // Each artifact appears as data and as text.
        let mut tokens = if arguments.limit.is_some() { u64::MAX } else { DEFAULT_TOKENS - 100 };
        loop {
            let page = Page::new(after, if filter.is_empty() { limit } else { 1_000 });
            let listing = self.store.list(&self.scope, &page).await?;
            examined += listing.records.len();
            damaged += listing.damaged;
            for record in listing.records {
                if artifacts.len() == limit || room == 0 {
                    let next_cursor = artifacts.last().map(|last| last.name.clone());
                    return Ok(ArtifactList::new(artifacts, next_cursor, damaged));
                }
                if record.name.as_str().to_lowercase().contains(&filter)
                    || record.mime_type.to_lowercase().contains(&filter)
                {
                    let listed = ListedArtifact::of(&record, arguments.details);
                    let cost = 2 * marquetry_tokens::estimate(&json!(listed).to_string());
                    if cost > tokens && !artifacts.is_empty() {
                        let next_cursor = artifacts.last().map(|last| last.name.clone());
                        return Ok(ArtifactList::new(artifacts, next_cursor, damaged));
                    }
                    tokens = tokens.saturating_sub(cost);
                    let bytes = listed.details.as_ref().map_or(0, |it| it.to_string().len());
                    room = room.saturating_sub(bytes);
                    artifacts.push(listed);
                }
            }
            let full = artifacts.len() == limit || room == 0 || examined >= MAX_EXAMINED;
            match listing.next {
                Some(next) if !full => after = Some(next),
                next => {
                    let next_cursor = next.map(|name| name.as_str().to_owned());
                    return Ok(ArtifactList::new(artifacts, next_cursor, damaged));
                }
            }
        }
    }
}

impl ArtifactList {
    fn new(artifacts: Vec<ListedArtifact>, next_cursor: Option<String>, damaged: usize) -> Self {
        Self { artifacts, next_cursor, damaged: Some(damaged).filter(|count| *count > 0) }
    }
}

impl ListedArtifact {
    fn of(record: &Record, with_details: bool) -> Self {
        Self {
            name: record.name.as_str().to_owned(),
            version: record.version,
            uri: uri_of(record),
            mime_type: record.mime_type.clone(),
            size_bytes: record.size_bytes,
            description: description(record),
            warnings: Some(record.metadata.warnings.clone()).filter(|them| !them.is_empty()),
            details: with_details.then(|| details(record)),
        }
    }
}

/// Returns the details of an artifact. The arguments of its tool stay in the store.
pub(super) fn details(record: &Record) -> Value {
    let mut metadata = record.metadata.clone();
    metadata.source_tool_args = None;
    metadata.description.clear();
    metadata.warnings.clear();
    let mut details = json!(metadata);
    let time = humantime::format_rfc3339_seconds(record.created_at);
    details["created_at"] = json!(time.to_string());
    details["hash"] = json!(record.hash);
    details
}
