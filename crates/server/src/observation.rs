//! The audit log and the metrics of a server, and the observer that feeds them.

use std::sync::Arc;

use marquetry_audit::AuditLog;
use marquetry_config::{
    Config, ConfigError, SERVER_NAME,
    sections::{AuditArguments, AuditConfig},
};
use marquetry_console::Console;
use marquetry_gateway::{Gateway, PinListener, UpstreamState};
use marquetry_observe::{
    ArgumentDetail, AuditTrail, AuditingAuthenticator, GaugeSource, Observer, ServerMetrics,
    SpanSink, UpstreamGauges,
};
use marquetry_protocol::server::{Server, http::Authenticator};
use serde_json::json;

/// The audit log and the metrics, if they are switched on.
#[derive(Clone, Default)]
pub(crate) struct Observation {
    pub(crate) audit: Option<AuditTrail>,
    pub(crate) metrics: Option<Arc<ServerMetrics>>,
    spans: Option<Arc<dyn SpanSink>>,
}

impl Observation {
    /// Opens the audit log.
    pub(crate) fn open(
        config: &Config,
        spans: Option<Arc<dyn SpanSink>>,
    ) -> Result<Self, ConfigError> {
        let audit = config.open_audit_log()?.map(|log| trail(log, &config.audit));
        let metrics = config.metrics.listen.map(|_| {
            let metrics = ServerMetrics::new(env!("CARGO_PKG_VERSION"));
            if let Some(audit) = &audit {
                metrics.watch_audit(audit.log().clone());
            }
            Arc::new(metrics)
        });
        Ok(Self { audit, metrics, spans })
    }

    /// Returns a server that is observed, and shows its gauges in the metrics.
    pub(crate) fn observed(&self, server: Server, gateway: &Arc<Gateway>) -> Server {
        let mut observer = Observer::new(SERVER_NAME);
        if let Some(audit) = &self.audit {
            observer = observer.with_audit(audit.clone());
        }
        if let Some(spans) = &self.spans {
            observer = observer.with_spans(spans.clone());
        }
        if let Some(metrics) = &self.metrics {
            observer = observer.with_metrics(metrics.clone());
            let gauges = Gauges { server: server.clone(), gateway: gateway.clone() };
            metrics.watch_gauges(Arc::new(gauges));
        }
        server.with_observer(Arc::new(observer))
    }

    /// Writes logins to the console to the audit log.
    pub(crate) fn watch_logins(&self, console: &Console) {
        if let Some(audit) = self.audit.clone() {
            console.logins().on_login(move |is_right| audit.console_login(is_right));
        }
    }

    /// Writes changes of what upstreams say, and of their pins, to the audit log.
    pub(crate) fn pin_listener(&self) -> Option<PinListener> {
        let audit = self.audit.clone()?;
        Some(PinListener::new(move |event| {
            let event = json!({"event": "pin", "change": event.change, "upstream": event.server, "kind": event.kind, "name": event.name});
            _ = audit.log().submit(&event);
        }))
    }

    /// Reports the tokens that an authenticator refuses.
    pub(crate) fn authenticator(&self, inner: Arc<dyn Authenticator>) -> Arc<dyn Authenticator> {
        if self.audit.is_none() && self.metrics.is_none() {
            return inner;
        }
        Arc::new(AuditingAuthenticator::new(inner, self.audit.clone(), self.metrics.clone()))
    }

    /// Returns why the audit log cannot be written at present. It names no file.
    pub(crate) fn audit_problem(&self) -> Option<String> {
        let problem = self.audit.as_ref()?.log().status().problem?;
        Some(format!("the audit log cannot be written: {problem}"))
    }
}

fn trail(log: AuditLog, config: &AuditConfig) -> AuditTrail {
    let hidden = config.redact.clone();
    AuditTrail::new(log)
        .with_arguments(match config.arguments {
            AuditArguments::None => ArgumentDetail::None,
            AuditArguments::Keys => ArgumentDetail::Keys,
            AuditArguments::Full => ArgumentDetail::Full,
        })
        .hiding(move |name| hidden.iter().any(|pattern| pattern.matches(name)))
}

/// The values that are read when the metrics are asked for.
struct Gauges {
    server: Server,
    gateway: Arc<Gateway>,
}

impl GaugeSource for Gauges {
    fn upstreams(&self) -> Vec<UpstreamGauges> {
        let upstreams = self.gateway.upstreams();
        let enabled = upstreams.iter().filter(|it| !matches!(it.state(), UpstreamState::Disabled));
        let gauges = enabled.map(|it| {
            let is_up = matches!(it.state(), UpstreamState::Ready(_)) && it.doubt().is_none();
            let mut gauges = UpstreamGauges::new(it.name(), is_up, it.restarts().into());
            gauges.instances += it.instances().map_or(0, |count| count.ready);
            gauges
        });
        gauges.collect()
    }

    fn pins_changed(&self) -> usize {
        self.gateway.pins_changed()
    }

    fn in_flight(&self) -> usize {
        self.server.in_use().0
    }

    fn sessions(&self) -> usize {
        self.server.in_use().1
    }
}
