//! HTTP responses of the endpoints.

use std::fmt::Display;

use bytes::Bytes;
use http::{HeaderValue, Response as HttpResponse, StatusCode, header};
use marquetry_protocol_wire::RpcError;

use super::body::ResponseBody;
use crate::outgoing::Outgoing;

pub(super) type Response = HttpResponse<ResponseBody>;

pub(super) fn answered(status: StatusCode, json: Bytes) -> Response {
    HttpResponse::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(ResponseBody::whole(json))
        .expect("a plain head")
}

pub(super) fn events(body: ResponseBody) -> Response {
    HttpResponse::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .header(header::CACHE_CONTROL, "no-store")
        // nginx would buffer events otherwise.
        .header("x-accel-buffering", "no")
        .body(body)
        .expect("a plain head")
}

/// Returns a refusal before any JSON-RPC request; its body is a JSON-RPC error with the reason.
pub(super) fn refused(status: StatusCode, why: impl Display) -> Response {
    answered(status, Outgoing::error(None, &RpcError::invalid_request(why.to_string())).bytes)
}

pub(super) fn not_allowed(methods: &'static str) -> Response {
    let mut response =
        refused(StatusCode::METHOD_NOT_ALLOWED, format!("method must be one of {methods}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
}

/// Lets a client that was refused because of load try again after a second.
pub(super) fn retry_later(mut response: Response) -> Response {
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(super) fn empty(status: StatusCode) -> Response {
    HttpResponse::builder().status(status).body(ResponseBody::empty()).expect("a plain head")
}
