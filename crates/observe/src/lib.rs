#![doc = include_str!("../README.md")]

mod authenticator;
mod endpoint;
mod event;
mod gauges;
mod metrics;
mod observer;
mod spans;
mod trail;

pub use crate::{
    authenticator::AuditingAuthenticator,
    endpoint::{MetricsAccess, metrics_router},
    gauges::{GaugeSource, UpstreamGauges},
    metrics::ServerMetrics,
    observer::Observer,
    spans::{FinishedSpan, SpanKind, SpanSink, SpanValue},
    trail::{ArgumentDetail, AuditTrail},
};
