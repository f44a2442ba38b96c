//! The exporter: spans of requests become those of OpenTelemetry.

use std::{borrow::Cow, env, fmt, sync::Arc};

use marquetry_observe::{FinishedSpan, SpanKind, SpanSink, SpanValue};
use marquetry_trace_context::TraceContext;
use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{self, Link, SpanContext, Status, TraceState},
};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchSpanProcessor, SpanData, SpanLinks, SpanProcessor as _},
};
use tokio::runtime::Handle;

use crate::{client::CollectorClient, sampling::Sampling};

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceExportError {
    /// A variable has a wrong value; the text names it.
    #[error("{0}")]
    Variable(String),
    /// The HTTP client cannot be set up.
    #[error("tracing: {0}")]
    Client(#[from] marquetry_endpoint::ClientError),
    /// The exporter cannot be set up.
    #[error("tracing: {0}")]
    Exporter(String),
}

/// Sends spans to a collector.
pub struct TraceExporter {
    processor: Arc<BatchSpanProcessor>,
    sampling: Sampling,
    scope: InstrumentationScope,
    /// The URL of the collector without secrets, for the log.
    endpoint: String,
}

impl TraceExporter {
    /// Creates the exporter that the environment asks for; `None` if it names no collector. Must
    /// be called within a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a variable has a wrong value, or the client cannot be set up.
    pub fn from_environment(
        service: &'static str,
        version: &'static str,
    ) -> Result<Option<Self>, TraceExportError> {
        let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|it| it == "true")
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|it| it == "none");
        let endpoint = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let Some(endpoint) = endpoint.filter(|_| !is_disabled) else { return Ok(None) };
        let url = reqwest::Url::parse(&endpoint)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| {
                let name = "OTEL_EXPORTER_OTLP_ENDPOINT";
                TraceExportError::Variable(format!("{name}: it is not a URL of http or https"))
            })?;
        if let Some(protocol) = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"))
            .filter(|it| it != "http/protobuf")
        {
            return Err(TraceExportError::Variable(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL: {protocol:?} is not supported; use http/protobuf, and the collector's port for HTTP (4318)"
            )));
        }
        let sampling = Sampling::parse(
            variable("OTEL_TRACES_SAMPLER").as_deref(),
            variable("OTEL_TRACES_SAMPLER_ARG").as_deref(),
        )
        .map_err(TraceExportError::Variable)?;
        let client = CollectorClient {
            client: marquetry_endpoint::http_client(&url)?,
            runtime: Handle::current(),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .build()
            .map_err(|error| TraceExportError::Exporter(error.to_string()))?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        processor.set_resource(&resource(service, version));
        let scope = InstrumentationScope::builder(service).with_version(version).build();
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let endpoint = format!("{host}:{port}");
        Ok(Some(Self { processor: Arc::new(processor), sampling, scope, endpoint }))
    }

    /// Sends the spans that wait, for at most five seconds. Later spans are lost.
    pub async fn close(&self) {
        let processor = self.processor.clone();
        let closing = tokio::task::spawn_blocking(move || processor.shutdown());
        if let Ok(Err(error)) = closing.await {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }

    /// Returns host and port of the collector.
    #[must_use]
    pub fn collector(&self) -> &str {
        &self.endpoint
    }
}

impl fmt::Debug for TraceExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceExporter").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl SpanSink for TraceExporter {
    fn begin(&self, parent: Option<TraceContext>) -> TraceContext {
        self.sampling.begin(parent)
    }

    fn record(&self, span: FinishedSpan) {
        self.processor.on_end(data_of(span, &self.scope));
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Returns who sends the spans. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
fn resource(service: &'static str, version: &'static str) -> Resource {
    let builder = Resource::builder().with_attribute(KeyValue::new("service.version", version));
    match variable("OTEL_SERVICE_NAME") {
        Some(name) => builder.with_service_name(name).build(),
        None => builder.with_service_name(service).build(),
    }
}

fn data_of(span: FinishedSpan, scope: &InstrumentationScope) -> SpanData {
    let mut links = SpanLinks::default();
    links.links.extend(span.link.map(|link| Link::new(context_of(link, true), Vec::new(), 0)));
    let attributes = span.attributes.into_iter().map(|(name, value)| {
        let value: Value = match value {
            SpanValue::Text(text) => text.into(),
            SpanValue::Integer(number) => number.into(),
        };
        KeyValue::new(name, value)
    });
    SpanData {
        span_context: context_of(span.context, false),
        parent_span_id: span
            .parent
            .map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.span_id())),
        parent_span_is_remote: span.is_parent_remote,
        span_kind: match span.kind {
            SpanKind::Server => trace::SpanKind::Server,
            SpanKind::Client => trace::SpanKind::Client,
        },
        name: Cow::Owned(span.name),
        start_time: span.start,
        end_time: span.start + span.time,
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links,
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

fn context_of(context: TraceContext, is_remote: bool) -> SpanContext {
    let flags = TraceFlags::default().with_sampled(context.is_sampled());
    SpanContext::new(
        TraceId::from_bytes(context.trace_id()),
        SpanId::from_bytes(context.span_id()),
        flags,
        is_remote,
        TraceState::default(),
    )
}
