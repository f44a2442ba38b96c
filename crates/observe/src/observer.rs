//! The observer of a server: one event from each request, for the log, the audit log and metrics.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    server::{Peer, Reply, RequestContext, RequestObserver, RunningRequest},
};
use marquetry_request_notes::{NoteSheet, Refusal};

use marquetry_trace_context::TraceContext;

use crate::{
    AuditTrail, ServerMetrics, SpanSink,
    event::{RequestEnd, RequestOutcome, RequestTarget},
    spans::{RequestSpan, TraceParents},
};

/// The part of the program in the log, which `log.level = "info,marquetry::calls=warn"` silences.
const TARGET: &str = "marquetry::calls";

/// Observes the requests of a server.
#[derive(Clone)]
pub struct Observer {
    /// The name of the server in the log, for its own tools.
    server: Arc<str>,
    audit: Option<AuditTrail>,
    metrics: Option<Arc<ServerMetrics>>,
    spans: Option<Arc<dyn SpanSink>>,
}

/// A request that runs. It leaves its event when it ends, or when it is dropped.
struct ObservedRequest<'a> {
    observer: &'a Observer,
    cx: &'a RequestContext,
    target: RequestTarget,
    notes: NoteSheet,
    /// `None` if requests are not traced.
    span: Option<RequestSpan>,
    began: Instant,
    has_ended: bool,
}

impl Observer {
    /// Creates an observer that writes a line of the log for each tool call.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self { server: server.into(), audit: None, metrics: None, spans: None }
    }

    /// Writes each request to an audit log, too.
    #[must_use]
    pub fn with_audit(self, audit: AuditTrail) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Passes the spans of each request to a sink, too. Upstreams get the span of their call in
    /// `_meta.traceparent`.
    #[must_use]
    pub fn with_spans(self, spans: Arc<dyn SpanSink>) -> Self {
        Self { spans: Some(spans), ..self }
    }

    /// Counts each request in metrics, too.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<ServerMetrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }
}

#[async_trait]
impl RequestObserver for Observer {
    async fn observe(
        &self,
        cx: &RequestContext,
        request: RunningRequest<'_>,
    ) -> Result<Reply, RpcError> {
        if let Some(audit) = &self.audit
            && cx.method() != "ping"
        {
            // Before the request has an effect. Its event would be lost, too.
            audit.accepts()?;
        }
        let observed = ObservedRequest::begin(self, cx);
        let answer = observed.notes.during(request).await;
        observed.end(answer).await
    }

    fn refused(&self, method: &str, peer: &Peer, error: &RpcError) {
        if let Some(audit) = &self.audit {
            audit.refused(method, peer, error);
        }
        if let Some(metrics) = &self.metrics {
            metrics.refused(error.code);
        }
    }
}

impl<'a> ObservedRequest<'a> {
    fn begin(observer: &'a Observer, cx: &'a RequestContext) -> Self {
        let span = observer.spans.clone().map(|sink| RequestSpan::begin(sink, cx));
        let traced = span.as_ref().map(|span| NoteSheet::traced(span.context));
        Self {
            observer,
            cx,
            target: RequestTarget::of(cx),
            notes: traced.unwrap_or_default(),
            span,
            began: Instant::now(),
            has_ended: false,
        }
    }

    /// Leaves the event, and returns the answer, or the refusal of an audit log that cannot be
    /// written.
    async fn end(mut self, answer: Result<Reply, RpcError>) -> Result<Reply, RpcError> {
        self.has_ended = true;
        let notes = self.notes.take();
        let end = RequestEnd {
            outcome: RequestOutcome::of(&answer, &notes),
            time: self.began.elapsed(),
            bytes: answer.as_ref().map_or(0, |reply| reply.get().get().len()),
            notes: &notes,
            trace: self.trace(),
        };
        self.report(&end);
        match &self.observer.audit {
            Some(audit) => {
                let written = audit.write(self.cx, &self.target, &end).await;
                written.and(answer)
            }
            None => answer,
        }
    }

    /// Returns the span of the request for the audit log.
    fn trace(&self) -> Option<TraceContext> {
        match (&self.span, &self.observer.audit) {
            (Some(span), _) => Some(span.context),
            (None, Some(_)) => TraceParents::of(self.cx).parent,
            (None, None) => None,
        }
    }

    /// Writes the line of the log, counts the request, and passes on its spans.
    fn report(&self, end: &RequestEnd<'_>) {
        let method = self.cx.method();
        if let Some(span) = &self.span {
            span.end(self.cx, &self.target, end);
        }
        if method == "tools/call" && tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            let caller = self.cx.principal().map_or_else(|| "local".to_owned(), |it| it.id());
            let ms = u64::try_from(end.time.as_millis()).unwrap_or(u64::MAX);
            let server = end.notes.upstream().unwrap_or(&self.observer.server);
            let name = end.notes.name.as_deref().or(self.target.name.as_deref());
            // Clients choose the names of unknown tools.
            let tool = name.map_or("", |name| &name[..name.floor_char_boundary(200)]);
            let outcome = end.notes.refusal.map_or(end.outcome.name(), Refusal::name);
            let bytes = end.bytes;
            tracing::info!(target: TARGET, caller, server, tool, outcome, bytes, ms, "call");
        }
        if let Some(metrics) = &self.observer.metrics {
            let name = end.notes.name.as_deref().or(self.target.name.as_deref());
            metrics.request(method, name, end);
        }
    }
}

/// A dropped request was cancelled.
impl Drop for ObservedRequest<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let notes = self.notes.take();
        let outcome = RequestOutcome::Cancelled;
        let time = self.began.elapsed();
        let trace = self.trace();
        let end = RequestEnd { outcome, time, bytes: 0, notes: &notes, trace };
        self.report(&end);
        if let Some(audit) = &self.observer.audit {
            audit.submit(self.cx, &self.target, &end);
        }
    }
}
