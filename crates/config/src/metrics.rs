//! The section `[metrics]`.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Config;

/// Metrics for Prometheus, at `/metrics` of a listener of their own, while `marquetry serve` runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// Address of the listener. Without it, there are no metrics. On a loopback address, every
    /// program of this machine may read them; on any other one, a token with the scope `metrics` is
    /// needed.
    #[schemars(with = "Option<String>", example = &"127.0.0.1:9464")]
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// Returns why `metrics.listen` is not safe.
    pub(crate) fn metrics_problem(&self) -> Option<String> {
        let listen = self.metrics.listen?;
        if listen.ip().is_loopback() || self.auth.is_set() {
            return None;
        }
        Some(format!(
            "{listen} can be reached from other machines, whose scrapers would need no token; set up [auth], or listen on 127.0.0.1"
        ))
    }
}
