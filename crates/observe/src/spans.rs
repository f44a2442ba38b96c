//! The spans of a request, for tracing.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use marquetry_protocol::server::RequestContext;
use marquetry_request_notes::FinishedCall;
use marquetry_trace_context::TraceContext;
use serde::Deserialize;

use crate::event::{
    RequestEnd, RequestOutcome, RequestTarget, call_error_type, error_type, short_hash,
};

/// Receives the spans of requests, and passes them on. It must not block.
pub trait SpanSink: Send + Sync + 'static {
    /// Returns the span of a request that begins: a child of `parent`, or the first of a trace. Its
    /// sampled flag says whether it is recorded.
    fn begin(&self, parent: Option<TraceContext>) -> TraceContext;

    /// Receives a span that has ended. Only sampled spans are passed.
    fn record(&self, span: FinishedSpan);
}

/// A span that has ended, with the names of OpenTelemetry's conventions for MCP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedSpan {
    /// The span.
    pub context: TraceContext,
    /// The span above it.
    pub parent: Option<TraceContext>,
    /// Whether the span above it is that of another program.
    pub is_parent_remote: bool,
    /// A span of another trace that belongs to the same request: that of the HTTP client, if the
    /// message itself names its parent.
    pub link: Option<TraceContext>,
    /// Whether this server answered, or asked an upstream.
    pub kind: SpanKind,
    /// The method and the name of the tool or prompt.
    pub name: String,
    /// When it began.
    pub start: SystemTime,
    /// How long it took.
    pub time: Duration,
    /// Its attributes.
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// The kind of the failure; `None` for success, and for a mistake of the client.
    pub error: Option<String>,
}

/// The side of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// This server answered a request.
    Server,
    /// This server asked an upstream.
    Client,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// An integer.
    Integer(i64),
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The spans that a request names as those above it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TraceParents {
    pub(crate) parent: Option<TraceContext>,
    link: Option<TraceContext>,
}

impl TraceParents {
    /// Reads `_meta.traceparent` and the header. The message knows its own parent better than the
    /// connection that carries it.
    pub(crate) fn of(cx: &RequestContext) -> Self {
        #[derive(Deserialize)]
        struct Meta {
            traceparent: Option<String>,
        }
        let meta = cx.param("_meta").and_then(|it| serde_json::from_str::<Meta>(it.get()).ok());
        let of_message = meta.and_then(|it| TraceContext::parse(it.traceparent.as_deref()?));
        let of_header = cx.header("traceparent").and_then(TraceContext::parse);
        match of_message {
            Some(parent) => Self { parent: Some(parent), link: of_header },
            None => Self { parent: of_header, link: None },
        }
    }
}

/// The span of a request that runs.
pub(crate) struct RequestSpan {
    sink: Arc<dyn SpanSink>,
    pub(crate) context: TraceContext,
    parents: TraceParents,
}

impl RequestSpan {
    pub(crate) fn begin(sink: Arc<dyn SpanSink>, cx: &RequestContext) -> Self {
        let parents = TraceParents::of(cx);
        let context = sink.begin(parents.parent);
        Self { sink, context, parents }
    }

    /// Passes on the spans of the request and of its calls of upstreams.
    pub(crate) fn end(&self, cx: &RequestContext, target: &RequestTarget, end: &RequestEnd<'_>) {
        if !self.context.is_sampled() {
            return;
        }
        let now = SystemTime::now();
        for call in &end.notes.upstream_calls {
            if let Some(context) = call.span {
                self.sink.record(self.of_call(context, call, end.outcome, now));
            }
        }
        self.sink.record(self.of_request(cx, target, end, now));
    }

    fn of_request(
        &self,
        cx: &RequestContext,
        target: &RequestTarget,
        end: &RequestEnd<'_>,
        now: SystemTime,
    ) -> FinishedSpan {
        let error = match end.notes.refusal {
            Some(refusal) => refusal.name(),
            None => error_type(end.outcome),
        };
        let name = end.notes.name.as_deref().or(target.name.as_deref());
        // Clients choose the names of unknown tools.
        let name = name.filter(|_| !matches!(end.outcome, RequestOutcome::RpcError(_)));
        let transport = if cx.http().is_some() { "tcp" } else { "pipe" };
        let id = serde_json::to_string(cx.id()).unwrap_or_default();
        let mut attributes = attributes_of(cx.method(), name, error);
        attributes.push(("mcp.protocol.version", cx.revision().as_str().into()));
        attributes.push(("network.transport", transport.into()));
        attributes.push(("jsonrpc.request.id", id.trim_matches('"').into()));
        if let Some(session) = cx.session_id() {
            attributes.push(("mcp.session.id", SpanValue::Text(short_hash(session))));
        }
        if let Some(code) = end.outcome.code() {
            attributes.push(("rpc.response.status_code", SpanValue::Text(code.to_string())));
        }
        FinishedSpan {
            context: self.context,
            parent: self.parents.parent,
            is_parent_remote: true,
            link: self.parents.link,
            kind: SpanKind::Server,
            name: span_name(cx.method(), name),
            start: now.checked_sub(end.time).unwrap_or(now),
            time: end.time,
            attributes,
            error: is_failure(end.outcome).then(|| error.to_owned()).filter(|it| !it.is_empty()),
        }
    }

    fn of_call(
        &self,
        context: TraceContext,
        call: &FinishedCall,
        outcome: RequestOutcome,
        now: SystemTime,
    ) -> FinishedSpan {
        let error = if outcome == RequestOutcome::ToolFailed && call.failure.is_none() {
            "tool_error"
        } else {
            call_error_type(call)
        };
        let mut attributes = attributes_of(call.method, call.name.as_deref(), error);
        attributes.push(("marquetry.upstream", (&*call.upstream).into()));
        FinishedSpan {
            context,
            parent: Some(self.context),
            is_parent_remote: false,
            link: None,
            kind: SpanKind::Client,
            name: span_name(call.method, call.name.as_deref()),
            start: now.checked_sub(call.began.elapsed()).unwrap_or(now),
            time: call.time,
            attributes,
            error: Some(error.to_owned()).filter(|it| !it.is_empty()),
        }
    }
}

fn span_name(method: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{method} {name}"),
        None => method.to_owned(),
    }
}

/// Returns the attributes that spans of both sides have (semantic conventions for MCP,
/// Development).
fn attributes_of(method: &str, name: Option<&str>, error: &str) -> Vec<(&'static str, SpanValue)> {
    let mut attributes = vec![("mcp.method.name", method.into())];
    match (method, name) {
        ("tools/call", Some(name)) => {
            attributes.push(("gen_ai.tool.name", name.into()));
            attributes.push(("gen_ai.operation.name", "execute_tool".into()));
        }
        ("prompts/get", Some(name)) => attributes.push(("gen_ai.prompt.name", name.into())),
        _ => {}
    }
    if !error.is_empty() {
        attributes.push(("error.type", error.into()));
    }
    attributes
}

/// Returns whether a request failed by a fault that is not the client's own.
fn is_failure(outcome: RequestOutcome) -> bool {
    !matches!(
        outcome,
        RequestOutcome::Ok
            | RequestOutcome::InputRequired
            | RequestOutcome::RpcError(-32700 | -32602..=-32600 | -32002)
    )
}
