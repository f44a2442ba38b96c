//! `GET /media/{organisation}/{type}/{id}`: the content of a record as a file, or with `?size=N` a
//! thumbnail of a picture. `marquetry_context_blocks::Filter` writes such paths as sources of
//! images.

use std::{ops::Range, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, request::Parts,
    },
    routing::get,
};
use marquetry_knowledge::Media;
use marquetry_protocol::{RpcError, server::Peer};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    mcp_v1::{McpV1, Problem},
    peer_of,
};
use crate::file_headers::{self, InlineDisplay};

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
    let part = if is_head { Part::Whole } else { Part::of(headers, length, &etag) };
    let (status, range) = match part {
        Part::Whole => (StatusCode::OK, 0..length),
        Part::Range(range) => (StatusCode::PARTIAL_CONTENT, range),
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
    file_headers::set(response.headers_mut(), &media_type, &name, InlineDisplay::IfPassive);
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

/// Returns whether `If-None-Match` has this tag (RFC 9110, section 13.1.2). Weak tags match, too.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim().trim_start_matches("W/") == etag)
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

/// The wanted part of a content.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Range(Range<usize>),
    /// The content has none of the wanted bytes.
    Unsatisfiable,
}

impl Part {
    /// Returns the part in `Range` (RFC 9110, section 14.2). Several ranges, other units and
    /// malformed values are ignored, and so is a range of another version than `If-Range` names.
    fn of(headers: &HeaderMap, length: usize, etag: &str) -> Self {
        let mut values = headers.get_all(header::RANGE).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Self::Whole };
        if headers.get(header::IF_RANGE).is_some_and(|value| value != etag) {
            return Self::Whole;
        }
        let Some((first, last)) = value.to_str().ok().and_then(bounds) else { return Self::Whole };
        let wanted = match (first, last) {
            (Some(first), Some(last)) if last < first => return Self::Whole,
            (Some(first), last) => first..last.map_or(length, |last| last.saturating_add(1)),
            (None, Some(suffix)) => length.saturating_sub(suffix)..length,
            (None, None) => return Self::Whole,
        };
        let range = wanted.start..wanted.end.min(length);
        if range.is_empty() { Self::Unsatisfiable } else { Self::Range(range) }
    }
}

/// Parses `bytes=FIRST-LAST`, where either number may be missing.
fn bounds(value: &str) -> Option<(Option<usize>, Option<usize>)> {
    let (unit, range) = value.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some((bound(first)?, bound(last)?))
}

/// Parses a bound of a range, which may be missing. A number that is too large is beyond every
/// content.
fn bound(text: &str) -> Option<Option<usize>> {
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((!text.is_empty()).then(|| text.parse().unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, want: Part) {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, range.parse().unwrap());
        assert_eq!(Part::of(&headers, 10, "\"1\""), want, "{range}");
    }

    #[test]
    fn a_range_is_clamped_refused_or_ignored() {
        check("bytes=0-3", Part::Range(0..4));
        check("bytes=4-", Part::Range(4..10));
        check("bytes=-3", Part::Range(7..10));
        check("bytes=-30", Part::Range(0..10));
        check("bytes=9-99999999999999999999999", Part::Range(9..10));
        check("Bytes = 1 - 1", Part::Range(1..2));
        for none in ["bytes=10-", "bytes=99999999999999999999999-", "bytes=-0"] {
            check(none, Part::Unsatisfiable);
        }
        for ignored in [
            "bytes=3-2",
            "bytes=0-1,3-4",
            "lines=0-3",
            "bytes=-",
            "bytes=a-",
            "bytes",
            "bytes=+1-2",
        ] {
            check(ignored, Part::Whole);
        }
    }

    #[test]
    fn a_range_of_another_version_is_ignored() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, "bytes=0-3".parse().unwrap());
        for (tag, want) in [
            ("\"1\"", Part::Range(0..4)),
            ("\"2\"", Part::Whole),
            ("W/\"1\"", Part::Whole),
            ("Thu, 26 Nov 2026 12:00:00 GMT", Part::Whole),
        ] {
            headers.insert(header::IF_RANGE, tag.parse().unwrap());
            assert_eq!(Part::of(&headers, 10, "\"1\""), want, "{tag}");
        }
    }

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
