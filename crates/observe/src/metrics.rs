//! The metrics of a server.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use marquetry_audit::AuditLog;
use marquetry_metrics::{Counter, Format, Gauge, Histogram, Registry, process_metrics};

use crate::{
    GaugeSource,
    event::{RequestEnd, RequestOutcome, call_error_type, error_type},
};
use marquetry_request_notes::Refusal;

/// Upper bounds of the durations, in seconds: from a tool in the same process to one that thinks
/// for minutes.
const BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0, 300.0,
];

/// The time that the server itself takes is shorter.
const OVERHEAD_BUCKETS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Tools of an upstream whose names are labels.
const MAX_TOOLS: usize = 200;
/// Series of a metric: a few hundred tools, each with some errors.
const MAX_SERIES: usize = 10_000;
const OTHER: &str = "_other";
/// The upstream of our own tools.
const OWN: &str = "marquetry";

/// The metrics of a server. Shared by its observer and the endpoint that a scraper reads.
pub struct ServerMetrics {
    registry: Registry,
    read_process: Box<dyn Fn() + Send + Sync>,
    server: Histogram<4>,
    client: Histogram<4>,
    overhead: Histogram<1>,
    denied: Counter<1>,
    limited: Counter<0>,
    upstream_up: Gauge<1>,
    instances: Gauge<1>,
    restarts: Counter<1>,
    in_flight: Gauge<0>,
    sessions: Gauge<0>,
    pins_changed: Gauge<0>,
    reloads: Counter<1>,
    tls_not_after: Gauge<0>,
    audit_up: Gauge<0>,
    audit_dropped: Counter<0>,
    audit_lines: Counter<0>,
    audit: RwLock<Option<AuditLog>>,
    gauges: RwLock<Option<Arc<dyn GaugeSource>>>,
    /// The tools whose names are labels, by upstream.
    tools: RwLock<HashMap<String, HashSet<String>>>,
}

impl ServerMetrics {
    /// Creates the metrics of a server of this version.
    #[must_use]
    pub fn new(version: &str) -> Self {
        const OPERATION: [&str; 4] =
            ["mcp_method_name", "upstream", "gen_ai_tool_name", "error_type"];
        let registry = Registry::new().with_max_series(MAX_SERIES);
        let build = registry.gauge("marquetry_build_info", "The running version.", ["version"]);
        build.set([version], 1.0);
        let denied = registry.counter(
            "marquetry_denied_total",
            "Requests and tokens that were not allowed.",
            ["reason"],
        );
        denied.add(["token"], 0);
        let reloads = registry.counter(
            "marquetry_config_reloads_total",
            "Reloads of the configuration.",
            ["result"],
        );
        for result in ["ok", "failed"] {
            reloads.add([result], 0);
        }
        Self {
            read_process: Box::new(process_metrics(&registry)),
            server: registry.histogram(
                "mcp_server_operation_duration_seconds",
                "Time until the answer to a request of an agent.",
                BUCKETS,
                OPERATION,
            ),
            client: registry.histogram(
                "mcp_client_operation_duration_seconds",
                "Time until the answer of an upstream.",
                BUCKETS,
                OPERATION,
            ),
            overhead: registry.histogram(
                "marquetry_overhead_seconds",
                "Time of a request beside the time of its upstreams.",
                OVERHEAD_BUCKETS,
                ["mcp_method_name"],
            ),
            denied,
            limited: registry.counter(
                "marquetry_limited_total",
                "Requests that exceeded a limit.",
                [],
            ),
            upstream_up: registry.gauge(
                "marquetry_upstream_up",
                "Whether the upstream answers.",
                ["upstream"],
            ),
            instances: registry.gauge(
                "marquetry_instances",
                "Running instances of the upstream.",
                ["upstream"],
            ),
            restarts: registry.counter(
                "marquetry_restarts_total",
                "Starts of the upstream after the first one.",
                ["upstream"],
            ),
            in_flight: registry.gauge("marquetry_in_flight", "Requests in flight.", []),
            sessions: registry.gauge("marquetry_sessions", "Open HTTP sessions.", []),
            pins_changed: registry.gauge(
                "marquetry_pins_changed",
                "Definitions that differ from their pins and wait for somebody to accept them.",
                [],
            ),
            reloads,
            tls_not_after: registry.gauge(
                "marquetry_tls_not_after_timestamp_seconds",
                "End of validity of the server's certificate, in seconds since the epoch; 0 without TLS.",
                [],
            ),
            audit_up: registry.gauge(
                "marquetry_audit_up",
                "Whether the audit log can be written. 1 without an audit log.",
                [],
            ),
            audit_dropped: registry.counter(
                "marquetry_audit_dropped_total",
                "Events that are missing in the audit log: dropped, or not written.",
                [],
            ),
            audit_lines: registry.counter(
                "marquetry_audit_lines_total",
                "Lines that were written to the audit log.",
                [],
            ),
            registry,
            audit: RwLock::default(),
            gauges: RwLock::default(),
            tools: RwLock::default(),
        }
    }

    /// Reads the state of this log when the metrics are asked for.
    pub fn watch_audit(&self, log: AuditLog) {
        *self.audit.write().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// Reads these values when the metrics are asked for.
    pub fn watch_gauges(&self, gauges: Arc<dyn GaugeSource>) {
        *self.gauges.write().unwrap_or_else(PoisonError::into_inner) = Some(gauges);
    }

    /// Counts a reload of the configuration.
    pub fn reloaded(&self, is_ok: bool) {
        self.reloads.add([if is_ok { "ok" } else { "failed" }], 1);
    }

    /// Sets when the server's certificate ends, since the epoch.
    pub fn set_tls_not_after(&self, since_epoch: Duration) {
        self.tls_not_after.set([], since_epoch.as_secs_f64());
    }

    /// Counts a token that was refused.
    pub fn token_refused(&self) {
        self.denied.add(["token"], 1);
    }

    /// Returns the names of all metrics.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.registry.names()
    }

    /// Writes all metrics.
    #[must_use]
    pub fn write(&self, format: Format) -> String {
        (self.read_process)();
        let audit = self.audit.read().unwrap_or_else(PoisonError::into_inner).clone();
        let audit = audit.map(|log| log.status());
        let is_writable = audit.as_ref().is_none_or(|status| status.problem.is_none());
        self.audit_up.set([], f64::from(u8::from(is_writable)));
        if let Some(status) = audit {
            self.audit_dropped.raise_to([], (status.dropped + status.lost) as f64);
            self.audit_lines.raise_to([], status.lines as f64);
        }
        let gauges = self.gauges.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(gauges) = gauges {
            let upstreams = gauges.upstreams();
            let up = upstreams.iter().map(|it| ([&*it.name], f64::from(u8::from(it.is_up))));
            self.upstream_up.replace(up);
            self.instances.replace(upstreams.iter().map(|it| ([&*it.name], it.instances as f64)));
            for upstream in &upstreams {
                self.restarts.raise_to([&upstream.name], upstream.restarts as f64);
            }
            self.pins_changed.set([], gauges.pins_changed() as f64);
            self.in_flight.set([], gauges.in_flight() as f64);
            self.sessions.set([], gauges.sessions() as f64);
        }
        self.registry.write(format)
    }

    /// Counts a request that was refused before it ran.
    pub(crate) fn refused(&self, code: i32) {
        let error = error_type(RequestOutcome::RpcError(code));
        // The client chose the name of the method.
        self.server.observe([OTHER, "", "", error], 0.0);
    }

    /// Counts a request, and its calls of upstreams.
    pub(crate) fn request(&self, method: &str, name: Option<&str>, end: &RequestEnd<'_>) {
        let notes = end.notes;
        let error = match notes.refusal {
            Some(refusal) => refusal.name(),
            None => error_type(end.outcome),
        };
        let mut upstream = String::new();
        let mut tool = String::new();
        if let Some(called) = notes.upstream() {
            called.clone_into(&mut upstream);
            if method == "tools/call" {
                tool = self.tool_label(called, notes.name_at_upstream().unwrap_or_default());
            }
        } else if method == "tools/call" && !matches!(end.outcome, RequestOutcome::RpcError(_)) {
            // Only a tool of ours answers without an upstream.
            OWN.clone_into(&mut upstream);
            tool = self.tool_label(OWN, name.unwrap_or_default());
        }
        let time = end.time;
        self.server.observe([method, &upstream, &tool, error], time.as_secs_f64());
        for call in &notes.upstream_calls {
            let tool = match call.method {
                "tools/call" => self.tool_label(&call.upstream, call.name.as_deref().unwrap_or("")),
                _ => String::new(),
            };
            let error = match end.outcome {
                RequestOutcome::ToolFailed if call.failure.is_none() => "tool_error",
                _ => call_error_type(call),
            };
            self.client
                .observe([call.method, &call.upstream, &tool, error], call.time.as_secs_f64());
        }
        if !notes.upstream_calls.is_empty() {
            let own = time.saturating_sub(notes.upstream_time());
            self.overhead.observe([method], own.as_secs_f64());
        }
        match notes.refusal {
            Some(Refusal::Limited) => self.limited.add([], 1),
            Some(refusal) => self.denied.add([refusal.name()], 1),
            None if end.outcome == RequestOutcome::RpcError(429) => self.limited.add([], 1),
            None => {}
        }
    }

    /// Returns the label of a tool. Names of an upstream beyond [`MAX_TOOLS`] are `_other`.
    fn tool_label(&self, upstream: &str, tool: &str) -> String {
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        if tools.get(upstream).is_some_and(|known| known.contains(tool)) {
            return tool.to_owned();
        }
        drop(tools);
        let mut tools = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let known = tools.entry(upstream.to_owned()).or_default();
        if known.len() >= MAX_TOOLS {
            return OTHER.to_owned();
        }
        known.insert(tool.to_owned());
        tool.to_owned()
    }
}

impl std::fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_bounded() {
        let metrics = ServerMetrics::new("1");
        for upstream in ["a", "b"] {
            let labels: HashSet<_> =
                (0..1_000).map(|n| metrics.tool_label(upstream, &format!("tool{n}"))).collect();
            assert_eq!(labels.len(), MAX_TOOLS + 1);
            assert!(labels.contains(OTHER));
            assert_eq!(metrics.tool_label(upstream, "tool0"), "tool0");
        }
    }

    #[test]
    fn a_server_without_upstreams_and_audit_log_has_metrics() {
        let metrics = ServerMetrics::new("1.2.3");
        metrics.reloaded(false);
        metrics.set_tls_not_after(Duration::from_secs(7));
        metrics.token_refused();
        let text = metrics.write(Format::Prometheus);
        for sample in [
            "marquetry_build_info{version=\"1.2.3\"} 1\n",
            "marquetry_config_reloads_total{result=\"failed\"} 1\n",
            "marquetry_config_reloads_total{result=\"ok\"} 0\n",
            "marquetry_tls_not_after_timestamp_seconds 7\n",
            "marquetry_denied_total{reason=\"token\"} 1\n",
            "marquetry_audit_up 1\n",
            "marquetry_limited_total 0\n",
        ] {
            assert!(text.contains(sample), "{sample}{text}");
        }
    }
}
