//! Spans of requests for a collector of OpenTelemetry.

use std::sync::Arc;

use marquetry_trace_export::TraceExporter;

use super::Failure;
use crate::AppBuilder;

/// The exporter, if the environment names a collector.
pub(super) struct SpanExport(Option<Arc<TraceExporter>>);

impl SpanExport {
    pub(super) fn from_environment() -> Result<Self, Failure> {
        let exporter = TraceExporter::from_environment("marquetry", env!("CARGO_PKG_VERSION"))
            .map_err(|error| Failure { code: 2, message: error.to_string() })?;
        if let Some(exporter) = &exporter {
            tracing::info!(collector = exporter.collector(), "requests are traced");
        }
        Ok(Self(exporter.map(Arc::new)))
    }

    /// Passes the spans of the server's requests to the exporter.
    pub(super) fn trace(&self, builder: AppBuilder) -> AppBuilder {
        match &self.0 {
            Some(exporter) => builder.trace_to(exporter.clone()),
            None => builder,
        }
    }

    /// Sends the last spans.
    pub(super) async fn close(&self) {
        if let Some(exporter) = &self.0 {
            exporter.close().await;
        }
    }
}
