//! The upstreams together: started side by side, offered under prefixed names, kept alive.

mod asker;
mod backoff;
mod bridge;
mod call;
mod catalog;
mod connection;
mod environment;
mod freshness;
#[cfg(unix)]
mod guard;
mod in_flight;
mod levels;
mod names;
mod news;
mod parked;
pub(crate) mod program;
mod rate;
mod routes;
mod state;
mod stderr;
mod subscriptions;
mod supervise;
mod template;
mod upstream;
mod uris;
mod visits;
mod waiting;

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Duration,
};

use marquetry_artifacts::Settings;
use marquetry_protocol::server::fair::FairLimiter;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    call::{CallFailure, FailureKind, ToolAnswer, UNKNOWN_TOOL, Unreachable},
    catalog::{Catalog, Refused},
    freshness::List,
    names::Namer,
    rate::Rate,
    state::State,
    upstream::Upstream,
};
use self::{
    connection::Pages,
    levels::Levels,
    parked::Parked,
    routes::LinkRoutes,
    subscriptions::{Subscriptions, Updated},
    supervise::supervise,
    waiting::Messages,
};
use crate::config::{Config, GatewayConfig, Limits};

/// Lists that clients should fetch anew. However often one changes before it is announced, it is announced once.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) tools: Notify,
    pub(crate) prompts: Notify,
    /// Resources or templates.
    pub(crate) resources: Notify,
    /// Single resources that somebody is subscribed to.
    pub(crate) updated: Updated,
}

/// All upstreams, and what they offer together.
pub(crate) struct Gateway {
    config: GatewayConfig,
    limits: Limits,
    capture: Settings,
    /// Names of our own tools, which no upstream can have.
    reserved: Vec<&'static str>,
    upstreams: Vec<Arc<Upstream>>,
    catalog: RwLock<Arc<Catalog>>,
    /// Held while a new catalog is made, so that an older one never replaces a newer one.
    relisting: Mutex<()>,
    links: Mutex<LinkRoutes>,
    changes: Arc<Changes>,
    /// Calls that wait for their agents' answers.
    parked: Arc<Parked>,
    /// Pages that users were sent to.
    pages: Pages,
    subscriptions: Subscriptions,
    levels: Levels,
    me: Weak<Self>,
    started_at: Instant,
    /// What is said while lists wait for upstreams.
    wait_messages: Messages,
    /// Bounds the requests that wait for upstreams to start without a place among those in flight.
    waiting: FairLimiter,
    stopping: CancellationToken,
    /// The supervisors, and every child process that has not ended, even one whose start was given up.
    tasks: TaskTracker,
}

impl Gateway {
    /// Starts every upstream that is not disabled. Returns at once; changes of the lists are told through `changes`.
    pub(crate) fn start(
        config: &Config,
        reserved: Vec<&'static str>,
        changes: Arc<Changes>,
    ) -> Arc<Self> {
        let upstreams = config
            .mcp_servers
            .iter()
            .map(|(name, upstream)| Arc::new(Upstream::new(name, upstream, config)));
        let limits = &config.limits;
        let parked = Arc::new(Parked::new(limits));
        let pages = Pages::new(limits.max_url_elicitations.get());
        let gateway = Arc::new_cyclic(|me| Self {
            config: config.gateway.clone(),
            limits: config.limits.clone(),
            capture: config.artifacts.settings(),
            reserved,
            upstreams: upstreams.collect(),
            catalog: RwLock::default(),
            relisting: Mutex::default(),
            links: Mutex::new(LinkRoutes::new(
                limits.max_resource_routes.get(),
                limits.max_resource_routes_per_agent.get(),
            )),
            changes,
            parked,
            pages,
            subscriptions: Subscriptions::default(),
            levels: Levels::default(),
            me: me.clone(),
            started_at: Instant::now(),
            wait_messages: Messages::default(),
            waiting: waiting::limiter(limits),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        for (index, upstream) in gateway.upstreams.iter().enumerate() {
            if upstream.is_started() {
                gateway.tasks.spawn(supervise(gateway.clone(), index));
            }
        }
        gateway
    }

    /// The upstreams, in the order of the configuration.
    pub(crate) fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// What they offer now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until every upstream's first start is over, well or badly.
    pub(crate) async fn settled(&self) {
        for upstream in &self.upstreams {
            upstream.settled_all().await;
        }
    }

    /// Whether the first start of every upstream is over, well or badly.
    pub(crate) fn is_settled(&self) -> bool {
        self.upstreams.iter().all(|upstream| upstream.is_settled(List::Tools))
    }

    /// Begins to end every upstream, and does not wait.
    pub(crate) fn abandon(&self) {
        self.stopping.cancel();
    }

    /// Ends every upstream; child processes are gone when this returns.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.parked.clear();
        self.tasks.close();
        let limit = supervise::stop_limit(Duration::from_millis(self.config.stop_grace_ms));
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::error!("some upstreams did not end in time");
        }
    }

    /// Puts the lists together anew and tells what changed.
    fn relist(&self) {
        let _alone = self.relisting.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Arc::new(Catalog::new(&self.upstreams, &self.reserved, &self.capture));
        let old = {
            let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *catalog, new.clone())
        };
        for refused in new.refused.iter().filter(|refused| !old.refused.contains(refused)) {
            let Refused { upstream, kind, name, why } = refused;
            let upstream = &self.upstreams[*upstream].name;
            tracing::warn!(upstream, kind, name, %why, "not offered to clients");
        }
        if old.tools != new.tools {
            self.changes.tools.notify_one();
        }
        if old.prompts != new.prompts {
            self.changes.prompts.notify_one();
        }
        if old.resources != new.resources || old.templates != new.templates {
            self.changes.resources.notify_one();
        }
    }
}
