//! Artifacts in the console: their list, and downloads.

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
    response::IntoResponse as _,
    routing::get,
};
use futures_util::stream::try_unfold;
use marquetry_artifact_tools::{ArtifactTools, Download};
use marquetry_artifacts::{ArtifactName, StoreError, Version};
use marquetry_console::PageLimit;
use marquetry_file_response::{InlineDisplay, Part, is_known, set_file_headers};
use marquetry_protocol::server::Principal;
use serde::Deserialize;
use serde_json::json;

/// `GET /api/console/artifacts?filter=TEXT&limit=N`: the artifacts of the caller with their
/// details, as from `list_artifacts`, but without a tool call. `GET
/// /api/console/artifacts/{name}?version=N`: the bytes of one, as a file that a browser saves and
/// never shows, whole or the part that `Range` names. The `ETag` is the hash of the bytes.
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
    let own = artifacts.for_principal(caller.as_deref());
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
    headers: HeaderMap,
) -> Response<Body> {
    let own = artifacts.for_principal(caller.as_deref());
    let name = match ArtifactName::parse(&name) {
        Ok(name) => name,
        Err(problem) => return refused(StatusCode::BAD_REQUEST, &problem.to_string()),
    };
    let version = version.map_or(Version::Latest, Version::Number);
    match own.download(&name, version).await {
        Ok(download) => file(download, &headers),
        Err(error @ StoreError::NotFound { .. }) => {
            refused(StatusCode::NOT_FOUND, &error.to_string())
        }
        Err(error @ StoreError::Expired { .. }) => refused(StatusCode::GONE, &error.to_string()),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn file(download: Download, request: &HeaderMap) -> Response<Body> {
    let record = download.record();
    let size = record.size_bytes;
    let tag = format!("\"{}\"", record.hash);
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    set_file_headers(headers, &record.mime_type, record.name.as_str(), InlineDisplay::Never);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.extend(HeaderValue::from_str(&tag).map(|tag| (header::ETAG, tag)));
    if is_known(request, &tag) || is_known(request, "*") {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    let bytes = match Part::of(request, size, &tag) {
        Part::Whole => 0..size,
        Part::Unsatisfiable => {
            let why = format!("the range is outside of the {size} bytes of the artifact");
            // The body is JSON, and not a part of the artifact.
            let mut response = refused(StatusCode::RANGE_NOT_SATISFIABLE, &why);
            response.headers_mut().extend(content_range("*", size));
            return response;
        }
        Part::Range(range) => {
            headers.extend(content_range(&format!("{}-{}", range.start, range.end - 1), size));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            range
        }
    };
    let length = HeaderValue::from(bytes.end - bytes.start);
    response.headers_mut().insert(header::CONTENT_LENGTH, length);
    let parts = try_unfold(download.with_range(bytes), async |mut download| {
        let part = download.next().await?;
        Ok::<_, StoreError>(part.map(|part| (part, download)))
    });
    *response.body_mut() = Body::from_stream(parts);
    response
}

fn content_range(bytes: &str, size: u64) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_str(&format!("bytes {bytes}/{size}")).ok()?;
    Some((header::CONTENT_RANGE, value))
}
