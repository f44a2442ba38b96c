//! One upstream: its configuration, its state, and what it last listed.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use marquetry_protocol::{
    client::{
        AuthorizationError, Client, ClientError, ClientOptions, HttpTarget, RevisionChoice, Stderr,
        StdioCommand,
    },
    server::fair::{FairBounds, FairLimiter},
    types::{Implementation, LogLevel},
};
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Level;

use super::{
    bridge,
    catalog::Listing,
    connection::Connection,
    environment,
    freshness::{Freshness, List},
    in_flight::InFlight,
    names::Namer,
    program,
    rate::Rate,
    state::State,
    stderr::StderrLog,
};
use crate::config::{Config, GatewayConfig, Limits, Transport, UpstreamConfig};

/// An MCP server behind this one.
pub(crate) struct Upstream {
    pub(crate) name: String,
    pub(crate) config: UpstreamConfig,
    pub(crate) namer: Namer,
    start_timeout: Duration,
    call_timeout: Duration,
    stop_grace: Duration,
    /// Variables that it sees beside those that all do.
    pass_env: Vec<String>,
    /// Variables that hold the tokens of who may come in here; no upstream sees them that is not given them by name.
    door_keys: Vec<String>,
    /// Where tokens are kept.
    credentials: Option<PathBuf>,
    /// Says how servers over HTTP are reached.
    network: GatewayConfig,
    /// Stands before its program.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no guard"))]
    guard: Option<PathBuf>,
    state: watch::Sender<State>,
    listing: RwLock<Arc<Listing>>,
    /// When its lists are to be fetched anew.
    pub(super) freshness: Freshness,
    starts: AtomicU32,
    /// Whether to begin with `initialize`: the program has ended when it was asked for its revision.
    begins_with_initialize: AtomicBool,
    /// What its program writes to its standard error.
    pub(super) stderr: Arc<StderrLog>,
    /// By [`List`]: cancelled when the first start is over and the list shows what came of it.
    settled: [CancellationToken; 3],
    /// A call found the connection dead, which an HTTP connection does not notice by itself.
    pub(super) suspected: Notify,
    /// Bounds the requests in flight there, and shares them between callers.
    pub(super) places: FairLimiter,
    /// The calls that it is working on.
    pub(super) in_flight: Arc<InFlight>,
    /// Held while a subscription there is begun or ended, so that what it has agrees with what we know of it.
    pub(super) subscribing: tokio::sync::Mutex<()>,
    /// The level of log messages that was set, if any was.
    level: Mutex<Option<LogLevel>>,
    /// Why it may not be as ready as its state says: its last call got no answer.
    doubt: Mutex<Option<String>>,
    /// Lines of its standard error that are logged in a second.
    log_lines: u32,
}

fn places(limits: &Limits) -> FairLimiter {
    FairLimiter::new(FairBounds {
        what: "requests are in flight",
        total_setting: "limits.max_in_flight_per_upstream",
        per_caller_setting: "limits.max_in_flight_per_caller",
        total: limits.max_in_flight_per_upstream.get(),
        per_caller: limits.max_in_flight_per_caller.get(),
        queued: limits.max_in_flight_total.get(),
        wait: Duration::from_millis(limits.queue_ms),
    })
}

impl AsRef<Self> for Upstream {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Upstream {
    /// The upstream `name`, not started yet.
    pub(crate) fn new(name: &str, config: &UpstreamConfig, all: &Config) -> Self {
        let gateway = &all.gateway;
        let start_timeout = config.start_timeout_ms.unwrap_or(gateway.start_timeout_ms);
        let call_timeout = match config.call_timeout_ms.unwrap_or(gateway.call_timeout_ms) {
            0 => Duration::MAX,
            limited => Duration::from_millis(limited),
        };
        let state = match &config.transport {
            _ if config.disabled => State::Disabled,
            Transport::Unusable { problem, .. } => {
                State::Failed { problem: problem.clone(), stderr: Vec::new() }
            }
            _ => State::Starting,
        };
        Self {
            name: name.to_owned(),
            config: config.clone(),
            namer: Namer::new(name, config, &gateway.separator),
            start_timeout: Duration::from_millis(start_timeout),
            call_timeout,
            stop_grace: Duration::from_millis(gateway.stop_grace_ms),
            pass_env: gateway.pass_env.clone(),
            door_keys: all.auth.variables().map(str::to_owned).collect(),
            credentials: gateway.credentials(),
            network: gateway.clone(),
            guard: gateway.guard.clone(),
            state: watch::Sender::new(state),
            listing: RwLock::default(),
            freshness: Freshness::new(Duration::from_millis(gateway.list_refetch_ms)),
            starts: AtomicU32::new(0),
            begins_with_initialize: AtomicBool::new(false),
            stderr: Arc::default(),
            settled: Default::default(),
            suspected: Notify::new(),
            places: places(&all.limits),
            in_flight: Arc::default(),
            subscribing: tokio::sync::Mutex::default(),
            level: Mutex::default(),
            doubt: Mutex::default(),
            log_lines: all.limits.max_log_lines_per_second.get(),
        }
    }

    /// What it is doing now.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Whether it is to be started at all.
    pub(crate) fn is_started(&self) -> bool {
        !self.config.disabled && !matches!(self.config.transport, Transport::Unusable { .. })
    }

    /// Waits until its first start is over, well or badly, and a list shows what came of it.
    pub(crate) async fn settled(&self, list: List) {
        if self.is_started() {
            self.settled[list as usize].cancelled().await;
        }
    }

    /// As [`Self::settled`] for every list.
    pub(crate) async fn settled_all(&self) {
        for list in List::ALL {
            self.settled(list).await;
        }
    }

    /// Whether its first start is over, and a list shows what came of it.
    pub(super) fn is_settled(&self, list: List) -> bool {
        !self.is_started() || self.settled[list as usize].is_cancelled()
    }

    /// Marks the first start as over for a list. The state is no sign of that: an upstream is ready before its names
    /// appear.
    pub(super) fn settle(&self, list: List) {
        self.settled[list as usize].cancel();
    }

    /// As [`Self::settle`] for every list.
    pub(super) fn settle_all(&self) {
        List::ALL.into_iter().for_each(|list| self.settle(list));
    }

    /// What it is doing after its connection was lost, as soon as that is noticed.
    pub(super) async fn state_after_loss(&self) -> State {
        const NOTICED: Duration = Duration::from_millis(250);
        let mut states = self.state.subscribe();
        let lost = states.wait_for(|state| !matches!(state, State::Ready(_)));
        _ = tokio::time::timeout(NOTICED, lost).await;
        self.state()
    }

    pub(super) fn set_state(&self, state: State) {
        self.trust();
        self.state.send_replace(state);
    }

    /// Why it may not be as ready as its state says, if anything is known against it.
    pub(crate) fn doubt(&self) -> Option<String> {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A call failed. Until one succeeds, or the upstream shows that it is alive, for which it is asked, health says so.
    pub(super) fn distrust(&self, problem: String) {
        *self.doubt.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        self.suspected.notify_one();
    }

    /// The upstream works.
    pub(super) fn trust(&self) {
        self.doubt.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// What it last listed; empty before its first start.
    pub(crate) fn listing(&self) -> Arc<Listing> {
        self.listing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_listing(&self, listing: Listing) {
        self.update_listing(|old| *old = listing);
    }

    /// Changes a part of what it last listed.
    pub(super) fn update_listing(&self, change: impl FnOnce(&mut Listing)) {
        change(Arc::make_mut(&mut self.listing.write().unwrap_or_else(PoisonError::into_inner)));
    }

    /// The program has ended before it introduced itself. Some programs of the session era end when `initialize` is not the
    /// first that they are asked, so the next start asks in the other way. Returns whether it was asked for its revision.
    pub(super) fn ended_early(&self) -> bool {
        let may_change = self.config.revision.is_none()
            && matches!(self.config.transport, Transport::Stdio { .. });
        may_change && !self.begins_with_initialize.fetch_not(Ordering::Relaxed)
    }

    /// How often it was started again.
    pub(crate) fn restarts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed).saturating_sub(1)
    }

    pub(crate) fn start_timeout(&self) -> Duration {
        self.start_timeout
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    pub(super) fn level(&self) -> Option<LogLevel> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_level(&self, level: LogLevel) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// It has started again, and knows nothing of what it was told.
    pub(super) fn forget_level(&self) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Starts the program or opens the connection.
    pub(super) async fn connect(
        &self,
        connection: Connection,
        limits: &Limits,
        children: &TaskTracker,
    ) -> Result<Client, ClientError> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let options = ClientOptions {
            implementation: Implementation::new("marquetry", env!("CARGO_PKG_VERSION")),
            capabilities: bridge::offered(),
            handler: Arc::new(connection),
            revision: match self.config.revision {
                Some(revision) => RevisionChoice::Only(revision),
                None if self.begins_with_initialize.load(Ordering::Relaxed) => {
                    RevisionChoice::Session
                }
                None => RevisionChoice::Auto,
            },
            connect_timeout: self.start_timeout,
            request_timeout: self.start_timeout,
            max_message_bytes: limits.max_upstream_message_bytes.get(),
            max_list_items: limits.max_upstream_list.get(),
            max_rounds: limits.max_questions_per_call.get(),
            // Results pass through; those who read them check them.
            check_results: false,
            ..ClientOptions::default()
        };
        match &self.config.transport {
            Transport::Stdio { command, args, env, cwd } => {
                let mut program = StdioCommand::new(command, args);
                program.inherit_env = false;
                program.env = if self.config.inherit_env {
                    environment::inherited(std::env::vars_os(), &self.door_keys)
                } else {
                    environment::passed(std::env::vars_os(), &self.pass_env, &self.door_keys)
                };
                program.env.extend(env.clone());
                let depth = environment::depth() + 1;
                if depth > environment::MOST_DEPTH {
                    let problem = "is not started: this server was itself started by Marquetry, several times over; does its mcp.json name Marquetry?";
                    return Err(ClientError::Protocol(problem.into()));
                }
                program.env.insert(environment::DEPTH.into(), depth.to_string());
                program.cwd.clone_from(cwd);
                program.stop_grace = self.stop_grace;
                program.children = Some(children.clone());
                self.stderr.begin_run();
                let said = Said {
                    upstream: self.name.clone(),
                    rate: Rate::new(self.log_lines),
                    repeated: Rate::new(self.log_lines),
                    log: self.stderr.clone(),
                };
                program.stderr = Stderr::Lines(Arc::new(move |line| said.log(line)));
                program::find(&program)?;
                #[cfg(unix)]
                if let Some(guard) = &self.guard {
                    super::guard::stand_before(&mut program, guard);
                }
                Client::spawn(program, options).await
            }
            Transport::Http { url, headers, .. } => {
                let headers = headers.clone().into_iter().collect();
                let network = self.network.network()?;
                let mut options = ClientOptions { network: network.clone(), ..options };
                if let Some(auth) = &self.config.auth {
                    let oauth =
                        auth.authorizer(url, self.credentials.as_deref(), None, &network)?;
                    options.authorizer = Some(Arc::new(oauth));
                }
                let target = HttpTarget { url: url.clone(), headers };
                Client::http(target, options).await.map_err(|error| self.with_advice(error))
            }
            Transport::Unusable { problem, .. } => Err(ClientError::Protocol(problem.clone())),
            // Only a disabled upstream has no transport; `Config::check` saw to it.
            Transport::Elsewhere => {
                Err(ClientError::Protocol("nothing says how to reach it".into()))
            }
        }
    }
}

/// Logs what a program says on standard error, at a bounded rate, and keeps the last lines.
struct Said {
    upstream: String,
    rate: Rate,
    /// Lines that are logged for debugging alone have a rate of their own: they are seldom shown, and must not take the
    /// place of those that are.
    repeated: Rate,
    log: Arc<StderrLog>,
}

impl Said {
    fn log(&self, line: &str) {
        let upstream = &self.upstream;
        if self.log.take(line) != Level::INFO {
            if self.repeated.admit().is_some() {
                tracing::debug!(target: "marquetry::upstream", upstream, "{line}");
            }
            return;
        }
        let Some(suppressed) = self.rate.admit() else { return };
        self.tell_suppressed(suppressed);
        tracing::info!(target: "marquetry::upstream", upstream, "{line}");
    }

    fn tell_suppressed(&self, suppressed: u64) {
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

impl Drop for Said {
    fn drop(&mut self) {
        self.tell_suppressed(self.rate.take_suppressed());
    }
}

impl Upstream {
    /// What somebody can do about a refusal.
    fn with_advice(&self, error: ClientError) -> ClientError {
        let name = &self.name;
        let advice = match &error {
            ClientError::Authorization(AuthorizationError::LoginRequired { .. }) => {
                format!("log in with `marquetry login {name}`")
            }
            ClientError::Unauthorized(_) if self.config.auth.is_none() => {
                format!("log in with `marquetry login {name}`")
            }
            // It may come to itself; but where a registration is gone, it is gone.
            ClientError::Authorization(AuthorizationError::Denied { error, .. })
                if error == "invalid_client" && self.config.is_registered_by_itself() =>
            {
                format!("if this stays so, register anew with `marquetry login {name} --forget`")
            }
            _ => return error,
        };
        ClientError::Io { what: error.to_string(), source: std::io::Error::other(advice) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_shown_leave_the_rate_to_others() {
        let said = Said {
            upstream: "a".to_owned(),
            rate: Rate::new(1),
            repeated: Rate::new(1),
            log: Arc::default(),
        };
        said.log("the same again");
        said.log.begin_run();
        (0..100).for_each(|_| said.log("the same again"));
        assert_eq!(said.rate.admit(), Some(0));
        (0..100).for_each(|_| said.log("new"));
        assert!(said.rate.take_suppressed() > 80);
    }

    #[tokio::test]
    async fn a_state_does_not_settle_but_the_lists_do() {
        let config = UpstreamConfig::new(Transport::Elsewhere);
        let upstream = Upstream::new("a", &config, &Config::default());
        let is_settled = async || {
            let settled = List::ALL.map(|list| upstream.is_settled(list));
            let waited = tokio::time::timeout(Duration::from_millis(20), upstream.settled_all());
            assert_eq!(waited.await.is_ok(), settled == [true; 3]);
            settled
        };
        let (problem, stderr) = ("none".to_owned(), Vec::new());
        upstream.set_state(State::BackingOff { problem, stderr, retry_in_ms: 1 });
        assert_eq!(is_settled().await, [false, false, false]);
        upstream.settle(List::Tools);
        assert_eq!(is_settled().await, [true, false, false]);
        upstream.settle_all();
        assert_eq!(is_settled().await, [true, true, true]);
    }

    #[tokio::test]
    async fn a_disabled_upstream_is_settled_at_once() {
        let config = UpstreamConfig { disabled: true, ..UpstreamConfig::new(Transport::Elsewhere) };
        Upstream::new("a", &config, &Config::default()).settled_all().await;
    }

    #[test]
    fn a_client_that_is_not_known_any_more_is_told_how_to_be() {
        let denied = || {
            let (error, description) = ("invalid_client".to_owned(), String::new());
            ClientError::Authorization(AuthorizationError::Denied { error, description })
        };
        let mut config = UpstreamConfig::new(Transport::Elsewhere);
        let advised = |config: &UpstreamConfig| {
            let upstream = Upstream::new("files", config, &Config::default());
            upstream.with_advice(denied()).to_string().contains("marquetry login files --forget")
        };
        config.auth = Some(Default::default());
        assert!(advised(&config));
        config.auth.as_mut().unwrap().client_id = Some("me".to_owned());
        assert!(!advised(&config), "we did not register, so we cannot again");
    }
}
