//! `GET /media/{organisation}/{type}/{id}`: the content of a record as a file, or with `?size=N` a
//! thumbnail of a picture. `marquetry_context_blocks::Filter` writes such paths as sources of
//! images.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header, request::Parts},
    routing::get,
};
use marquetry_file_response::{InlineDisplay, Part, is_known, set_file_headers};
use marquetry_gateway::ItemKind;
use marquetry_knowledge::Media;
use marquetry_protocol::{RpcError, server::Peer};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    mcp_v1::{McpV1, Problem},
    peer_of,
};

const BASE: &str = "/media/";

/// Returns whether a path belongs to these routes.
pub(super) fn is_media(path: &str) -> bool {
    path.starts_with(BASE)
}

/// Returns the route `GET /media/{organisation}/{type}/{id}`. An organisation may have several
/// segments.
pub(crate) fn routes(api: Arc<McpV1>) -> Router {
    Router::new().route("/media/{*path}", get(media)).with_state(api)
}

async fn media(State(api): State<Arc<McpV1>>, request: Request<Body>) -> Response<Body> {
    let peer = peer_of(&request);
    // A body has no meaning here.
    let (head, _) = request.into_parts();
    answer(&api, peer, &head).await.unwrap_or_else(|problem| problem.response())
}

async fn answer(api: &McpV1, peer: Peer, head: &Parts) -> Result<Response<Body>, Problem> {
    /// Contents in memory at a time. Each has up to 64 MiB, and a range is cut from the whole.
    static READS: Semaphore = Semaphore::const_new(4);
    /// The same for thumbnails, which take seconds: other contents do not wait for them.
    static THUMBNAILS: Semaphore = Semaphore::const_new(2);
    const MAX_WAIT: Duration = Duration::from_secs(10);
    let uri = record_uri(&head.uri).ok_or_else(not_found)?;
    let headers = &head.headers;
    let call = api.server.direct_call(peer).await?;
    let reads = if uri.contains('?') { &THUMBNAILS } else { &READS };
    let Ok(_reading) = timeout(MAX_WAIT, reads.acquire()).await else {
        let message = "too many contents of records are being read; try again".to_owned();
        return Err(Problem::new(503, "busy", message));
    };
    let media = call
        .run("media", |cx| async move {
            let view = api.gateway.view(&cx);
            if !view.may_use_own(ItemKind::Resource, &uri, &cx)? {
                return Err(not_found());
            }
            let media = api
                .knowledge
                .media(&uri, |version| is_known(headers, &etag(version)), &cx)
                .await
                .map_err(RpcError::from);
            media?.ok_or_else(not_found)
        })
        .await
        .map_err(Problem::of_media)?;
    let etag = etag(&media.version);
    // "*" stands for every version of a content that exists.
    let Some(bytes) = media.bytes.as_deref().filter(|_| !is_known(headers, "*")) else {
        return Ok(response(StatusCode::NOT_MODIFIED, Body::empty(), &etag));
    };
    let length = bytes.len();
    let is_head = head.method == Method::HEAD;
    let part = if is_head { Part::Whole } else { Part::of(headers, length as u64, &etag) };
    let (status, range) = match part {
        Part::Whole => (StatusCode::OK, 0..length),
        Part::Range(range) => {
            (StatusCode::PARTIAL_CONTENT, range.start as usize..range.end as usize)
        }
        Part::Unsatisfiable => {
            let message = format!("the content has {length} bytes, none of which is in this range");
            let problem = Problem::new(416, "range_not_satisfiable", message);
            return Ok(with(
                problem.response(),
                header::CONTENT_RANGE,
                format!("bytes */{length}"),
            ));
        }
    };
    let Media { bytes, media_type, name, .. } = media;
    let mut sent = bytes.unwrap_or_default();
    sent.truncate(range.end);
    sent.drain(..range.start);
    if is_head {
        sent.clear();
    }
    let body = Body::from(call.answer(sent).await?);
    let mut response = response(status, body, &etag);
    set_file_headers(response.headers_mut(), &media_type, &name, InlineDisplay::IfPassive);
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{length}", range.start, range.end - 1);
        response = with(response, header::CONTENT_RANGE, range);
    }
    Ok(with(response, header::CONTENT_LENGTH, (range.end - range.start).to_string()))
}

/// Returns the media URI for a path.
fn record_uri(uri: &Uri) -> Option<String> {
    let (rest, id) = uri.path().strip_prefix(BASE)?.rsplit_once('/')?;
    let (organization, kind) = rest.rsplit_once('/')?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("am7://{organization}/media/{kind}/{id}{query}"))
}

/// Returns the problem of a path without media for the caller. It is the same for a record that
/// does not exist, that the caller may not read, that has no content, and that belongs to another
/// organisation.
fn not_found() -> Problem {
    Problem::new(404, "not_found", "no media that you may read has this path".to_owned())
}

impl Problem {
    /// Removes the reason why a record was not found.
    fn of_media(self) -> Self {
        if self.is_not_found() { not_found() } else { self }
    }
}

/// Returns the entity tag of a version.
fn etag(version: &str) -> String {
    format!("\"{version}\"")
}

fn response(status: StatusCode, body: Body, etag: &str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // A cache asks again each time, because rights may have changed.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    // Another site's page must not show what its visitor may read.
    let same_origin = HeaderValue::from_static("same-origin");
    headers.insert("cross-origin-resource-policy", same_origin);
    with(response, header::ETAG, etag.to_owned())
}

/// Adds a header whose value is ASCII.
fn with(mut response: Response<Body>, name: header::HeaderName, value: String) -> Response<Body> {
    let value = HeaderValue::try_from(value).expect("it is ASCII");
    response.headers_mut().insert(name, value);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_media_uri() {
        for (path, want) in [
            (
                "/media/default/data.data/a-1?size=256",
                Some("am7://default/media/data.data/a-1?size=256"),
            ),
            ("/media/a/b/data.data/a%20b", Some("am7://a/b/media/data.data/a%20b")),
            ("/media/data.data/a-1", None),
            ("/media/a-1", None),
        ] {
            assert_eq!(record_uri(&path.parse().unwrap()).as_deref(), want, "{path}");
        }
    }
}
