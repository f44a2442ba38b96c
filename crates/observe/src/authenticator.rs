//! Refused tokens in the audit log and in the metrics.

use std::sync::Arc;

use async_trait::async_trait;
use http::{header, request::Parts};
use marquetry_protocol::{
    auth::Challenge,
    server::{
        Principal,
        http::{Authenticator, Denial},
    },
};
use marquetry_rate_limit::LogLimit;

use crate::{AuditTrail, ServerMetrics};

/// Writes the tokens that another authenticator refuses to the audit log, and counts them. A
/// request without a token is how clients ask for the challenge: it leaves no event.
pub struct AuditingAuthenticator {
    inner: Arc<dyn Authenticator>,
    audit: Option<AuditTrail>,
    metrics: Option<Arc<ServerMetrics>>,
    /// A person without a token must not be able to fill the log, and so to remove old files.
    rate: LogLimit,
}

impl AuditingAuthenticator {
    /// Reports what `inner` refuses.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Authenticator>,
        audit: Option<AuditTrail>,
        metrics: Option<Arc<ServerMetrics>>,
    ) -> Self {
        Self { inner, audit, metrics, rate: LogLimit::new(10) }
    }
}

#[async_trait]
impl Authenticator for AuditingAuthenticator {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        let denial = match self.inner.authenticate(request).await {
            Err(denial) if request.headers.contains_key(header::AUTHORIZATION) => denial,
            other => return other,
        };
        if let Some(metrics) = &self.metrics {
            metrics.token_refused();
        }
        if let Some(audit) = &self.audit
            && let Some(suppressed) = self.rate.admit()
        {
            let status = denial.status.as_u16();
            audit.token_refused(request, status, &denial.message, suppressed).await;
        }
        Err(denial)
    }

    fn step_up(&self, scopes: &[String]) -> Challenge {
        self.inner.step_up(scopes)
    }
}
