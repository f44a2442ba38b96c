//! Keeps one upstream alive: starts it, listens for changes of its lists, starts it again when it ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Era,
    client::{Client, ClientError, Fetched, ServerNotification},
    error_code,
    types::CacheHint,
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{
    Gateway,
    backoff::{self, STEADY},
    catalog::Listing,
    connection::Connection,
    freshness::List,
    state::State,
    upstream::Upstream,
};
use crate::config::nearest;

/// How long announcements are gathered before lists are fetched: servers announce several changes in a row.
const GATHERED: Duration = Duration::from_millis(30);

/// The lists of an upstream that may have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stale {
    tools: bool,
    prompts: bool,
    resources: bool,
}

/// Runs until the gateway stops, or the upstream is given up.
pub(super) async fn supervise(gateway: Arc<Gateway>, index: usize) {
    let upstream = gateway.upstreams[index].clone();
    let name = upstream.name.as_str();
    let mut failures = 0;
    loop {
        upstream.set_state(State::Starting);
        let started = tokio::select! {
            biased;
            () = gateway.stopping.cancelled() => break,
            started = tokio::time::timeout(upstream.start_timeout(), start(&gateway, index)) => started,
        };
        let problem = match started {
            Ok(Ok(running)) => {
                let ready_since = Instant::now();
                let client = running.client.clone();
                let problem = watch(&gateway, index, running).await;
                client.close().await;
                let Some(problem) = problem else { break };
                if ready_since.elapsed() >= STEADY {
                    failures = 0;
                }
                problem
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not ready within {} ms", upstream.start_timeout().as_millis()),
        };
        failures += 1;
        let config = &gateway.config;
        if config.restart_max_failures > 0 && failures >= config.restart_max_failures {
            tracing::error!(upstream = name, failures, problem, "upstream is given up");
            upstream.set_state(State::Failed { problem });
            upstream.set_listing(Listing::default());
            gateway.relist();
            upstream.settle();
            return;
        }
        let pause = backoff::pause(config, failures);
        let retry_in_ms = pause.as_millis() as u64;
        tracing::warn!(upstream = name, failures, retry_in_ms, problem, "upstream is down");
        upstream.set_state(State::BackingOff { problem, retry_in_ms });
        upstream.settle();
        tokio::select! {
            biased;
            () = gateway.stopping.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    upstream.set_state(State::Stopped);
    upstream.settle();
}

/// An upstream that has introduced itself and listed what it has.
struct Running {
    client: Client,
    notifications: Receiver<ServerNotification>,
    listing: Listing,
}

async fn start(gateway: &Gateway, index: usize) -> Result<Running, ClientError> {
    let upstream = &gateway.upstreams[index];
    let connection = Connection { gateway: gateway.me.clone(), upstream: index };
    let client = upstream.connect(connection, &gateway.limits, &gateway.tasks).await?;
    // From before the lists are fetched, so that no change between is missed.
    let notifications = client.notifications();
    let server = client.server();
    let all = Stale { tools: true, prompts: true, resources: true };
    let mut listing = Listing {
        instructions: server.instructions.clone(),
        has_resources: server.capabilities.resources.is_some(),
        ..Listing::default()
    };
    fetch(&client, upstream, all, &mut listing).await?;
    Ok(Running { client, notifications, listing })
}

/// Offers the upstream to clients until it ends (with how) or the gateway stops (none).
async fn watch(gateway: &Gateway, index: usize, running: Running) -> Option<String> {
    let upstream = &*gateway.upstreams[index];
    let Running { client, mut notifications, mut listing } = running;
    let server = client.server();
    tracing::info!(
        upstream = upstream.name,
        server = server.info.name,
        version = server.info.version,
        revision = server.revision.as_str(),
        tools = listing.tools.len(),
        prompts = listing.prompts.len(),
        resources = listing.resources.len(),
        "upstream is ready",
    );
    warn_of_unknown_tools(upstream, &listing);
    upstream.set_listing(listing.clone());
    upstream.in_flight.begin_anew();
    upstream.freshness.done(&[]);
    // Ready before its names appear: whoever sees a name can call it.
    upstream.set_state(State::Ready(client.clone()));
    gateway.relist();
    upstream.settle();
    let again = async {
        gateway.set_level_again(upstream, &client).await;
        gateway.subscribe_again(index, &client).await;
    };
    tokio::select! {
        biased;
        () = gateway.stopping.cancelled() => return None,
        reason = client.closed() => return Some(reason.to_string()),
        () = again => {}
    }
    loop {
        let mut wanted = Vec::new();
        let mut stale = tokio::select! {
            biased;
            () = gateway.stopping.cancelled() => return None,
            reason = client.closed() => return Some(reason.to_string()),
            () = upstream.suspected.notified() => {
                let limit = Duration::from_millis(gateway.config.ping_timeout_ms);
                tokio::select! {
                    biased;
                    () = gateway.stopping.cancelled() => return None,
                    alive = client.is_alive(limit) => if !alive {
                        let ms = limit.as_millis();
                        return Some(format!("gave no sign of life within {ms} ms after a call without an answer"));
                    }
                }
                upstream.trust();
                Stale { tools: true, ..Stale::default() }
            }
            lists = upstream.freshness.wanted() => {
                let stale = Stale::these(&lists);
                wanted = lists;
                stale
            }
            told = notifications.recv() => match told {
                Ok(notification) => Stale::of(&notification),
                Err(RecvError::Lagged(_)) => Stale { tools: true, prompts: true, resources: true },
                Err(RecvError::Closed) => return Some(client.closed().await.to_string()),
            },
        };
        // An agent that waits for a list is not kept waiting for announcements.
        if wanted.is_empty() {
            tokio::select! {
                biased;
                () = gateway.stopping.cancelled() => return None,
                () = tokio::time::sleep(GATHERED) => {}
            }
        }
        // One fetch answers all announcements that are here by now.
        while let Ok(notification) = notifications.try_recv() {
            stale = stale.and(Stale::of(&notification));
        }
        if stale == Stale::default() {
            continue;
        }
        let fetched = tokio::select! {
            biased;
            () = gateway.stopping.cancelled() => return None,
            fetched = fetch(&client, upstream, stale, &mut listing) => fetched,
        };
        match fetched {
            Ok(()) => {
                upstream.set_listing(listing.clone());
                gateway.relist();
                upstream.freshness.done(&wanted);
            }
            Err(ClientError::Closed(reason)) => return Some(reason.to_string()),
            Err(error @ (ClientError::Io { .. } | ClientError::Http { .. })) => {
                return Some(error.to_string());
            }
            Err(error) => {
                tracing::warn!(upstream = upstream.name, %error, "lists cannot be fetched anew; the old ones stay");
                upstream.freshness.done(&wanted);
            }
        }
    }
}

/// A setting for a tool that is not there is most likely a typing error, and would otherwise go unnoticed.
fn warn_of_unknown_tools(upstream: &Upstream, listing: &Listing) {
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    for tool in upstream.config.tools.keys().filter(|tool| !names.contains(&tool.as_str())) {
        let nearest = nearest(tool, &names);
        tracing::warn!(
            upstream = upstream.name,
            tool,
            nearest,
            "the configuration names a tool that the upstream does not have"
        );
    }
}

impl Stale {
    fn of(notification: &ServerNotification) -> Self {
        let method = &*notification.method;
        Self {
            tools: method == "notifications/tools/list_changed",
            prompts: method == "notifications/prompts/list_changed",
            resources: method == "notifications/resources/list_changed",
        }
    }

    fn these(lists: &[List]) -> Self {
        Self {
            tools: lists.contains(&List::Tools),
            prompts: lists.contains(&List::Prompts),
            resources: lists.contains(&List::Resources),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
        }
    }
}

/// Fetches the stale lists that the server says it has. Only a failing list of tools is an error.
async fn fetch(
    client: &Client,
    upstream: &Upstream,
    stale: Stale,
    listing: &mut Listing,
) -> Result<(), ClientError> {
    let capabilities = &client.server().capabilities;
    if stale.tools && capabilities.tools.is_some() {
        let fetched = client.fetch_tools().await?;
        upstream.freshness.note(List::Tools, fetched.cache);
        listing.tools = fetched.items;
    }
    if stale.prompts && capabilities.prompts.is_some() {
        let prompts = client.fetch_prompts().await;
        upstream.freshness.note(List::Prompts, cache_of(client, &prompts));
        let prompts = prompts.map(|fetched| fetched.items);
        listing.prompts = optional(upstream, "prompts", prompts, &mut listing.left_out)?;
    }
    if stale.resources && capabilities.resources.is_some() {
        let resources = client.fetch_resources().await;
        upstream.freshness.note(List::Resources, cache_of(client, &resources));
        let resources = resources.map(|fetched| fetched.items);
        listing.resources = optional(upstream, "resources", resources, &mut listing.left_out)?;
        let templates = client.fetch_resource_templates().await;
        upstream.freshness.note_part(List::Resources, cache_of(client, &templates));
        let templates = templates.map(|fetched| fetched.items);
        let left_out = &mut listing.left_out;
        listing.templates = optional(upstream, "resource templates", templates, left_out)?;
    }
    Ok(())
}

/// How long a list may be kept, if its upstream says so.
fn cache_of<T>(client: &Client, fetched: &Result<Fetched<T>, ClientError>) -> Option<CacheHint> {
    match fetched {
        Ok(fetched) => fetched.cache,
        Err(ClientError::Rpc(error)) if error.code == error_code::METHOD_NOT_FOUND => None,
        // The list that is left out, or the old one, is good for no time.
        Err(_) => (client.server().revision.era() == Era::Stateless).then(CacheHint::default),
    }
}

/// A list that an upstream can be used without.
fn optional<T>(
    upstream: &Upstream,
    list: &'static str,
    fetched: Result<Vec<T>, ClientError>,
    left_out: &mut Vec<(&'static str, String)>,
) -> Result<Vec<T>, ClientError> {
    left_out.retain(|(known, _)| *known != list);
    match fetched {
        // Servers that declare resources often know no templates.
        Err(ClientError::Rpc(error)) if error.code == error_code::METHOD_NOT_FOUND => {
            tracing::debug!(upstream = upstream.name, list, "list is unknown to the upstream");
            Ok(Vec::new())
        }
        Err(error @ (ClientError::Rpc(_) | ClientError::Protocol(_))) => {
            tracing::warn!(upstream = upstream.name, list, %error, "list is left out");
            left_out.push((list, error.to_string()));
            Ok(Vec::new())
        }
        fetched => fetched,
    }
}

/// How long [`Gateway::stop`] waits for all upstreams: closing, terminating and killing have this long each.
pub(super) fn stop_limit(grace: Duration) -> Duration {
    grace.saturating_mul(3).saturating_add(Duration::from_secs(1))
}
