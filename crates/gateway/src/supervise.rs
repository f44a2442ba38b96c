//! Supervises one upstream: starts it, fetches its lists when they change, and restarts it when it
//! ends.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use marquetry_nearest::nearest;
use marquetry_protocol::{
    Era,
    client::{
        CallOptions, Client, ClientError, Fetched, ProtocolError, ServerNotification, SkippedItem,
    },
    error_code,
    types::{CacheHint, Tool},
};
use marquetry_redact::without_known_secrets;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tracing::Instrument as _;

use super::{
    Gateway,
    backoff::{self, STEADY},
    call::is_stateless,
    connection::Connection,
    freshness::List,
    listing::Listing,
    overrides::warn_of_misfits,
    stale::StaleMark,
    start_report::StartFailure,
    state::UpstreamState,
    upstream::Upstream,
};

/// The marks of each [`List`].
type StaleMarks = [StaleMark; 3];

/// Supervises an upstream until the gateway stops or has no attempts left.
pub(super) async fn supervise(gateway: Arc<Gateway>, upstream: Arc<Upstream>) {
    let name = upstream.name();
    let mut failures = 0;
    // Whether the program has been started again without `server/discover` since it was last ready.
    let mut has_switched = false;
    loop {
        upstream.set_state(UpstreamState::Starting);
        let started_at = Instant::now();
        let started = tokio::select! {
            biased;
            () = upstream.stopping.cancelled() => break,
            started = tokio::time::timeout(upstream.start_timeout(), start(&gateway, &upstream)) => started,
        };
        // The handshake and each request have the time of the whole start, so the limit of any of
        // them may end it.
        let started = match started {
            Ok(Err(ClientError::Timeout(limit))) if limit == upstream.start_timeout() => None,
            started => started.ok(),
        };
        let problem = match started {
            Some(Ok(running)) => {
                has_switched = false;
                upstream.set_started(started_at.elapsed());
                let ready_since = Instant::now();
                let client = running.client.clone();
                let end = if upstream.instance.is_some() {
                    Box::pin(watch_instance(&gateway, &upstream, running)).await
                } else {
                    Box::pin(watch(&gateway, &upstream, running)).await
                };
                client.close().await;
                let problem = match end {
                    End::Stopping => break,
                    End::Restarted => {
                        tracing::info!(upstream = name, "restarting the upstream on demand");
                        upstream.set_returning(true);
                        failures = 0;
                        continue;
                    }
                    End::Failed(problem) => problem,
                };
                upstream.set_returning(true);
                // One call that ends the upstream must not delay the calls of others more and more.
                let has_answered = upstream.take_answered();
                if has_answered || ready_since.elapsed() >= STEADY {
                    failures = 0;
                }
                upstream.set_failure(StartFailure::Lost(problem.clone()));
                problem
            }
            Some(Err(error)) => {
                let was_probed = matches!(error, ClientError::Closed(_)) && upstream.ended_early();
                if was_probed && failures == 0 && !has_switched {
                    // Not a failure yet: requests for its tools wait for the second attempt.
                    tracing::info!(upstream = name, %error, "starting the upstream again without server/discover");
                    has_switched = true;
                    continue;
                }
                upstream.set_returning(false);
                let problem = upstream.described(&error);
                upstream.set_failure(StartFailure::Client(error));
                problem
            }
            None => {
                upstream.set_returning(false);
                upstream.set_failure(StartFailure::NotReady(upstream.start_timeout()));
                let ms = upstream.start_timeout().as_millis();
                format!("not ready within {ms} ms (start_timeout_ms)")
            }
        };
        failures += 1;
        let problem = without_known_secrets(problem).into_owned();
        let options = &gateway.options;
        let stderr = if options.shows_stderr { upstream.stderr.tail() } else { Vec::new() };
        if options.restart_max_failures > 0 && failures >= options.restart_max_failures {
            tracing::error!(upstream = name, failures, problem, "gave up on the upstream");
            upstream.set_state(UpstreamState::Failed { problem, stderr });
            if upstream.instance.is_none() {
                upstream.set_listing(Listing::default());
                gateway.relist();
            }
            upstream.settle_all();
            return;
        }
        let pause = backoff::pause(options, failures);
        let retry_in_ms = pause.as_millis() as u64;
        tracing::warn!(upstream = name, failures, retry_in_ms, problem, "upstream is down");
        upstream.set_state(UpstreamState::BackingOff { problem, stderr, retry_in_ms });
        upstream.settle_all();
        tokio::select! {
            biased;
            () = upstream.stopping.cancelled() => break,
            () = upstream.restart.notified() => failures = 0,
            () = tokio::time::sleep(pause) => {}
        }
    }
    upstream.set_state(UpstreamState::Stopped);
    upstream.settle_all();
}

/// An upstream that has introduced itself and listed its tools.
struct RunningUpstream {
    client: Client,
    notifications: Receiver<ServerNotification>,
    /// `None` if the list could not be read.
    tools: Option<Vec<Tool>>,
    /// For how long and for whom the tools may be cached.
    cache: Option<CacheHint>,
    /// Why the tools are left out or may be incomplete.
    problem: Option<String>,
    /// Tools that were left out because they are invalid.
    skipped: Vec<SkippedItem>,
}

/// Returns the span of the log lines of a connection, which know the upstream only by it.
fn span(upstream: &Upstream) -> tracing::Span {
    tracing::info_span!("connection", upstream = upstream.name())
}

async fn start(
    gateway: &Gateway,
    upstream: &Arc<Upstream>,
) -> Result<RunningUpstream, ClientError> {
    let until = tokio::time::Instant::now().checked_add(upstream.start_timeout());
    let connection = Connection { gateway: gateway.me.clone(), upstream: Arc::downgrade(upstream) };
    let children = upstream.instance.as_ref().map_or(&gateway.tasks, |it| &it.children);
    let client = upstream
        .connect(Arc::new(connection), &gateway.options, children)
        .instrument(span(upstream))
        .await?;
    // Subscribe before the lists are fetched, so that no change in between is missed.
    let notifications = client.notifications();
    let mut running = RunningUpstream {
        client: client.clone(),
        notifications,
        tools: Some(Vec::new()),
        cache: None,
        problem: None,
        skipped: Vec::new(),
    };
    // The lists of an instance are shown to no caller.
    if client.server().capabilities.tools.is_none() || upstream.instance.is_some() {
        return Ok(running);
    }
    match fetch_first_tools(upstream, &client, until).await {
        Ok(fetched) => {
            upstream.freshness.set_expiry(List::Tools, fetched.cache);
            running.cache = fetched.cache;
            running.problem = incomplete(&fetched);
            running.skipped = fetched.skipped;
            running.tools = Some(fetched.items);
        }
        // Its prompts and resources can still be used.
        Err(error @ (ClientError::Rpc(_) | ClientError::Protocol(_) | ClientError::Timeout(_))) => {
            tracing::warn!(upstream = upstream.name(), %error, "failed to fetch the tools; leaving them out");
            running.problem = Some(error.to_string());
            running.tools = None;
        }
        Err(error) => return Err(error),
    }
    Ok(running)
}

/// Fetches the tools of an upstream that has just introduced itself, shortly before the end of its
/// start at the latest.
///
/// # Errors
/// Returns an error as [`Client::fetch_tools`] does; [`ClientError::Timeout`] only if the upstream
/// answers other requests.
async fn fetch_first_tools(
    upstream: &Upstream,
    client: &Client,
    until: Option<tokio::time::Instant>,
) -> Result<Fetched<Tool>, ClientError> {
    let fetching = client.fetch_tools().instrument(span(upstream));
    let Some(until) = until else { return fetching.await };
    // Enough for a ping, and too little to matter for a list that is slow.
    let limit = upstream.start_timeout();
    let patience = (limit / 10).min(Duration::from_secs(2));
    match tokio::time::timeout_at(until - patience, fetching).await {
        Ok(fetched) => fetched,
        Err(_) => match ping(client, patience / 2).await {
            Ping::Answered => Err(ClientError::Timeout(limit.saturating_sub(patience))),
            // The limit of the start comes before the answer.
            Ping::Refused | Ping::Nothing => std::future::pending().await,
        },
    }
}

/// The reason why the supervision of a connection ended.
enum End {
    /// The gateway stops.
    Stopping,
    /// A restart was requested.
    Restarted,
    /// The upstream failed, for this reason.
    Failed(String),
}

/// Offers the upstream to clients until it ends, and returns why.
///
/// Its tools are offered at once. Each other list is fetched on its own, so that one that never
/// arrives does not delay the others.
async fn watch(gateway: &Gateway, upstream: &Upstream, running: RunningUpstream) -> End {
    let RunningUpstream { client, notifications, tools, cache, problem, skipped } = running;
    let lacks_tools = AtomicBool::new(tools.is_none());
    let server = client.server();
    tracing::info!(
        upstream = upstream.name(),
        server = server.info.name,
        version = server.info.version,
        revision = server.revision.as_str(),
        tools = tools.as_ref().map(Vec::len),
        "upstream is ready",
    );
    if let Some(tools) = &tools {
        warn_of_unknown_tools(upstream, tools);
        warn_of_misfits(upstream, tools);
    }
    upstream.update_listing(|listing| {
        if let Some(tools) = tools {
            listing.tools = tools;
        }
        listing.instructions.clone_from(&server.instructions);
        listing.has_resources = server.capabilities.resources.is_some();
        listing.left_out.clear();
        listing.set_problem("tools", problem);
        listing.skipped_tools = skipped;
    });
    // An answer that came after the last connection ended says nothing about this one.
    upstream.take_answered();
    upstream.in_flight.reset();
    upstream.freshness.forget_delays();
    // Ready before its names appear, so that every listed name can be called.
    upstream.set_state(UpstreamState::Ready(client.clone()));
    gateway.relist();
    upstream.settle(List::Tools);
    let stale = StaleMarks::default();
    let session =
        Session { gateway, upstream, client: &client, stale: &stale, lacks_tools: &lacks_tools };
    let restoration = async {
        upstream.cache_tools(cache).await;
        gateway.set_level_again(upstream, &client).await;
        gateway.subscribe_again(upstream, &client).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = upstream.stopping.cancelled() => End::Stopping,
        () = upstream.restart.notified() => End::Restarted,
        reason = client.closed() => End::Failed(reason.to_string()),
        problem = session.listen(notifications) => End::Failed(problem),
        problem = session.refresh_tools() => End::Failed(problem),
        () = session.request_missing_tools() => unreachable!("the loop never ends"),
        () = session.refresh_other_lists() => unreachable!("the loop never ends"),
        () = restoration => unreachable!("the loop never ends"),
    }
}

/// Lets requests use an instance until it ends, and returns why.
async fn watch_instance(gateway: &Gateway, upstream: &Upstream, running: RunningUpstream) -> End {
    let RunningUpstream { client, notifications, .. } = running;
    tracing::info!(upstream = upstream.name(), "an instance is ready");
    upstream.take_answered();
    upstream.in_flight.reset();
    // Before requests come: the first subscription may be what has started the instance.
    let subscribed = gateway.instance_subscribers.resources(upstream);
    upstream.set_state(UpstreamState::Ready(client.clone()));
    let stale = StaleMarks::default();
    let lacks_tools = AtomicBool::new(false);
    let session =
        Session { gateway, upstream, client: &client, stale: &stale, lacks_tools: &lacks_tools };
    let restoration = async {
        gateway.set_level_again(upstream, &client).await;
        gateway.subscribe_instance_again(upstream, &client, &subscribed).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = upstream.stopping.cancelled() => End::Stopping,
        () = upstream.restart.notified() => End::Restarted,
        reason = client.closed() => End::Failed(reason.to_string()),
        problem = session.listen(notifications) => End::Failed(problem),
        () = restoration => unreachable!("the loop never ends"),
    }
}

/// Result of a ping.
enum Ping {
    /// A result, or an error that only a live upstream gives.
    Answered,
    /// It does not accept this server's credentials.
    Refused,
    Nothing,
}

/// Pings an upstream, as [`Client::is_alive`] does.
async fn ping(client: &Client, limit: Duration) -> Ping {
    let method = if is_stateless(client) { "server/discover" } else { "ping" };
    let options = CallOptions { timeout: Some(limit), ..CallOptions::default() };
    match client.request(method, None, options).await {
        Err(ClientError::Timeout(_) | ClientError::Closed(_) | ClientError::Io { .. }) => {
            Ping::Nothing
        }
        Err(ClientError::Unauthorized(_)) => Ping::Refused,
        _ => Ping::Answered,
    }
}

/// One connection to an upstream that is ready.
struct Session<'a> {
    gateway: &'a Gateway,
    upstream: &'a Upstream,
    client: &'a Client,
    stale: &'a StaleMarks,
    /// Whether the tools could not be fetched since the start.
    lacks_tools: &'a AtomicBool,
}

impl Session<'_> {
    /// Marks a list as stale when the upstream announces its change. Returns the reason why the
    /// upstream is lost.
    async fn listen(&self, mut notifications: Receiver<ServerNotification>) -> String {
        loop {
            tokio::select! {
                biased;
                () = self.upstream.suspected.notified() => {
                    let limit = self.gateway.options.ping_timeout;
                    match ping(self.client, limit).await {
                        Ping::Nothing => {
                            let ms = limit.as_millis();
                            return format!("gave no sign of life within {ms} ms after a call without an answer (ping_timeout_ms)");
                        }
                        // The upstream is alive, and still refuses this server's credentials.
                        Ping::Refused => {}
                        Ping::Answered => {
                            self.upstream.trust();
                            self.stale[List::Tools as usize].changed.notify_one();
                        }
                    }
                }
                lists = self.upstream.freshness.requested() => {
                    for &list in &lists {
                        self.stale[list as usize].requested.notify_one();
                    }
                }
                received = notifications.recv() => match received {
                    Ok(notification) => if let Some(list) = changed_list(&notification.method) {
                        self.stale[list as usize].changed.notify_one();
                    },
                    Err(RecvError::Lagged(_)) => {
                        self.stale.iter().for_each(|stale| stale.changed.notify_one());
                    }
                    Err(RecvError::Closed) => return self.client.closed().await.to_string(),
                },
            }
        }
    }

    /// Fetches the tools when they are stale. Returns the reason why the upstream is lost.
    async fn refresh_tools(&self) -> String {
        loop {
            self.stale[List::Tools as usize].wait().await;
            if self.client.server().capabilities.tools.is_none() {
                continue;
            }
            match self.client.fetch_tools().instrument(span(self.upstream)).await {
                Ok(fetched) => {
                    self.lacks_tools.store(false, Ordering::Relaxed);
                    let cache = fetched.cache;
                    self.upstream.freshness.set_expiry(List::Tools, cache);
                    self.publish(|listing| {
                        listing.set_problem("tools", incomplete(&fetched));
                        listing.skipped_tools = fetched.skipped;
                        listing.tools = fetched.items;
                    });
                    self.upstream.cache_tools(cache).await;
                }
                Err(ClientError::Closed(reason)) => return reason.to_string(),
                Err(error @ (ClientError::Io { .. } | ClientError::Http { .. })) => {
                    return error.to_string();
                }
                Err(error) => {
                    tracing::warn!(upstream = self.upstream.name(), %error, "failed to fetch the tools again; the old ones stay");
                }
            }
            self.upstream.freshness.finish_fetch(List::Tools);
        }
    }

    /// Has the tools fetched again if they could not be fetched at the start.
    async fn request_missing_tools(&self) {
        let mut failures = 0;
        while self.lacks_tools.load(Ordering::Relaxed) {
            failures += 1;
            tokio::time::sleep(backoff::pause(&self.gateway.options, failures)).await;
            self.stale[List::Tools as usize].requested.notify_one();
        }
        std::future::pending::<()>().await;
    }

    /// Fetches the other lists at the start and when they are stale.
    async fn refresh_other_lists(&self) {
        let prompts = async {
            loop {
                self.fetch_prompts().await;
                self.upstream.settle(List::Prompts);
                self.upstream.freshness.finish_fetch(List::Prompts);
                self.stale[List::Prompts as usize].wait().await;
            }
        };
        let resources = async {
            loop {
                self.fetch_resources().await;
                self.upstream.settle(List::Resources);
                self.upstream.freshness.finish_fetch(List::Resources);
                self.stale[List::Resources as usize].wait().await;
            }
        };
        tokio::join!(prompts, resources);
    }

    async fn fetch_prompts(&self) {
        if self.client.server().capabilities.prompts.is_none() {
            return self.publish(|listing| listing.prompts.clear());
        }
        let fetched = self.client.fetch_prompts().instrument(span(self.upstream)).await;
        self.upstream.freshness.set_expiry(List::Prompts, self.cache_of(&fetched));
        self.publish_fetched("prompts", fetched, |listing| &mut listing.prompts);
    }

    async fn fetch_resources(&self) {
        if self.client.server().capabilities.resources.is_none() {
            return self.publish(|listing| {
                listing.resources.clear();
                listing.templates.clear();
            });
        }
        let resources = async {
            let fetched = self.client.fetch_resources().instrument(span(self.upstream)).await;
            let cache = self.cache_of(&fetched);
            self.publish_fetched("resources", fetched, |listing| &mut listing.resources);
            cache
        };
        let templates = async {
            let fetched =
                self.client.fetch_resource_templates().instrument(span(self.upstream)).await;
            let cache = self.cache_of(&fetched);
            self.publish_fetched("resource templates", fetched, |listing| &mut listing.templates);
            cache
        };
        let (resources, templates) = tokio::join!(resources, templates);
        self.upstream.freshness.set_expiry(List::Resources, resources);
        self.upstream.freshness.limit_expiry(List::Resources, templates);
    }

    /// Returns the cache hint of a list, if its upstream sends one.
    fn cache_of<T>(&self, fetched: &Result<Fetched<T>, ClientError>) -> Option<CacheHint> {
        match fetched {
            Ok(fetched) => fetched.cache,
            Err(ClientError::Rpc(error)) if error.code == error_code::METHOD_NOT_FOUND => None,
            // A list that failed may be fetched again at once.
            Err(_) => {
                let is_stateless = self.client.server().revision.era() == Era::Stateless;
                is_stateless.then(CacheHint::default)
            }
        }
    }

    /// Publishes an optional list of an upstream. If it cannot be fetched, the former list stays,
    /// and the reason is published.
    fn publish_fetched<T>(
        &self,
        list: &'static str,
        fetched: Result<Fetched<T>, ClientError>,
        place: impl FnOnce(&mut Listing) -> &mut Vec<T>,
    ) {
        let name = self.upstream.name();
        let (items, problem) = match fetched {
            Ok(fetched) => {
                let incomplete = incomplete(&fetched);
                (Some(fetched.items), incomplete)
            }
            // Servers that declare resources often know no templates.
            Err(ClientError::Rpc(error)) if error.code == error_code::METHOD_NOT_FOUND => {
                tracing::debug!(upstream = name, list, "the upstream does not have this list");
                (Some(Vec::new()), None)
            }
            // `watch` reports the end of the connection.
            Err(ClientError::Closed(_)) => return,
            Err(error) => {
                tracing::warn!(upstream = name, list, %error, "failed to fetch a list; leaving it out");
                if matches!(error, ClientError::Io { .. }) {
                    self.upstream.suspected.notify_one();
                }
                (None, Some(error.to_string()))
            }
        };
        self.publish(|listing| {
            listing.set_problem(list, problem);
            if let Some(items) = items {
                *place(listing) = items;
            }
        });
    }

    fn publish(&self, change: impl FnOnce(&mut Listing)) {
        let before = self.upstream.listing();
        self.upstream.update_listing(change);
        // Merging many lists takes time.
        if *before != *self.upstream.listing() {
            self.gateway.relist();
        }
    }
}

/// Returns why a list may lack items.
fn incomplete<T>(fetched: &Fetched<T>) -> Option<String> {
    let error = fetched.incomplete.as_ref()?;
    let setting = match error {
        ProtocolError::TooManyItems { .. } => " (limits.max_upstream_list)",
        ProtocolError::ListTooLong { .. } => " (limits.max_upstream_message_bytes)",
        ProtocolError::ListTooSlow { .. } => " (start_timeout_ms)",
        _ => "",
    };
    Some(format!("items may be missing: {error}{setting}"))
}

/// Warns of settings for tools that the upstream does not have: most of them are typing errors.
fn warn_of_unknown_tools(upstream: &Upstream, tools: &[Tool]) {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let options = &upstream.settings().options;
    let named = options.capture.tools.keys().chain(options.filter.names());
    let named: BTreeSet<&String> = named.chain(options.overrides.keys()).collect();
    for tool in named.into_iter().filter(|tool| !names.contains(&tool.as_str())) {
        let nearest = nearest(tool, &names);
        tracing::warn!(
            upstream = upstream.name(),
            tool,
            nearest,
            "the configuration names a tool that the upstream does not have"
        );
    }
}

/// Returns the list whose change a notification announces.
fn changed_list(method: &str) -> Option<List> {
    match method {
        "notifications/tools/list_changed" => Some(List::Tools),
        "notifications/prompts/list_changed" => Some(List::Prompts),
        "notifications/resources/list_changed" => Some(List::Resources),
        _ => None,
    }
}

/// Time limit of each phase of [`Gateway::stop`]: closing, terminating, killing.
pub(super) fn stop_limit(grace: Duration) -> Duration {
    grace.saturating_mul(3).saturating_add(Duration::from_secs(1))
}
