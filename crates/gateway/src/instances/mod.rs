//! Instances of an upstream, one for each caller or session, so that none sees the state of
//! another.
//!
//! An upstream with [`Isolation`](super::Isolation) is started as any other. Its lists are shown to
//! all callers, and no request of a caller is sent to it. Requests go to instances. Each is an
//! [`Upstream`] with the same number and name, and with a connection of its own: what is kept for
//! one connection, such as calls in flight, the log level and lines of standard error, is kept for
//! one instance. [`Key`] says which one is for a request.
//!
//! - The first request of a key starts its instance, and waits for it. `supervise` restarts it as
//!   it restarts other upstreams.
//! - An instance ends when its session has ended, or after it was idle for some time, or when
//!   another key needs its place: then the one that has been idle the longest ends. One that
//!   answers a request or has subscribers never ends for these reasons.
//! - Each process holds a permit until it has exited. So there are never more processes than
//!   places, also while some end slowly.
//! - When the options change, the instances of the old upstream end after their calls.

mod subscribers;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use marquetry_protocol::{RpcError, server::RequestContext};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument as _;

pub(crate) use self::subscribers::InstanceSubscribers;
use super::{
    Gateway, Upstream, UpstreamState,
    instance_table::{InstanceOf, Instances, Key, RunningInstance},
    supervise::supervise,
    upstream_set::InUse,
};

/// Why an instance ends.
const IDLE: &str = "it was idle (instance_idle_ms)";
const SESSION_ENDED: &str = "its session has ended";
const REPLACED: &str = "another one needs its place (max_instances)";

/// Longest time between two searches for instances to end.
const MAX_SWEEP_PAUSE: Duration = Duration::from_secs(1);

impl Gateway {
    /// Enters the instance for a request, and starts it if it does not run. Returns `None` if all
    /// callers share the upstream.
    ///
    /// # Errors
    /// Returns an error if the request cannot have an instance, or if all instances are in use.
    pub(super) fn enter_instance(
        &self,
        reference: &InUse,
        cx: &RequestContext,
    ) -> Result<Option<InUse>, RpcError> {
        let Some(instances) = &reference.instances else { return Ok(None) };
        let key = instances.key(reference.name(), cx)?;
        let (instance, token) = self.use_instance(reference, instances, key)?;
        Ok(Some(InUse::of_instance(instance, token, reference)))
    }

    /// Starts the instances that have subscribers, after an upstream was replaced.
    pub(super) fn resume_instances(&self, reference: &Arc<Upstream>) {
        let Some(instances) = &reference.instances else { return };
        for key in self.instance_subscribers.keys(reference.number()) {
            if instances.may_have(&key.owner)
                && let Err(error) = self.use_instance(reference, instances, key)
            {
                tracing::warn!(upstream = reference.name(), %error, "subscriptions are not continued");
            }
        }
    }

    /// Returns the instance of a key with a token that keeps it from ending.
    fn use_instance(
        &self,
        reference: &Arc<Upstream>,
        instances: &Instances<Upstream>,
        key: Key,
    ) -> Result<(Arc<Upstream>, TaskTrackerToken), RpcError> {
        let mut table = instances.table();
        if let Some(running) = table.running.get_mut(&key.owner) {
            running.last_use = Instant::now();
            return Ok((running.upstream.clone(), running.upstream.uses.token()));
        }
        if table.running.len() >= instances.max {
            let idle = table.running.iter().filter(|(_, running)| !self.is_in_use(running));
            let idlest = idle.min_by_key(|(_, running)| running.last_use);
            let Some(owner) = idlest.map(|(owner, _)| owner.clone()) else {
                return Err(RpcError::too_many_requests(format!(
                    "upstream '{}': all {} instances are in use (max_instances of this server); try again later",
                    reference.name(),
                    instances.max
                )));
            };
            if let Some(idlest) = table.running.remove(&owner) {
                end(instances, &idlest, REPLACED);
            }
        }
        let id = instances.id(&key.owner);
        let upstream = Arc::new(reference.new_instance(key.owner.clone(), id, &self.options));
        let token = upstream.uses.token();
        let running = RunningInstance {
            upstream: upstream.clone(),
            session: key.session,
            last_use: Instant::now(),
        };
        table.running.insert(key.owner, running);
        if let Some(gateway) = self.me.upgrade() {
            let permits = instances.permits.clone();
            self.tasks.spawn(run(gateway.clone(), upstream.clone(), permits));
            if !std::mem::replace(&mut table.is_swept, true) {
                self.tasks.spawn(sweep(gateway, reference.clone()));
            }
        }
        Ok((upstream, token))
    }

    fn is_in_use(&self, running: &RunningInstance<Upstream>) -> bool {
        let RunningInstance { upstream, .. } = running;
        !upstream.uses.is_empty() || self.instance_subscribers.has(upstream)
    }

    /// Ends the instances that are not needed any more. Returns whether some are left.
    fn end_idle_instances(&self, reference: &Upstream, instances: &Instances<Upstream>) -> bool {
        let idle_time = reference.settings().options.instance_idle;
        let now = Instant::now();
        let mut table = instances.table();
        table.running.retain(|_, running| {
            if self.is_in_use(running) {
                running.last_use = now;
                return true;
            }
            let has_ended = running.session.as_ref().is_some_and(|it| !it.is_connected());
            let is_idle = now.duration_since(running.last_use) >= idle_time;
            if has_ended || is_idle {
                end(instances, running, if has_ended { SESSION_ENDED } else { IDLE });
            }
            !has_ended && !is_idle
        });
        table.is_swept = !table.running.is_empty();
        table.is_swept
    }
}

/// Runs an instance until it ends and its processes have exited.
async fn run(gateway: Arc<Gateway>, upstream: Arc<Upstream>, permits: Arc<Semaphore>) {
    let Some(InstanceOf { number, children, .. }) = &upstream.instance else { return };
    let permit = tokio::select! {
        biased;
        () = upstream.stopping.cancelled() => None,
        permit = permits.acquire_owned() => permit.ok(),
    };
    if permit.is_none() {
        upstream.set_state(UpstreamState::Stopped);
        return;
    }
    let span = tracing::info_span!("instance", number);
    supervise(gateway, upstream.clone()).instrument(span).await;
    children.close();
    children.wait().await;
    drop(permit);
}

/// Ends instances that are not needed any more, until none is left.
async fn sweep(gateway: Arc<Gateway>, reference: Arc<Upstream>) {
    let Some(instances) = &reference.instances else { return };
    loop {
        let idle_time = reference.settings().options.instance_idle;
        let pause = (idle_time / 4).clamp(Duration::from_millis(20), MAX_SWEEP_PAUSE);
        tokio::select! {
            biased;
            () = reference.stopping.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        if !gateway.end_idle_instances(&reference, instances) {
            return;
        }
    }
}

/// Ends an instance that was taken out of the table, which is still locked.
fn end(instances: &Instances<Upstream>, running: &RunningInstance<Upstream>, why: &str) {
    let upstream = &running.upstream;
    instances.ended_restarts.fetch_add(upstream.restarts(), Ordering::Relaxed);
    let instance = upstream.instance.as_ref().map(|it| it.number);
    tracing::info!(upstream = upstream.name(), instance, why, "an instance ends");
    upstream.stopping.cancel();
}
