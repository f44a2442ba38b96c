//! The event of a request.

use std::time::Duration;

use http::request::Parts;
use marquetry_protocol::{
    ResultKind, RpcError,
    server::{Principal, Reply, RequestContext, http::ConnectionInfo},
};
use marquetry_request_notes::{CallFailureKind, FinishedCall, Notes};
use marquetry_trace_context::TraceContext;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Clients choose the names of unknown tools, and URIs.
const MAX_TEXT: usize = 200;
const MAX_URI: usize = 2_048;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Ok,
    ToolFailed,
    InputRequired,
    RpcError(i32),
    /// The upstream gave no answer.
    GatewayError,
    Cancelled,
}

impl RequestOutcome {
    pub(crate) fn of(answer: &Result<Reply, RpcError>, notes: &Notes) -> Self {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => return Self::RpcError(error.code),
        };
        let last = notes.upstream_calls.last();
        match ResultKind::of(reply.get()) {
            ResultKind::InputRequired => Self::InputRequired,
            ResultKind::Failed
                if last.is_some_and(|it| it.failure == Some(CallFailureKind::Unreachable)) =>
            {
                Self::GatewayError
            }
            ResultKind::Failed => Self::ToolFailed,
            _ => Self::Ok,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolFailed => "tool_failed",
            Self::InputRequired => "input_required",
            Self::RpcError(_) => "rpc_error",
            Self::GatewayError => "gateway_error",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn code(self) -> Option<i32> {
        match self {
            Self::RpcError(code) => Some(code),
            _ => None,
        }
    }
}

/// The event of a request, as the audit log has it.
#[derive(Serialize)]
pub(crate) struct RequestEvent<'a> {
    event: &'static str,
    principal: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// The beginning of the hash of the session's id, which is a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a str>,
    /// The upstream's own name of the tool or prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    /// The name that the client gave; for a call within another one, that of the inner call.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    duration_us: u64,
    bytes: usize,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    artifacts: &'a [String],
    #[serde(skip_serializing_if = "is_zero")]
    more_artifacts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The parts of a request that its parameters name.
pub(crate) struct RequestTarget {
    pub(crate) name: Option<String>,
    pub(crate) uri: Option<String>,
}

impl RequestTarget {
    pub(crate) fn of(cx: &RequestContext) -> Self {
        Self { name: text_param(cx, "name", MAX_TEXT), uri: text_param(cx, "uri", MAX_URI) }
    }
}

fn text_param(cx: &RequestContext, name: &str, max: usize) -> Option<String> {
    let text: String = serde_json::from_str(cx.param(name)?.get()).ok()?;
    Some(text[..text.floor_char_boundary(max)].to_owned())
}

/// The end of a request.
pub(crate) struct RequestEnd<'a> {
    pub(crate) outcome: RequestOutcome,
    pub(crate) time: Duration,
    /// Bytes of the result.
    pub(crate) bytes: usize,
    pub(crate) notes: &'a Notes,
    /// The span of the request, or the span above it if requests are not traced.
    pub(crate) trace: Option<TraceContext>,
}

impl<'a> RequestEvent<'a> {
    pub(crate) fn new(
        cx: &'a RequestContext,
        target: &'a RequestTarget,
        end: &RequestEnd<'a>,
        arguments: Option<Box<RawValue>>,
    ) -> Self {
        let principal = cx.principal();
        let client = cx.client().map(|it| {
            let mut client = format!("{} {}", it.name, it.version);
            client.truncate(client.floor_char_boundary(MAX_TEXT));
            client
        });
        Self {
            event: "request",
            principal: principal_name(principal.map(|it| &**it)),
            issuer: principal.and_then(|it| it.issuer.as_deref()),
            client,
            session: cx.session_id().map(short_hash),
            address: cx.http().and_then(address_of),
            method: cx.method(),
            upstream: end.notes.upstream(),
            tool: end.notes.name_at_upstream(),
            name: end
                .notes
                .arguments
                .as_ref()
                .and(end.notes.name.as_deref())
                .or(target.name.as_deref()),
            uri: target.uri.as_deref(),
            arguments,
            rule: end.notes.rule.as_deref(),
            outcome: end.notes.refusal.map_or(end.outcome.name(), |refusal| refusal.name()),
            code: end.outcome.code(),
            duration_us: u64::try_from(end.time.as_micros()).unwrap_or(u64::MAX),
            bytes: end.bytes,
            artifacts: &end.notes.artifacts,
            more_artifacts: end.notes.more_artifacts,
            trace_id: end.trace.map(|it| it.trace_id_text()),
        }
    }
}

/// Returns the name of a principal in the log; `local` without authentication.
pub(crate) fn principal_name(principal: Option<&Principal>) -> &str {
    principal.map_or("local", |principal| &principal.subject)
}

pub(crate) fn address_of(head: &Parts) -> Option<String> {
    Some(head.extensions.get::<ConnectionInfo>()?.address().ip().to_string())
}

pub(crate) fn short_hash(id: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(id).into();
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the label `error_type` of a request. Only known codes are labels.
pub(crate) fn error_type(outcome: RequestOutcome) -> &'static str {
    match outcome {
        RequestOutcome::Ok | RequestOutcome::InputRequired => "",
        RequestOutcome::ToolFailed => "tool_error",
        RequestOutcome::GatewayError => "unreachable",
        RequestOutcome::Cancelled => "cancelled",
        RequestOutcome::RpcError(code) => code_label(code),
    }
}

/// Returns the label `error_type` of a call of an upstream.
pub(crate) fn call_error_type(call: &FinishedCall) -> &'static str {
    match call.failure {
        None => "",
        Some(CallFailureKind::Rpc(code)) => code_label(code),
        Some(CallFailureKind::Unreachable) => "unreachable",
        Some(CallFailureKind::Cancelled) => "cancelled",
        Some(_) => "_other",
    }
}

fn code_label(code: i32) -> &'static str {
    match code {
        -32700 => "-32700",
        -32600 => "-32600",
        -32601 => "-32601",
        -32602 => "-32602",
        -32603 => "-32603",
        -32002 => "-32002",
        -32020 => "-32020",
        -32021 => "-32021",
        -32042 => "-32042",
        403 => "403",
        429 => "429",
        502 => "502",
        _ => "_other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn unknown_codes_are_one_label() {
        let label = |code| error_type(RequestOutcome::RpcError(code));
        assert_eq!(
            (label(-32602), label(429), label(12_345), label(i32::MIN)),
            ("-32602", "429", "_other", "_other")
        );
        assert_eq!(error_type(RequestOutcome::InputRequired), "");
    }
}
