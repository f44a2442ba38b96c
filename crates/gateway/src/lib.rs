#![doc = include_str!("../README.md")]

mod apply;
mod approval;
mod asker;
mod backoff;
mod bridge;
mod call;
mod call_approval;
mod call_error;
mod call_events;
mod catalog;
mod connection;
mod environment;
mod freshness;
mod instance_id;
mod instance_table;
mod instances;
mod levels;
mod limited;
mod listing;
pub mod names;
mod observer;
mod options;
mod overrides;
mod own_keys;
mod parked_calls;
mod pin_keeper;
mod pins;
mod restart;
mod restriction;
mod routes;
mod stale;
mod start_report;
mod startup_wait;
mod state;
mod stderr;
mod subscriptions;
mod supervise;
mod template;
mod tool_cache;
mod tool_filter;
mod tool_names;
mod trace;
mod upstream;
mod upstream_set;
mod uris;
mod url_elicitation;
mod view;
mod view_calls;
mod views;
mod watched_progress;

use std::sync::{
    Arc, Mutex, PoisonError, RwLock, Weak,
    atomic::{AtomicBool, Ordering},
};

use marquetry_protocol::server::{ChangeListener, RequestContext, fair::FairLimiter};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The kinds of items that a policy is about.
pub use marquetry_policy::ItemKind;

pub use self::{
    apply::Applied,
    approval::{ApprovalRules, CallApprovals},
    call::{ToolAnswer, UNKNOWN_TOOL},
    call_error::{CallFailure, FailureKind, Unreachable},
    catalog::{Catalog, RefusedName, Route, ToolRoute},
    freshness::List,
    instance_table::InstanceCount,
    limited::Limited,
    listing::Listing,
    names::{NameError, Namer},
    observer::{Observed, Observer, Origin},
    options::{
        DirectAccess, GatewayLimits, GatewayOptions, HttpAccess, Isolation, Sampler, ToolCapture,
        Transport, UpstreamOptions,
    },
    pin_keeper::{PinListener, PinReport, Unpinned},
    restart::RestartRefused,
    start_report::{StartFailure, StartReport},
    state::UpstreamState,
    tool_filter::ToolFilter,
    upstream::Upstream,
    view::ListChange,
    view_calls::SERVER_HEADER,
};
use self::{
    bridge::Call,
    connection::Pages,
    instances::InstanceSubscribers,
    levels::Levels,
    parked_calls::ParkedCalls,
    pin_keeper::PinKeeper,
    pins::keep_pins,
    routes::LinkRoutes,
    startup_wait::Messages,
    subscriptions::Subscriptions,
    supervise::supervise,
    tool_names::RenamedTool,
    upstream_set::{Ending, UpstreamSet},
    view::Views,
};

/// A gateway to many upstreams. See the [crate's documentation](crate) for an example.
pub struct Gateway {
    /// The options; `upstreams` holds those of the upstreams.
    options: GatewayOptions,
    upstreams: RwLock<UpstreamSet>,
    /// The names of all upstreams so far, by their numbers.
    names: Mutex<Vec<String>>,
    /// Replaced upstreams that wait for their calls. Held while the upstreams change.
    ending: Mutex<Ending>,
    catalog: RwLock<Arc<Catalog>>,
    /// Who may see and use what, and what callers see therefore.
    views: Views,
    /// Held while a new catalog is made, so that an older one never replaces a newer one.
    relisting: Mutex<()>,
    /// Whether a client has received a list. From then on Views keep their URIs. Before that, URIs
    /// are assigned as if all upstreams had started at the same time.
    is_listed: AtomicBool,
    /// See [`Gateway::is_settled`].
    has_settled: AtomicBool,
    links: Mutex<LinkRoutes>,
    changes: Arc<dyn ChangeListener>,
    /// Calls that wait for answers of their agents.
    parked: Arc<ParkedCalls<Call>>,
    /// Pages that users were sent to.
    pages: Pages,
    subscriptions: Subscriptions,
    instance_subscribers: InstanceSubscribers,
    levels: Levels,
    me: Weak<Self>,
    started_at: Instant,
    /// Log messages while lists wait for upstreams.
    wait_messages: Messages,
    /// Bounds the requests that wait for upstreams to start without a slot among those in flight.
    waiting: FairLimiter,
    stopping: CancellationToken,
    /// Supervisors and running child processes, including those whose start failed.
    tasks: TaskTracker,
}

impl Gateway {
    /// Starts every upstream that is not disabled, without waiting for them. `changes` is called
    /// when lists change.
    #[must_use]
    pub fn start(mut options: GatewayOptions, changes: Arc<dyn ChangeListener>) -> Arc<Self> {
        let stopping = CancellationToken::new();
        options.pin_keeper =
            options.pins_file.as_deref().map(|file| Arc::new(PinKeeper::open(file)));
        let upstreams: Vec<_> = std::mem::take(&mut options.upstreams)
            .into_iter()
            .enumerate()
            .map(|(at, upstream)| Arc::new(Upstream::new(at, upstream, &options, &stopping)))
            .collect();
        let names = upstreams.iter().map(|upstream| upstream.name().to_owned()).collect();
        let limits = options.limits.clone();
        let views = Views::new(std::mem::take(&mut options.policy));
        let gateway = Arc::new_cyclic(|me| Self {
            options,
            upstreams: RwLock::new(UpstreamSet::new(upstreams)),
            names: Mutex::new(names),
            ending: Mutex::default(),
            catalog: RwLock::default(),
            views,
            relisting: Mutex::default(),
            is_listed: AtomicBool::new(false),
            has_settled: AtomicBool::new(false),
            links: Mutex::new(LinkRoutes::new(
                limits.max_resource_routes,
                limits.max_resource_routes_per_agent,
            )),
            changes,
            parked: Arc::new(ParkedCalls::new(&limits)),
            pages: Pages::new(limits.max_url_elicitations),
            subscriptions: Subscriptions::default(),
            instance_subscribers: InstanceSubscribers::default(),
            levels: Levels::default(),
            me: me.clone(),
            started_at: Instant::now(),
            wait_messages: Messages::default(),
            waiting: startup_wait::limiter(&limits),
            stopping,
            tasks: TaskTracker::new(),
        });
        if let Some(keeper) = gateway.options.pin_keeper.clone() {
            let stopping = gateway.stopping.clone();
            gateway.tasks.spawn(keep_pins(gateway.me.clone(), keeper, stopping));
        }
        let upstreams = gateway.upstreams();
        if upstreams.iter().any(|upstream| upstream.shows_cached_tools()) {
            gateway.relist();
        }
        for upstream in upstreams.iter().filter(|upstream| upstream.is_started()) {
            gateway.tasks.spawn(supervise(gateway.clone(), upstream.clone()));
        }
        if gateway.has_policy() {
            gateway.once_settled(Self::log_unmatched_rules);
        }
        gateway
    }

    /// Returns the upstreams as they are now, in the order of the configuration.
    #[must_use]
    pub fn upstreams(&self) -> Arc<[Arc<Upstream>]> {
        self.upstreams.read().unwrap_or_else(PoisonError::into_inner).all()
    }

    /// Returns the instructions of the ready upstreams in a view below their names, as many as fit
    /// into `room` bytes.
    #[must_use]
    pub fn instructions(&self, view: &Catalog, mut room: usize) -> String {
        let mut text = String::new();
        let upstreams = self.upstreams();
        for upstream in upstreams.iter().filter(|it| view.shows_upstream(it.number())) {
            let listing = upstream.listing();
            let Some(instructions) = listing.instructions.as_deref().map(str::trim) else {
                continue;
            };
            let head = format!("\n\n# {}\n\n", upstream.name());
            if instructions.is_empty() || head.len() + instructions.len() > room {
                continue;
            }
            room -= head.len() + instructions.len();
            text.push_str(&head);
            text.push_str(instructions);
        }
        text
    }

    /// Returns the current catalog of everything. What a caller may see is its
    /// [view](Gateway::view).
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the upstream that has a tool, by the name that the sender of a request uses.
    #[must_use]
    pub fn upstream_of_tool(&self, name: &str, cx: &RequestContext) -> Option<Arc<Upstream>> {
        let upstream = self.view(cx).tool(name)?.to.upstream;
        self.upstream(upstream)
    }

    /// Waits until the first start of every upstream has succeeded or failed.
    pub async fn settled(&self) {
        for upstream in self.upstreams().iter() {
            upstream.settled_all().await;
        }
    }

    /// Runs `work` once the first start of every upstream has succeeded or failed.
    pub fn once_settled(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        let gateway = self.clone();
        self.tasks.spawn(async move {
            if gateway.stopping.run_until_cancelled(gateway.settled()).await.is_some() {
                work(&gateway);
            }
        });
    }

    /// Returns whether each upstream that is switched on is ready, so that the names of all tools
    /// are known.
    #[must_use]
    pub fn knows_all_tools(&self) -> bool {
        let mut upstreams = self.upstreams().to_vec().into_iter();
        upstreams.all(|it| matches!(it.state(), UpstreamState::Ready(_) | UpstreamState::Disabled))
    }

    /// Returns whether the first start of every upstream has succeeded or failed. Once it is true,
    /// it stays so: upstreams that come or start again later do not count.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        if self.has_settled.load(Ordering::Relaxed) {
            return true;
        }
        let is_settled = self.upstreams().iter().all(|upstream| upstream.is_settled(List::Tools));
        if is_settled {
            self.has_settled.store(true, Ordering::Relaxed);
        }
        is_settled
    }

    /// Stops every upstream without waiting.
    pub fn abandon(&self) {
        self.stopping.cancel();
    }

    /// Stops every upstream and waits until all child processes have exited.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.parked.clear();
        self.tasks.close();
        let limit = supervise::stop_limit(self.options.stop_grace);
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::error!("some upstreams did not end in time");
        }
    }

    /// Rebuilds the catalog and announces changed lists.
    fn relist(&self) {
        let _guard = self.relisting.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved = &self.options.reserved_tools;
        let before = self.is_listed.load(Ordering::Relaxed).then(|| self.catalog());
        let new = Arc::new(Catalog::new(&self.upstreams(), reserved, before.as_deref()));
        let old = {
            let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *catalog, new.clone())
        };
        for refused in new.refused.iter().filter(|refused| !old.refused.contains(refused)) {
            let RefusedName { upstream, kind, name, why } = refused;
            let upstream = self.name_of(*upstream);
            tracing::warn!(upstream, kind, name, %why, "not offered to clients");
        }
        self.log_renamed(&new, &old);
        if old.tools != new.tools {
            self.changes.tools_changed();
        }
        if old.prompts != new.prompts {
            self.changes.prompts_changed();
        }
        if old.resources != new.resources || old.templates != new.templates {
            self.changes.resources_changed();
        }
    }

    /// Logs the tools that have new names since the catalog `old`, in one line for each upstream.
    fn log_renamed(&self, new: &Catalog, old: &Catalog) {
        const MAX_SHOWN: usize = 10;
        let new: Vec<_> = new.renamed.iter().filter(|it| !old.renamed.contains(it)).collect();
        for renamed in new.chunk_by(|a, b| a.upstream == b.upstream) {
            let upstream = self.name_of(renamed[0].upstream);
            let shown = renamed.iter().take(MAX_SHOWN);
            let names: Vec<_> = shown
                .map(|RenamedTool { name, exposed, .. }| format!("{name:?} is {exposed}"))
                .collect();
            tracing::warn!(
                upstream,
                tools = renamed.len(),
                names = names.join(", "),
                "tools have other names for clients, as their own have characters or a length that clients refuse"
            );
        }
    }
}
