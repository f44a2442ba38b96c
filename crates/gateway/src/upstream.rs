//! One upstream: its options, its state and its lists.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use marquetry_apps_ext::types::declare_client;
use marquetry_in_flight::{InFlight, Owner};
use marquetry_protocol::{
    Era,
    client::{
        Client, ClientError, ClientHandler, ClientOptions, HttpTarget, RevisionChoice, Stderr,
        StdioCommand,
    },
    server::fair::{FairBounds, FairLimiter},
    types::{CacheHint, ClientCapabilities, Implementation, LogLevel},
};
use marquetry_rate_limit::{KeyedRate, LogLimit};
use marquetry_redact::without_known_secrets;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Level;

use super::{
    asker::Asker,
    environment,
    freshness::{Freshness, List},
    instance_id::for_instance,
    instance_table::{InstanceCount, InstanceOf, Instances},
    limited::Limited,
    listing::Listing,
    names::Namer,
    observer::{Observed, Observer},
    options::{GatewayLimits, GatewayOptions, Isolation, Transport, UpstreamOptions},
    own_keys,
    pin_keeper::{PinKeeper, PinnedListing},
    start_report::{StartFailure, StartReport},
    state::UpstreamState,
    stderr::StderrLog,
    tool_cache::ToolCache,
};

/// An upstream MCP server.
pub struct Upstream {
    /// See [`Gateway::upstream`](crate::Gateway::upstream).
    number: usize,
    name: String,
    /// Options that need no new connection can be replaced.
    settings: RwLock<Arc<UpstreamSettings>>,
    state: watch::Sender<UpstreamState>,
    lists: RwLock<PinnedListing>,
    /// The pins of all upstreams; `None` if nothing is pinned.
    pin_keeper: Option<Arc<PinKeeper>>,
    /// Times at which the lists must be fetched again.
    pub(super) freshness: Freshness,
    starts: AtomicU32,
    start_report: Mutex<StartReport>,
    /// The next start begins with `initialize`, because the program exits at `server/discover`.
    begins_with_initialize: AtomicBool,
    /// Lines of its standard error.
    pub(super) stderr: Arc<StderrLog>,
    /// Whether the upstream was ready, its connection was lost, and no start has failed since.
    is_returning: AtomicBool,
    /// For each [`List`]: cancelled when the first start has succeeded or failed and the list shows
    /// the result.
    settled: [CancellationToken; 3],
    /// A call found the connection dead, which an HTTP connection does not notice by itself.
    pub(super) suspected: Notify,
    /// A restart was requested.
    pub(super) restart: Notify,
    /// Bounds the requests in flight there, and shares them between callers.
    pub(super) slots: FairLimiter,
    /// The calls in flight there.
    pub(super) in_flight: Arc<InFlight<Asker>>,
    /// Locked while a subscription begins or ends, so that our state matches that of the upstream.
    pub(super) subscribing: tokio::sync::Mutex<()>,
    /// The log level that was set, if any.
    level: Mutex<Option<LogLevel>>,
    /// Problem of its last call, which got no answer.
    doubt: Mutex<Option<String>>,
    /// Whether it has answered a call since it was last ready.
    has_answered: AtomicBool,
    /// Where its tools are stored for the next start of this server.
    tool_cache: Option<ToolCache>,
    /// Whether its tools were those of its last run at the start of this server, or of the upstream
    /// that it replaces.
    has_cached_tools: AtomicBool,
    /// The requests that use it; see [`InUse`](crate::upstream_set::InUse).
    pub(super) uses: TaskTracker,
    /// Cancelled when it is to end: it was replaced, or the gateway stops.
    pub(super) stopping: CancellationToken,
    /// The upstreams that answer for single callers or sessions, unless all share this one.
    pub(super) instances: Option<Instances<Self>>,
    /// Set if it is one of those.
    pub(super) instance: Option<InstanceOf>,
}

/// The options of an upstream, and the names that follow from them.
pub(crate) struct UpstreamSettings {
    pub(crate) options: UpstreamOptions,
    pub(crate) namer: Namer,
    /// Limits the rate of tool calls there.
    call_rate: Option<KeyedRate<()>>,
}

impl UpstreamSettings {
    fn new(options: UpstreamOptions) -> Self {
        let UpstreamOptions { name, prefix, separator, .. } = &options;
        let namer = Namer::new(name, prefix.as_deref(), separator);
        let call_rate =
            options.max_calls_per_minute.map(|rate| KeyedRate::new(rate, burst_of(rate)));
        Self { options, namer, call_rate }
    }
}

/// Returns the calls that a rate admits at once after a pause: those of six seconds.
fn burst_of(per_minute: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new(per_minute.get() / 10).unwrap_or(NonZeroU32::MIN)
}

/// Returns the environment of an upstream's program.
fn environment_of(
    upstream: &UpstreamOptions,
    gateway: &GatewayOptions,
) -> BTreeMap<String, String> {
    let GatewayOptions { pass_env, secret_variables, .. } = gateway;
    let mut variables = if upstream.inherit_env {
        environment::inherited_variables(std::env::vars_os(), secret_variables)
    } else {
        environment::selected_variables(std::env::vars_os(), pass_env, secret_variables)
    };
    if let Transport::Stdio { env, .. } = &upstream.transport {
        variables.extend(env.clone());
    }
    variables
}

/// Returns the state of an upstream before its start.
fn first_state(options: &UpstreamOptions) -> UpstreamState {
    match &options.transport {
        _ if options.is_disabled => UpstreamState::Disabled,
        Transport::Unusable { problem } => {
            UpstreamState::Failed { problem: problem.clone(), stderr: Vec::new() }
        }
        _ => UpstreamState::Starting,
    }
}

fn slots(limits: &GatewayLimits) -> FairLimiter {
    FairLimiter::new(FairBounds {
        what: "requests are in flight",
        total_setting: "limits.max_in_flight_per_upstream",
        per_caller_setting: "limits.max_in_flight_per_caller",
        total: limits.max_in_flight_per_upstream,
        per_caller: limits.max_in_flight_per_caller,
        queued: limits.max_in_flight_total,
        wait: limits.queue_time,
    })
}

impl AsRef<Self> for Upstream {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Upstream {
    /// Creates an upstream without starting it.
    pub(crate) fn new(
        number: usize,
        options: UpstreamOptions,
        gateway: &GatewayOptions,
        stopping: &CancellationToken,
    ) -> Self {
        let is_cached = gateway.tool_cache.is_some()
            && matches!(first_state(&options), UpstreamState::Starting);
        let tool_cache = is_cached
            .then(|| ToolCache::of(&options, gateway, environment_of(&options, gateway)))
            .flatten();
        Self::build(number, options, tool_cache, None, gateway, stopping)
    }

    /// Creates an instance of this upstream without starting it. Requests wait for its first start.
    pub(super) fn new_instance(&self, owner: Owner, id: String, gateway: &GatewayOptions) -> Self {
        let options = self.settings().options.clone();
        let instance = Some(InstanceOf::new(owner, id));
        let new = Self::build(self.number, options, None, instance, gateway, &self.stopping);
        new.set_returning(true);
        // What this one has learned need not be tried again: some servers of the session era answer
        // `server/discover` late or never, or exit.
        let is_session_era = match self.state() {
            UpstreamState::Ready(client) => client.server().revision.era() == Era::Session,
            _ => self.begins_with_initialize.load(Ordering::Relaxed),
        };
        new.begins_with_initialize.store(is_session_era, Ordering::Relaxed);
        new
    }

    fn build(
        number: usize,
        options: UpstreamOptions,
        tool_cache: Option<ToolCache>,
        instance: Option<InstanceOf>,
        gateway: &GatewayOptions,
        stopping: &CancellationToken,
    ) -> Self {
        let state = first_state(&options);
        let cached_tools =
            tool_cache.as_ref().and_then(|cache| cache.load(gateway.limits.max_upstream_list));
        let has_cached_tools = cached_tools.is_some();
        let listing = Listing { tools: cached_tools.unwrap_or_default(), ..Listing::default() };
        let mut lists = PinnedListing::new(listing);
        // Callers see the lists of the upstream itself alone, so only these have pins.
        let pin_keeper = gateway.pin_keeper.clone().filter(|_| instance.is_none());
        lists.compare(&options.name, options.pins, pin_keeper.as_deref(), false);
        Self {
            number,
            name: options.name.clone(),
            state: watch::Sender::new(state),
            lists: RwLock::new(lists),
            pin_keeper,
            freshness: Freshness::new(gateway.list_refetch),
            starts: AtomicU32::new(0),
            start_report: Mutex::default(),
            begins_with_initialize: AtomicBool::new(false),
            is_returning: AtomicBool::new(false),
            stderr: Arc::default(),
            settled: Default::default(),
            suspected: Notify::new(),
            restart: Notify::new(),
            slots: slots(&gateway.limits),
            in_flight: Arc::default(),
            subscribing: tokio::sync::Mutex::default(),
            level: Mutex::default(),
            doubt: Mutex::default(),
            has_answered: AtomicBool::new(false),
            tool_cache,
            has_cached_tools: AtomicBool::new(has_cached_tools),
            uses: TaskTracker::new(),
            stopping: stopping.child_token(),
            instances: if instance.is_none() { Instances::of(&options) } else { None },
            instance,
            settings: RwLock::new(Arc::new(UpstreamSettings::new(options))),
        }
    }

    /// Returns its number; see [`Gateway::upstream`](crate::Gateway::upstream).
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns its options as they are now.
    pub(crate) fn settings(&self) -> Arc<UpstreamSettings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces options that need no new connection. Returns whether those that can be compared
    /// differ.
    pub(super) fn set_options(&self, options: UpstreamOptions) -> bool {
        let mut settings = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        let differ = !settings.options.is_shown_like(&options);
        let has_other_pins = settings.options.pins != options.pins;
        *settings = Arc::new(UpstreamSettings::new(options.clone()));
        drop(settings);
        if has_other_pins {
            self.compare_again(true);
        }
        // Afterwards: an instance that comes meanwhile has the new ones already.
        for instance in self.instances.iter().flat_map(Instances::all) {
            instance.set_options(options.clone());
        }
        differ
    }

    /// Counts a tool call.
    ///
    /// # Errors
    /// Returns an error if the upstream gets no more calls at present.
    pub(super) fn admit_call(&self) -> Result<(), Limited> {
        let settings = self.settings();
        let UpstreamSettings { options, call_rate: Some(rate), .. } = &*settings else {
            return Ok(());
        };
        rate.admit(&()).map_err(|retry_after| {
            let max = options.max_calls_per_minute.map_or(0, NonZeroU32::get);
            let what = format!("more than {max} tool calls per minute (max_calls_per_minute)");
            Limited { upstream: Some(self.name.clone()), what, retry_after }
        })
    }

    /// Takes the place of another upstream: shows its lists until this one has its own, and lets
    /// calls wait for the first start if they could be answered before.
    pub(super) fn succeed(&self, old: &Self) {
        if !self.is_started() {
            return;
        }
        self.set_listing((*old.lists().sent).clone());
        if !old.listing().tools.is_empty() {
            self.has_cached_tools.store(true, Ordering::Relaxed);
        }
        let is_up = matches!(old.state(), UpstreamState::Ready(_));
        self.set_returning(is_up || old.is_returning.load(Ordering::Relaxed));
    }

    /// Returns the number of its instances; `None` if all callers share it.
    #[must_use]
    pub fn instances(&self) -> Option<InstanceCount> {
        let instances = self.instances.as_ref()?;
        let all = instances.all();
        let ready = all.iter().filter(|it| matches!(it.state(), UpstreamState::Ready(_))).count();
        Some(InstanceCount { ready, not_ready: all.len() - ready, max: instances.max })
    }

    /// Returns a key that tells apart upstreams and their instances.
    pub(super) fn source(&self) -> (usize, Option<u32>) {
        (self.number, self.instance.as_ref().map(|it| it.number))
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its current state.
    #[must_use]
    pub fn state(&self) -> UpstreamState {
        self.state.borrow().clone()
    }

    /// Returns a receiver of its states, for those who wait for changes.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<UpstreamState> {
        self.state.subscribe()
    }

    /// Returns the last lines of its standard error.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.stderr.tail()
    }

    /// Returns how it introduced itself: its name and version, its revision, its capabilities.
    /// `None` unless it is ready.
    #[must_use]
    pub fn introduction(&self) -> Option<Value> {
        let UpstreamState::Ready(client) = self.state() else { return None };
        let server = client.server();
        Some(json!({
            "info": server.info,
            "revision": server.revision.as_str(),
            "capabilities": server.capabilities,
        }))
    }

    /// Returns its last start as data. [`Self::state`] describes it to people.
    #[must_use]
    pub fn start_report(&self) -> StartReport {
        self.start_report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_started(&self, time: Duration) {
        let mut report = self.start_report.lock().unwrap_or_else(PoisonError::into_inner);
        report.failure = None;
        report.time = Some(time);
    }

    pub(super) fn set_failure(&self, failure: StartFailure) {
        let mut report = self.start_report.lock().unwrap_or_else(PoisonError::into_inner);
        report.failure = Some(Arc::new(failure));
    }

    pub(super) fn count_stray_line(&self, line: &str) {
        let mut report = self.start_report.lock().unwrap_or_else(PoisonError::into_inner);
        report.stray_lines += 1;
        if report.first_stray_line.is_none() {
            report.first_stray_line = Some(without_known_secrets(line).into_owned());
        }
    }

    /// Describes why it could not be started, with the advice of its access.
    pub(super) fn described(&self, error: &ClientError) -> String {
        if let Transport::Http { access, .. } = &self.settings().options.transport
            && let Some(advice) = access.advice(error)
        {
            return format!("{error}: {advice}");
        }
        error.to_string()
    }

    /// Returns whether it is started at all.
    pub(crate) fn is_started(&self) -> bool {
        let options = &self.settings().options;
        !options.is_disabled && !matches!(options.transport, Transport::Unusable { .. })
    }

    /// Waits until its first start has succeeded or failed, and a list shows the result.
    pub(crate) async fn settled(&self, list: List) {
        if self.is_started() {
            self.settled[list as usize].cancelled().await;
        }
    }

    /// Waits for every list, as [`Self::settled`] does for one.
    pub(crate) async fn settled_all(&self) {
        for list in List::ALL {
            self.settled(list).await;
        }
    }

    /// Returns whether its first start has succeeded or failed, and a list shows the result.
    pub(super) fn is_settled(&self, list: List) -> bool {
        !self.is_started() || self.settled[list as usize].is_cancelled()
    }

    /// Returns whether a list shows the tools of its last run, because it is still starting.
    pub(super) fn shows_cached_tools(&self) -> bool {
        self.has_cached_tools.load(Ordering::Relaxed) && !self.is_settled(List::Tools)
    }

    /// Stores the tools that it has listed for the next start of this server.
    pub(super) async fn cache_tools(&self, hint: Option<CacheHint>) {
        let Some(cache) = self.tool_cache.clone() else { return };
        // Those that are held back, too: they are compared again when they are loaded.
        let listing = self.lists().sent.clone();
        // An incomplete list is worth less than the last complete one.
        if listing.left_out.iter().any(|(list, _)| *list == "tools") {
            return;
        }
        let stored = tokio::task::spawn_blocking(move || cache.store(&listing.tools, hint));
        if let Err(error) = stored.await {
            tracing::debug!(upstream = self.name(), %error, "failed to store the list of tools");
        }
    }

    /// Records that the first fetch of a list is over. The state does not show this: an upstream is
    /// ready before its names appear.
    pub(super) fn settle(&self, list: List) {
        self.settled[list as usize].cancel();
    }

    /// Marks every list as settled, as [`Self::settle`] does for one.
    pub(super) fn settle_all(&self) {
        for list in List::ALL {
            self.settle(list);
        }
    }

    /// Returns its state after its connection was lost. Waits a moment until the loss is noticed.
    pub(super) async fn state_after_loss(&self) -> UpstreamState {
        const NOTICED: Duration = Duration::from_millis(250);
        let mut states = self.state.subscribe();
        let lost = states.wait_for(|state| !matches!(state, UpstreamState::Ready(_)));
        _ = tokio::time::timeout(NOTICED, lost).await;
        self.state()
    }

    /// Sets whether calls wait for the next start. The later change of the state wakes calls that
    /// wait.
    pub(super) fn set_returning(&self, is_returning: bool) {
        self.is_returning.store(is_returning, Ordering::Relaxed);
    }

    /// Waits for the next start after a loss of the connection: until the upstream is ready, the
    /// start has failed, or `call_timeout` is over. Returns at once unless the upstream was ready
    /// before and its next start comes within that time.
    pub(super) async fn returned(&self) {
        let limit = self.call_timeout();
        let limit_ms = limit.as_millis();
        let mut states = self.state.subscribe();
        let over = states.wait_for(|state| {
            let is_returning = self.is_returning.load(Ordering::Relaxed);
            match state {
                // A closed connection will change the state soon.
                UpstreamState::Ready(client) => !client.is_closed(),
                UpstreamState::Starting => !is_returning,
                UpstreamState::BackingOff { retry_in_ms, .. } => {
                    !is_returning || u128::from(*retry_in_ms) > limit_ms
                }
                UpstreamState::Disabled | UpstreamState::Failed { .. } | UpstreamState::Stopped => {
                    true
                }
            }
        });
        // The caller checks the state in either case.
        _ = tokio::time::timeout(limit, over).await;
    }

    pub(super) fn set_state(&self, state: UpstreamState) {
        self.trust();
        self.state.send_replace(state);
    }

    /// Leaves the state of an upstream that was given up. Returns whether this caller did, so that
    /// it is supervised once.
    pub(super) fn leave_failed(&self) -> bool {
        self.state.send_if_modified(|state| {
            let has_failed = matches!(state, UpstreamState::Failed { .. });
            if has_failed {
                *state = UpstreamState::Starting;
            }
            has_failed
        })
    }

    /// Returns the problem of its last call, if that got no answer. The state may still be ready.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records a failed call and requests a ping. Health shows the problem until a call or the ping
    /// succeeds.
    pub(super) fn distrust(&self, problem: String) {
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        self.suspected.notify_one();
    }

    /// Records an answer to a call.
    pub(super) fn answered(&self) {
        self.trust();
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Returns whether it has answered a call since this was last asked.
    pub(super) fn take_answered(&self) -> bool {
        self.has_answered.swap(false, Ordering::Relaxed)
    }

    /// Clears the problem of the last call.
    pub(super) fn trust(&self) {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns its last lists, without what differs from its pin and is held back. They are empty
    /// before its first start.
    #[must_use]
    pub fn listing(&self) -> Arc<Listing> {
        self.lists().offered.clone()
    }

    pub(crate) fn lists(&self) -> RwLockReadGuard<'_, PinnedListing> {
        self.lists.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lists_mut(&self) -> RwLockWriteGuard<'_, PinnedListing> {
        self.lists.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pin_keeper(&self) -> Option<&PinKeeper> {
        self.pin_keeper.as_deref()
    }

    pub(super) fn set_listing(&self, listing: Listing) {
        self.update_listing(|old| *old = listing);
    }

    /// Changes the lists.
    pub(super) fn update_listing(&self, change: impl FnOnce(&mut Listing)) {
        let mode = self.settings().options.pins;
        let mut lists = self.lists_mut();
        // Otherwise the next step would copy the lists.
        lists.offered = Arc::default();
        let listing = Arc::make_mut(&mut lists.sent);
        change(listing);
        own_keys::remove_from_listing(listing);
        lists.compare(&self.name, mode, self.pin_keeper(), true);
    }

    /// Records that the program has exited before the handshake. Some programs of the session era
    /// exit at any request before `initialize`, so the next start begins with `initialize`. Returns
    /// whether this start began with `server/discover`.
    pub(super) fn ended_early(&self) -> bool {
        let options = &self.settings().options;
        let may_change =
            options.revision.is_none() && matches!(options.transport, Transport::Stdio { .. });
        may_change && !self.begins_with_initialize.fetch_not(Ordering::Relaxed)
    }

    /// Returns the number of restarts, with those of its instances.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        let own = self.starts.load(Ordering::Relaxed).saturating_sub(1);
        let Some(instances) = &self.instances else { return own };
        // Locked meanwhile, so that an instance that ends counts once.
        let table = instances.table();
        let ended = instances.ended_restarts.load(Ordering::Relaxed);
        let running = table.running.values().map(|running| running.upstream.restarts());
        running.fold(own.saturating_add(ended), u32::saturating_add)
    }

    pub(crate) fn start_timeout(&self) -> Duration {
        self.settings().options.start_timeout
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.settings().options.call_timeout
    }

    pub(super) fn level(&self) -> Option<LogLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// Forgets the level after a restart, which the upstream does not know.
    pub(super) fn forget_level(&self) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts the program or opens the connection.
    pub(super) async fn connect(
        &self,
        handler: Arc<dyn ClientHandler>,
        gateway: &GatewayOptions,
        children: &TaskTracker,
    ) -> Result<Client, ClientError> {
        let settings = self.settings();
        let filled;
        let own = if settings.options.isolation == Isolation::Shared {
            &settings.options
        } else {
            filled = for_instance(&settings.options, self.instance.as_ref().map(|it| &*it.id));
            &filled
        };
        self.starts.fetch_add(1, Ordering::Relaxed);
        let limits = &gateway.limits;
        // The agent of a call determines which questions are answered; if the agent lacks a
        // capability, the upstream gets an error.
        let mut offered = ClientCapabilities::all();
        declare_client(&mut offered);
        let options = ClientOptions {
            implementation: Implementation::new("marquetry", env!("CARGO_PKG_VERSION")),
            capabilities: offered,
            handler,
            revision: match own.revision {
                Some(revision) => RevisionChoice::Only(revision),
                None if self.begins_with_initialize.load(Ordering::Relaxed) => {
                    RevisionChoice::Session
                }
                None => RevisionChoice::Auto,
            },
            connect_timeout: own.start_timeout,
            request_timeout: own.start_timeout,
            max_message_bytes: limits.max_upstream_message_bytes,
            max_list_items: limits.max_upstream_list,
            max_rounds: limits.max_questions_per_call,
            // Results are forwarded; the final client checks them.
            check_results: false,
            remove_nulls: true,
            ..ClientOptions::default()
        };
        match &own.transport {
            Transport::Stdio { command, args, cwd, .. } => {
                let mut program = StdioCommand::new(command, args);
                program.inherit_env = false;
                program.env = environment_of(own, gateway);
                let depth = environment::depth() + 1;
                if depth > environment::MAX_DEPTH {
                    let problem = "this server was itself started by Marquetry, several times over; does its mcp.json name Marquetry?";
                    return Err(ClientError::NotStarted(problem.into()));
                }
                program.env.insert(environment::DEPTH_VARIABLE.into(), depth.to_string());
                program.cwd.clone_from(cwd);
                program.stop_grace = gateway.stop_grace;
                program.children = Some(children.clone());
                self.stderr.begin_run();
                let logger = StderrLogger {
                    upstream: self.name.clone(),
                    instance: self.instance.as_ref().map(|it| it.number),
                    rate: LogLimit::new(limits.max_log_lines_per_second),
                    repeated: LogLimit::new(limits.max_log_lines_per_second),
                    log: self.stderr.clone(),
                    stopping: self.stopping.clone(),
                    observer: gateway.observer.clone(),
                };
                program.stderr = Stderr::Lines(Arc::new(move |line| logger.log(line)));
                program.find_program()?;
                if let Some(guard) = &gateway.guard {
                    program = program.through_guard(guard);
                }
                Client::spawn(program, options).await
            }
            Transport::Http { url, headers, access } => {
                let headers = headers.clone().into_iter().collect();
                // Not `Authorization`: proxy and certificates have nothing to do with a login.
                let network = access.network();
                let network =
                    network.map_err(|error| ClientError::NotStarted(error.to_string()))?;
                let authorizer = access.authorizer(&network)?;
                let options = ClientOptions { network, authorizer, ..options };
                let target = HttpTarget { url: url.clone(), headers };
                Client::http(target, options).await
            }
            Transport::Unusable { problem } => Err(ClientError::NotStarted(problem.clone())),
        }
    }
}

/// Logs standard error of a program at a bounded rate, and keeps the last lines.
struct StderrLogger {
    upstream: String,
    /// The number of the instance, if it is one.
    instance: Option<u32>,
    rate: LogLimit,
    /// A separate rate for lines that are logged at debug level: they are rarely shown, and must
    /// not use up the rate of the others.
    repeated: LogLimit,
    log: Arc<StderrLog>,
    /// Cancelled when this server stops. Many programs then complain about their closed pipes.
    stopping: CancellationToken,
    observer: Option<Arc<dyn Observer>>,
}

impl StderrLogger {
    fn log(&self, line: &str) {
        let line = &*without_known_secrets(line);
        let Self { upstream, instance, .. } = self;
        let is_repeated = self.log.take(line) != Level::INFO;
        if is_repeated || self.stopping.is_cancelled() {
            if self.repeated.admit().is_some() {
                self.observe(line);
                tracing::debug!(target: "marquetry::upstream", upstream, instance, "{line}");
            }
            return;
        }
        let Some(suppressed) = self.rate.admit() else { return };
        self.log_suppressed(suppressed);
        self.observe(line);
        tracing::info!(target: "marquetry::upstream", upstream, instance, "{line}");
    }

    fn observe(&self, line: &str) {
        if let Some(observer) = self.observer.as_ref().filter(|it| it.is_watching()) {
            observer.observe(&self.upstream, None, &Observed::Stderr(line));
        }
    }

    fn log_suppressed(&self, suppressed: u64) {
        if suppressed > 0 {
            let upstream = &self.upstream;
            tracing::warn!(
                upstream,
                suppressed,
                "lines of the upstream's standard error are not logged: more than limits.max_log_lines_per_second"
            );
        }
    }
}

impl Drop for StderrLogger {
    fn drop(&mut self) {
        self.log_suppressed(self.rate.take_suppressed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_shown_leave_the_rate_to_others() {
        let logger = StderrLogger {
            upstream: "a".to_owned(),
            instance: None,
            rate: LogLimit::new(1),
            repeated: LogLimit::new(1),
            log: Arc::default(),
            stopping: CancellationToken::new(),
            observer: None,
        };
        logger.log("the same again");
        logger.log.begin_run();
        (0..100).for_each(|_| logger.log("the same again"));
        assert_eq!(logger.rate.admit(), Some(0));
        (0..100).for_each(|_| logger.log("new"));
        assert!(logger.rate.take_suppressed() > 80);
    }

    #[test]
    fn lines_written_while_the_server_stops_are_logged_for_debugging() {
        let logger = StderrLogger {
            upstream: "a".to_owned(),
            instance: None,
            rate: LogLimit::new(1),
            repeated: LogLimit::new(1),
            log: Arc::default(),
            stopping: CancellationToken::new(),
            observer: None,
        };
        logger.stopping.cancel();
        logger.log("BrokenPipeError: [Errno 32] Broken pipe");
        // One of ten places is for a line that is shown.
        let shown = (0..20).filter(|_| logger.rate.admit().is_some()).count();
        let hidden = (0..20).filter(|_| logger.repeated.admit().is_some()).count();
        assert_eq!((shown, hidden), (10, 9));
        assert_eq!(logger.log.tail().len(), 1, "health still has the line");
    }

    fn new_upstream(options: UpstreamOptions) -> Upstream {
        Upstream::new(0, options, &GatewayOptions::default(), &CancellationToken::new())
    }

    /// Returns an upstream whose next start is awaited.
    fn returning(call_timeout_ms: u64) -> Upstream {
        let mut options = UpstreamOptions::new("a", Transport::stdio("x", [""; 0]));
        options.call_timeout = Duration::from_millis(call_timeout_ms);
        let upstream = new_upstream(options);
        upstream.set_returning(true);
        upstream
    }

    fn backing_off(retry_in_ms: u64) -> UpstreamState {
        UpstreamState::BackingOff { problem: "none".to_owned(), stderr: Vec::new(), retry_in_ms }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_the_next_start_until_it_fails() {
        let upstream = Arc::new(returning(60_000));
        upstream.set_state(backing_off(1_000));
        let waiting = tokio::spawn({
            let upstream = upstream.clone();
            async move { upstream.returned().await }
        });
        for state in [UpstreamState::Starting, backing_off(1_000), UpstreamState::Starting] {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!waiting.is_finished());
            upstream.set_state(state);
        }
        upstream.set_returning(false);
        upstream.set_state(backing_off(1_000));
        tokio::time::timeout(Duration::from_millis(1), waiting).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_no_longer_than_its_own_time() {
        let started = tokio::time::Instant::now();
        let upstream = returning(500);
        upstream.set_state(UpstreamState::Starting);
        upstream.returned().await;
        assert_eq!(started.elapsed().as_millis(), 500);
        upstream.set_state(backing_off(501));
        upstream.returned().await;
        upstream.set_state(UpstreamState::Stopped);
        upstream.returned().await;
        assert_eq!(started.elapsed().as_millis(), 500);
    }

    #[tokio::test]
    async fn a_state_does_not_settle_but_the_lists_do() {
        let options = UpstreamOptions::new("a", Transport::stdio("x", [""; 0]));
        let upstream = new_upstream(options);
        async fn are_settled(upstream: &Upstream) -> [bool; 3] {
            let settled = List::ALL.map(|list| upstream.is_settled(list));
            let waited = tokio::time::timeout(Duration::from_millis(20), upstream.settled_all());
            assert_eq!(waited.await.is_ok(), settled == [true; 3]);
            settled
        }
        let problem = "none".to_owned();
        let stderr = Vec::new();
        upstream.set_state(UpstreamState::BackingOff { problem, stderr, retry_in_ms: 1 });
        assert_eq!(are_settled(&upstream).await, [false, false, false]);
        upstream.settle(List::Tools);
        assert_eq!(are_settled(&upstream).await, [true, false, false]);
        upstream.settle_all();
        assert_eq!(are_settled(&upstream).await, [true, true, true]);
    }

    #[tokio::test]
    async fn a_disabled_upstream_is_settled_at_once() {
        let options = UpstreamOptions::new("a", Transport::stdio("x", [""; 0]));
        let options = UpstreamOptions { is_disabled: true, ..options };
        new_upstream(options).settled_all().await;
    }
}
