//! `GET /healthz`, `/livez` and `/readyz`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_artifacts::ArtifactStore;
use marquetry_gateway::{Gateway, Rate, UpstreamState};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The name of the artifact store among the faults.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// The scope of a token that may see the whole of `/healthz`.
pub(crate) const ADMIN: &str = "admin";

/// How long after a failed save no requests should be sent here. While none come, no save can succeed and end the
/// fault, so a longer time would keep them away for ever.
const UNREADY_TIME: Duration = Duration::from_secs(10);

/// How the server is.
pub(crate) struct Health {
    gateway: Arc<Gateway>,
    /// The kind of each upstream's transport, in the order of the configuration.
    transports: Vec<&'static str>,
    store: Arc<dyn ArtifactStore>,
    faults: Arc<Faults>,
    /// Cancelled when the server shuts down.
    stop: CancellationToken,
}

/// The one word that everybody may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything works.
    Ok,
    /// Something does not work, and the rest does.
    Degraded,
    /// None of the upstreams works, or the server is shutting down.
    Down,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// Why requests should not be sent here now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// Some upstreams have neither been started nor failed yet.
    Starting,
    /// A part that requests need has failed within [`UNREADY_TIME`]; `/healthz` says which.
    Failing,
    /// The server is shutting down.
    Stopping,
}

impl NotReady {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Failing => "failing",
            Self::Stopping => "stopping",
        }
    }
}

/// Parts of the server that failed when they were last used, each with its problem.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    problems: Mutex<BTreeMap<&'static str, Fault>>,
    /// By part, so that a part which fails often does not silence another.
    logged: Mutex<BTreeMap<&'static str, Rate>>,
}

#[derive(Debug)]
struct Fault {
    problem: String,
    /// When the part failed last.
    failed: Instant,
}

impl Faults {
    /// Notes that a part fails, and logs it.
    pub(crate) fn raise(&self, part: &'static str, problem: String) {
        if let Some(suppressed) = self.admit(part) {
            tracing::error!(part, problem, suppressed, "a part of the server fails");
        }
        self.problems().insert(part, Fault { problem, failed: Instant::now() });
    }

    /// Returns how many failures of a part were not logged since the last one that was, if this one may be.
    fn admit(&self, part: &'static str) -> Option<u64> {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.entry(part).or_insert_with(|| Rate::new(1)).admit()
    }

    /// Notes that a part works.
    pub(crate) fn clear(&self, part: &'static str) {
        if self.problems().remove(part).is_some() {
            tracing::info!(part, "a part of the server works again");
        }
    }

    /// Whether a part has failed within this time, and not worked since.
    fn has_within(&self, part: &'static str, time: Duration) -> bool {
        self.problems().get(part).is_some_and(|fault| fault.failed.elapsed() < time)
    }

    fn list(&self) -> Vec<(&'static str, String)> {
        self.problems().iter().map(|(part, fault)| (*part, fault.problem.clone())).collect()
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<&'static str, Fault>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        transports: Vec<&'static str>,
        store: Arc<dyn ArtifactStore>,
        faults: Arc<Faults>,
        stop: CancellationToken,
    ) -> Self {
        Self { gateway, transports, store, faults, stop }
    }

    /// The one word.
    pub(crate) fn status(&self) -> Status {
        let (mut started, mut failing) = (0, 0);
        for upstream in self.gateway.upstreams() {
            let state = upstream.state();
            started += usize::from(!matches!(state, UpstreamState::Disabled));
            failing += usize::from(match state {
                UpstreamState::Disabled | UpstreamState::Starting => false,
                UpstreamState::Ready(_) => upstream.doubt().is_some(),
                UpstreamState::BackingOff { .. }
                | UpstreamState::Failed { .. }
                | UpstreamState::Stopped => true,
            });
        }
        let is_starting = self
            .gateway
            .upstreams()
            .iter()
            .any(|upstream| matches!(upstream.state(), UpstreamState::Starting));
        if self.stop.is_cancelled() || (started > 0 && failing == started) {
            Status::Down
        } else if failing > 0 || is_starting || !self.faults.list().is_empty() {
            Status::Degraded
        } else {
            Status::Ok
        }
    }

    /// Whether requests should be sent here.
    pub(crate) fn readiness(&self) -> Result<(), NotReady> {
        if self.stop.is_cancelled() {
            Err(NotReady::Stopping)
        } else if !self.gateway.is_settled() {
            Err(NotReady::Starting)
        } else if self.faults.has_within(ARTIFACTS, UNREADY_TIME) {
            Err(NotReady::Failing)
        } else {
            Ok(())
        }
    }

    /// Everything, for those who may know it.
    pub(crate) fn report(&self) -> Value {
        /// Refused names shown of one upstream; a log line told each.
        const MOST_REFUSED: usize = 20;
        let catalog = self.gateway.catalog();
        let upstreams = self.gateway.upstreams().iter().enumerate().map(|(index, upstream)| {
            let state = upstream.state();
            let mut report = match (&state, upstream.doubt()) {
                (UpstreamState::Ready(_), Some(problem)) => json!({"state": "suspect", "problem": problem}),
                _ => state.report(),
            };
            report["name"] = json!(upstream.name());
            report["transport"] = json!(self.transports[index]);
            report["tools"] = json!(catalog.tools_of(index));
            report["restarts"] = json!(upstream.restarts());
            let refused = catalog.refused.iter().filter(|refused| refused.upstream == index);
            let refused: Vec<Value> = refused
                .take(MOST_REFUSED)
                .map(|refused| json!({"kind": refused.kind, "name": refused.name, "why": refused.why.to_string()}))
                .collect();
            if !refused.is_empty() {
                report["refused"] = json!(refused);
            }
            let listing = upstream.listing();
            if !listing.left_out.is_empty() {
                let lists = listing.left_out.iter();
                let lists = lists.map(|(list, problem)| json!({"list": list, "problem": problem}));
                report["left_out"] = lists.collect();
            }
            report
        });
        let upstreams: Vec<Value> = upstreams.collect();
        let usage = self.store.usage();
        let mut report = json!({
            "status": self.status().name(),
            "version": env!("CARGO_PKG_VERSION"),
            "upstreams": upstreams,
            "artifacts": {"bytes": usage.bytes, "limit": usage.limit, "evicted": usage.evicted},
        });
        let faults = self.faults.list();
        if !faults.is_empty() {
            let faults = faults.iter();
            let faults = faults.map(|(part, problem)| json!({"part": part, "problem": problem}));
            report["faults"] = faults.collect();
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use marquetry_artifacts::{MemoryLimits, MemoryStore};

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_fault_lasts_until_its_part_works() {
        let faults = Faults::default();
        faults.raise("artifacts", "disk is full".to_owned());
        faults.raise("artifacts", "disk is full".to_owned());
        faults.clear("knowledge");
        assert_eq!(faults.list(), [("artifacts", "disk is full".to_owned())]);
        faults.clear("artifacts");
        assert_eq!(faults.list(), []);
    }

    #[test]
    fn a_part_that_fails_often_does_not_silence_another() {
        let faults = Faults::default();
        (0..100).for_each(|_| faults.raise("artifacts", "disk is full".to_owned()));
        assert_eq!(faults.admit("artifacts"), None);
        assert_eq!(faults.admit("knowledge"), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_come_again_some_time_after_a_failed_save() {
        let gateway = Gateway::start(Config::default().gateway_options(&[]), Arc::new(()));
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let faults = Arc::new(Faults::default());
        let stop = CancellationToken::new();
        let health = Health::new(gateway, Vec::new(), store, faults.clone(), stop);
        assert_eq!(health.readiness(), Ok(()));
        faults.raise(ARTIFACTS, "disk is full".to_owned());
        tokio::time::advance(UNREADY_TIME / 2).await;
        faults.raise(ARTIFACTS, "disk is full".to_owned());
        tokio::time::advance(UNREADY_TIME * 3 / 4).await;
        assert_eq!(health.readiness(), Err(NotReady::Failing));
        tokio::time::advance(UNREADY_TIME).await;
        assert_eq!(health.readiness(), Ok(()));
        // Health tells it until a save succeeds.
        assert_eq!(health.status(), Status::Degraded);
        assert_eq!(health.report()["faults"][0]["part"], ARTIFACTS);
        faults.raise(ARTIFACTS, "disk is full".to_owned());
        assert_eq!(health.readiness(), Err(NotReady::Failing));
        faults.clear(ARTIFACTS);
        assert_eq!((health.readiness(), health.status()), (Ok(()), Status::Ok));
    }
}
