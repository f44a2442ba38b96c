//! `GET /healthz`, `/livez` and `/readyz`.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use marquetry_artifacts::ArtifactStore;
use marquetry_config::Config;
use marquetry_gateway::{Catalog, Gateway, Upstream, UpstreamState};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{ARTIFACT_STORE, ARTIFACTS, AUDIT, DATABASE, Faults, PINS},
    knowledge::Knowledge,
    observation::Observation,
};

/// The scope of a token that may see the whole of `/healthz`.
pub(crate) const ADMIN: &str = "admin";

/// Time after a failed save during which `/readyz` reports a failure. It has a limit because only a
/// request can save again, and the load balancer sends none meanwhile.
const UNREADY_TIME: Duration = Duration::from_secs(10);

/// Time after which `/readyz` tries the stores again. Each try costs some requests to a bucket.
const TRY_AGAIN: Duration = Duration::from_secs(15);
/// Time for one try.
const TRY_TIME: Duration = Duration::from_secs(5);

/// Computes the state of the server from its upstreams, its stores and its faults.
pub(crate) struct Health {
    gateway: Arc<Gateway>,
    /// The kind of each upstream's transport, by its name.
    transports: RwLock<BTreeMap<String, &'static str>>,
    store: Arc<dyn ArtifactStore>,
    knowledge: Knowledge,
    faults: Arc<Faults>,
    observation: Observation,
    /// When the stores were tried last, and their problem.
    tried: Mutex<Option<(Instant, Option<String>)>>,
    /// Cancelled when the server shuts down.
    stop: CancellationToken,
}

/// The state that `/healthz` shows to every caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Everything works.
    Ok,
    /// Some part fails; the rest works.
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

/// Why `/readyz` asks load balancers to send no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReady {
    /// An upstream is still starting for the first time.
    Starting,
    /// A part that requests need failed within [`UNREADY_TIME`]; `/healthz` says which.
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

impl Health {
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        config: &Config,
        store: Arc<dyn ArtifactStore>,
        knowledge: Knowledge,
        faults: Arc<Faults>,
        observation: Observation,
        stop: CancellationToken,
    ) -> Self {
        let transports = RwLock::new(transports(config));
        let tried = Mutex::default();
        Self { gateway, transports, store, knowledge, faults, observation, tried, stop }
    }

    /// Takes the kinds of transports from a configuration that was read again.
    pub(crate) fn set_transports(&self, config: &Config) {
        *self.transports.write().unwrap_or_else(PoisonError::into_inner) = transports(config);
    }

    /// Returns the state of the server.
    pub(crate) fn status(&self) -> Status {
        self.audit_problem();
        match self.gateway.pins_problem() {
            Some(problem) => self.faults.raise(PINS, problem),
            None => self.faults.clear(PINS),
        }
        let mut started = 0;
        let mut failing = 0;
        for upstream in self.gateway.upstreams().iter() {
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

    /// Returns whether load balancers should send requests.
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

    /// Tries from time to time whether artifacts can be stored and the database can be read.
    /// Returns a problem, which names no file.
    pub(crate) async fn store_problem(&self) -> Option<String> {
        if let Some(problem) = self.audit_problem() {
            return Some(problem);
        }
        let mut tried = self.tried.lock().await;
        if let Some((at, problem)) = &*tried
            && at.elapsed() < TRY_AGAIN
        {
            return problem.clone();
        }
        let (artifacts, database) = tokio::join!(
            self.try_part(ARTIFACT_STORE, self.store.check()),
            self.try_part(DATABASE, self.knowledge.service().try_database())
        );
        // The error of a database names its file, which is for administrators.
        let database =
            database.map(|_| "the database of records cannot be used; the log says why".to_owned());
        let problem = artifacts.or(database);
        *tried = Some((Instant::now(), problem.clone()));
        problem
    }

    /// Reports whether the audit log can be written. Returns its problem.
    fn audit_problem(&self) -> Option<String> {
        let problem = self.observation.audit_problem();
        match &problem {
            Some(problem) => self.faults.raise(AUDIT, problem.clone()),
            None => self.faults.clear(AUDIT),
        }
        problem
    }

    /// Reports whether a part works. Returns its problem.
    async fn try_part<E: Display>(
        &self,
        part: &'static str,
        trial: impl Future<Output = Result<(), E>>,
    ) -> Option<String> {
        let problem = match tokio::time::timeout(TRY_TIME, trial).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it did not answer within {} s", TRY_TIME.as_secs())),
        };
        match &problem {
            Some(problem) => self.faults.raise(part, problem.clone()),
            None => self.faults.clear(part),
        }
        problem
    }

    /// Returns the details that `/healthz` shows to administrators.
    pub(crate) fn report(&self) -> Value {
        let catalog = self.gateway.catalog();
        let upstreams = self.gateway.upstreams();
        let upstreams: Vec<Value> =
            upstreams.iter().map(|upstream| self.upstream_report(upstream, &catalog)).collect();
        let usage = self.store.usage();
        let mut report = json!({
            "status": self.status().name(),
            "version": env!("CARGO_PKG_VERSION"),
            "upstreams": upstreams,
            "artifacts": {"bytes": usage.bytes, "limit": usage.limit, "evicted": usage.evicted},
        });
        let faults = self.faults.list();
        if !faults.is_empty() {
            report["faults"] = faults
                .iter()
                .map(|(part, problem)| json!({"part": part, "problem": problem}))
                .collect();
        }
        report
    }

    fn upstream_report(&self, upstream: &Upstream, catalog: &Catalog) -> Value {
        /// Maximum number of refused names shown for one upstream. All of them are logged.
        const MAX_REFUSED: usize = 20;
        let index = upstream.number();
        let transports = self.transports.read().unwrap_or_else(PoisonError::into_inner);
        let state = upstream.state();
        let mut report = match (&state, upstream.doubt()) {
            (UpstreamState::Ready(_), Some(problem)) => {
                json!({"state": "suspect", "problem": problem})
            }
            _ => state.report(),
        };
        report["name"] = json!(upstream.name());
        report["transport"] = json!(transports.get(upstream.name()));
        report["tools"] = json!(catalog.tools_of(index));
        report["restarts"] = json!(upstream.restarts());
        if let Some(count) = upstream.instances() {
            report["instances"] =
                json!({"ready": count.ready, "not_ready": count.not_ready, "max": count.max});
        }
        let refused: Vec<Value> = catalog
            .refused
            .iter()
            .filter(|refused| refused.upstream == index)
            .take(MAX_REFUSED)
            .map(|refused| {
                json!({"kind": refused.kind, "name": refused.name, "why": refused.why.to_string()})
            })
            .collect();
        if !refused.is_empty() {
            report["refused"] = json!(refused);
        }
        let pins = upstream.pins();
        if !pins.unpinned.is_empty() {
            report["pins"] = pins
                .unpinned
                .iter()
                .take(MAX_REFUSED)
                .map(|it| json!({"kind": it.kind, "name": it.name, "problem": it.problem(), "offered": !pins.is_refused}))
                .collect();
        }
        let listing = upstream.listing();
        if !listing.left_out.is_empty() {
            report["left_out"] = listing
                .left_out
                .iter()
                .map(|(list, problem)| json!({"list": list, "problem": problem}))
                .collect();
        }
        report
    }
}

fn transports(config: &Config) -> BTreeMap<String, &'static str> {
    let upstreams = config.mcp_servers.iter();
    upstreams.map(|(name, upstream)| (name.clone(), upstream.transport.kind())).collect()
}

#[cfg(test)]
mod tests {
    use marquetry_artifacts::{MemoryLimits, MemoryStore};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn readiness_returns_some_time_after_a_failed_save() {
        let gateway = Gateway::start(Config::default().gateway_options(&[]), Arc::new(()));
        let store = Arc::new(MemoryStore::new(MemoryLimits::default()));
        let faults = Arc::new(Faults::default());
        let stop = CancellationToken::new();
        let knowledge = Knowledge::new(&Config::default(), Arc::new(()), None).unwrap();
        let config = Config::default();
        let observation = Observation::default();
        let health =
            Health::new(gateway, &config, store, knowledge, faults.clone(), observation, stop);
        assert_eq!(health.readiness(), Ok(()));
        faults.raise(ARTIFACTS, "disk is full".to_owned());
        tokio::time::advance(UNREADY_TIME / 2).await;
        faults.raise(ARTIFACTS, "disk is full".to_owned());
        tokio::time::advance(UNREADY_TIME * 3 / 4).await;
        assert_eq!(health.readiness(), Err(NotReady::Failing));
        tokio::time::advance(UNREADY_TIME).await;
        assert_eq!(health.readiness(), Ok(()));
        // Health reports the fault until a save succeeds.
        assert_eq!(health.status(), Status::Degraded);
        assert_eq!(health.report()["faults"][0]["part"], ARTIFACTS);
        faults.raise(ARTIFACTS, "disk is full".to_owned());
        assert_eq!(health.readiness(), Err(NotReady::Failing));
        faults.clear(ARTIFACTS);
        assert_eq!((health.readiness(), health.status()), (Ok(()), Status::Ok));
    }
}
