//! Log levels of upstreams: the lowest level that any agent wants. Each agent gets the messages of
//! its own level.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use marquetry_in_flight::Owner;
use marquetry_protocol::{
    Era,
    client::{CallOptions, Client},
    server::{Announcer, Caller, ConversationId, RequestContext},
    types::LogLevel,
};
use serde_json::{json, value::to_raw_value};

use super::{Gateway, Upstream, UpstreamState};

/// Time limit for setting the log level of an upstream.
const LEVEL_PATIENCE: Duration = Duration::from_secs(1);

/// The levels that sessions have asked for.
#[derive(Default)]
pub(crate) struct Levels {
    sessions: Mutex<HashMap<ConversationId, SessionLevel>>,
}

struct SessionLevel {
    announcer: Announcer,
    caller: Caller,
    level: LogLevel,
}

impl Levels {
    fn set(&self, session: ConversationId, level: SessionLevel) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, it| it.announcer.is_connected());
        sessions.insert(session, level);
    }

    /// Returns the lowest level that an agent of the upstream has asked for, if any has.
    fn lowest(&self, upstream: &Upstream) -> Option<LogLevel> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let open = sessions.iter().filter(|(session, it)| {
            let is_meant = match upstream.instance.as_ref().map(|instance| &instance.owner) {
                None => true,
                Some(Owner::Session(owner)) => owner == *session,
                Some(Owner::Caller(owner)) => *owner == it.caller,
            };
            is_meant && it.announcer.is_connected()
        });
        open.map(|(_, it)| it.level).min()
    }
}

impl Gateway {
    /// Sets the log level of a session's agent.
    pub async fn set_log_level(&self, level: LogLevel, cx: &RequestContext) {
        let Some(announcer) = cx.announcer() else { return };
        let caller = cx.caller().clone();
        self.levels.set(cx.conversation(), SessionLevel { announcer, caller, level });
        // An upstream with instances is not called itself.
        let own = self
            .upstreams()
            .iter()
            .filter_map(|upstream| match &upstream.instances {
                None => Some(upstream.clone()),
                Some(instances) => instances.existing(cx),
            })
            .collect::<Vec<_>>();
        let ready = own.iter().filter_map(|upstream| match upstream.state() {
            UpstreamState::Ready(client) => Some((upstream, client, self.levels.lowest(upstream)?)),
            _ => None,
        });
        let all = ready.map(async |(upstream, client, lowest)| {
            upstream.want_level(&client, lowest).await;
        });
        futures_util::future::join_all(all).await;
    }

    /// Sets the level of an upstream that has just started.
    pub(super) async fn set_level_again(&self, upstream: &Upstream, client: &Client) {
        upstream.forget_level();
        if let Some(lowest) = self.levels.lowest(upstream) {
            upstream.want_level(client, lowest).await;
        }
    }

    /// Sets the level that the agent of a call wants. A stateless upstream gets the level with each
    /// call.
    pub(super) async fn level_for(
        &self,
        upstream: &Upstream,
        client: &Client,
        cx: &RequestContext,
    ) {
        if cx.revision().era() == Era::Stateless
            && let Some(level) = cx.log_level()
            && upstream.level().is_none_or(|set| level < set)
        {
            upstream.want_level(client, level).await;
        }
    }
}

impl Upstream {
    /// Sets the level of an upstream with a session; a stateless one gets it with each call.
    async fn want_level(&self, client: &Client, level: LogLevel) {
        let server = client.server();
        if server.revision.era() == Era::Stateless
            || server.capabilities.logging.is_none()
            || self.level() == Some(level)
        {
            return;
        }
        let Ok(params) = to_raw_value(&json!({ "level": level })) else { return };
        // Calls do not wait long, and a level without an answer is not sent again with each call.
        self.set_level(level);
        let set = client.request("logging/setLevel", Some(&params), CallOptions::default());
        match tokio::time::timeout(LEVEL_PATIENCE, set).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::debug!(upstream = self.name(), %error, "failed to set the log level");
            }
            Err(_) => tracing::debug!(
                upstream = self.name(),
                "the upstream did not set the log level in time"
            ),
        }
    }
}
