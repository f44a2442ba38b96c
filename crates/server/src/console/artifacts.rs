//! Artifacts in the console: their list, and downloads.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
    routing::get,
};
use futures_util::stream::try_unfold;
use marquetry_artifact_tools::{ArtifactTools, Download};
use marquetry_artifacts::{ArtifactName, StoreError, Version};
use marquetry_console::PageLimit;
use marquetry_protocol::server::Principal;
use serde::Deserialize;
use serde_json::json;

use crate::file_headers::{self, InlineDisplay};

/// `GET /api/console/artifacts?filter=TEXT&limit=N`: the artifacts of the caller with their
/// details, as from `list_artifacts`, but without a tool call. `GET
/// /api/console/artifacts/{name}?version=N`: the bytes of one, as a file that a browser saves and
/// never shows.
pub(crate) fn artifact_routes(artifacts: ArtifactTools) -> Router {
    Router::new()
        .route("/api/console/artifacts", get(list))
        .route("/api/console/artifacts/{name}", get(download))
        .with_state(artifacts)
}

/// The caller, if authentication is on.
type Caller = Option<Extension<Arc<Principal>>>;

#[derive(Deserialize)]
struct ListQuery {
    #[serde(default)]
    filter: String,
    limit: Option<PageLimit>,
}

async fn list(
    State(artifacts): State<ArtifactTools>,
    Query(ListQuery { filter, limit }): Query<ListQuery>,
    caller: Caller,
) -> Response<Body> {
    let own = artifacts.of_principal(caller.as_deref());
    let arguments = json!({"filter": filter, "limit": limit.map(PageLimit::get), "details": true});
    match own.list_json(arguments).await {
        Ok(list) => Json(list).into_response(),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.message),
    }
}

fn refused(status: StatusCode, why: &str) -> Response<Body> {
    (status, Json(json!({"error": why}))).into_response()
}

#[derive(Deserialize)]
struct DownloadQuery {
    version: Option<u64>,
}

async fn download(
    State(artifacts): State<ArtifactTools>,
    Path(name): Path<String>,
    Query(DownloadQuery { version }): Query<DownloadQuery>,
    caller: Caller,
) -> Response<Body> {
    let own = artifacts.of_principal(caller.as_deref());
    let name = match ArtifactName::parse(&name) {
        Ok(name) => name,
        Err(problem) => return refused(StatusCode::BAD_REQUEST, &problem.to_string()),
    };
    let version = version.map_or(Version::Latest, Version::Number);
    match own.download(&name, version).await {
        Ok(download) => file(download),
        Err(error @ StoreError::NotFound { .. }) => {
            refused(StatusCode::NOT_FOUND, &error.to_string())
        }
        Err(error @ StoreError::Expired { .. }) => refused(StatusCode::GONE, &error.to_string()),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn file(download: Download) -> Response<Body> {
    let record = download.record();
    let media_type = record.mime_type.clone();
    let name = record.name.to_string();
    let bytes = HeaderValue::from(record.size_bytes);
    let parts = try_unfold(download, async |mut download| {
        let part = download.next().await?;
        Ok::<_, StoreError>(part.map(|part| (part, download)))
    });
    let mut response = Response::new(Body::from_stream(parts));
    let headers = response.headers_mut();
    file_headers::set(headers, &media_type, &name, InlineDisplay::Never);
    headers.insert(header::CONTENT_LENGTH, bytes);
    response
}
