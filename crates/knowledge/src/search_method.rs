//! The method `resources/search`, which MCP does not have.

use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{resources::chunk_name, search::PassageQuery, service::KnowledgeService};

/// Method that returns passages as resources; seed 003, parts 3 and 13.
pub const SEARCH_RESOURCES: &str = "resources/search";

/// Answers a request for [`SEARCH_RESOURCES`].
///
/// # Errors
///
/// Returns an error if the parameters are invalid, or if the search fails.
pub async fn search_resources(
    service: &KnowledgeService,
    params: Option<&RawValue>,
    cx: &RequestContext,
) -> Result<Reply, RpcError> {
    /// A type or a list of types; the seed has both.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Params {
        query: String,
        #[serde(rename = "type")]
        kind: Option<String>,
        types: Vec<String>,
        scope_uri: Option<String>,
        tags: Vec<String>,
        vector_models: Vec<String>,
        limit: Option<usize>,
        threshold: Option<f64>,
        distinct: bool,
    }
    let params: Params = serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let query = PassageQuery {
        text: params.query,
        scope: params.scope_uri,
        types: params.types.into_iter().chain(params.kind).collect(),
        vector_models: params.vector_models,
        tags: params.tags,
        limit: params.limit,
        threshold: params.threshold,
        distinct: params.distinct,
    };
    let access = service.open_existing(cx).await?;
    let passages = match (&access, &query.scope) {
        (Some(access), scope) => match access.search(&query).await {
            Err(failure) => return Err(failure.of_resource(scope.as_deref().unwrap_or_default())),
            Ok(passages) => passages,
        },
        (None, Some(scope)) => return Err(RpcError::resource_not_found(scope)),
        (None, None) if query.text.trim().is_empty() => {
            return Err(RpcError::invalid_params("query is required and cannot be empty"));
        }
        (None, None) => Vec::new(),
    };
    let resources = passages.iter().map(|passage| {
        let mut metadata = json!(passage.details);
        metadata["vectorReferenceUri"] = json!(passage.details.source_uri);
        metadata["vectorReferenceType"] = json!(passage.details.source_type);
        json!({
            "uri": passage.uri,
            "name": chunk_name(passage.details.chunk, passage.details.chunk_count),
            "mimeType": "text/plain",
            "metadata": metadata,
            "contents": [{"uri": passage.uri, "mimeType": "text/plain", "text": passage.text}],
        })
    });
    Reply::json(&json!({"resources": resources.collect::<Vec<_>>()}))
}
