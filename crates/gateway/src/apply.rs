//! Changes the upstreams of a running gateway.
//!
//! - The gateway has a snapshot of its upstreams in the order of the configuration
//!   ([`UpstreamSet`]). Each has a number that belongs to its name and is never used for another
//!   name. The catalog, resource links, subscriptions and pages keep numbers, so that they stay
//!   valid when an upstream is replaced; a number without an upstream leads nowhere.
//! - New options that need no new connection, such as those of names, captures and times, replace
//!   the old ones in place. For other options a new [`Upstream`] with the same number takes the
//!   place of the old one.
//! - A request enters its upstream under the lock of the snapshot, and holds an [`InUse`] until it
//!   has its answer. A replaced upstream ends when no request holds one, so that calls finish where
//!   they began. Its connection has a reference to it, not a number: questions of an old call reach
//!   the old call.
//! - The new upstream shows the lists of the old one until it has its own, as after a start with
//!   known tools, and calls wait for it as after a lost connection. Clients see no gap.
//! - At most [`MAX_ENDING`] replaced upstreams of one name wait for their calls. Beyond that the
//!   oldest ends with its calls, so that a configuration that changes every second cannot pile up
//!   processes.

use std::sync::{Arc, PoisonError};

use super::{Gateway, Upstream, UpstreamOptions, supervise::supervise, upstream_set::UpstreamSet};

/// Maximum number of replaced upstreams of one name that wait for their calls.
const MAX_ENDING: usize = 4;

/// What [`Gateway::apply`] has changed: the names of upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Upstreams that start, since they are new or no longer disabled.
    pub added: Vec<String>,
    /// Upstreams that are gone.
    pub removed: Vec<String>,
    /// Upstreams that are disabled, or cannot be used as they are configured now.
    pub stopped: Vec<String>,
    /// Upstreams that start again with their new options.
    pub restarted: Vec<String>,
    /// Upstreams whose new options needed no new connection.
    pub updated: Vec<String>,
}

impl Applied {
    /// Returns whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Gateway {
    /// Makes these the upstreams, in their order. Those that stay keep their connections, calls in
    /// flight finish where they began, and changed lists are announced. Options that belong to the
    /// whole gateway stay as they were at its start.
    pub fn apply(&self, upstreams: Vec<UpstreamOptions>) -> Applied {
        let Some(gateway) = self.me.upgrade() else { return Applied::default() };
        if self.stopping.is_cancelled() {
            return Applied::default();
        }
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.upstreams();
        let mut applied = Applied::default();
        let mut all = Vec::with_capacity(upstreams.len());
        let mut started = Vec::new();
        let mut replaced = Vec::new();
        for options in upstreams {
            let name = options.name.clone();
            let known = old.iter().find(|upstream| upstream.name() == name);
            if let Some(known) = known.filter(|it| it.settings().options.connects_like(&options)) {
                if known.set_options(options) {
                    applied.updated.push(name);
                }
                all.push(known.clone());
                continue;
            }
            let number = self.number_of(&name);
            let new = Upstream::new(number, options, &self.options, &self.stopping);
            let new = Arc::new(new);
            match known {
                Some(known) => {
                    new.succeed(known);
                    replaced.push(known.clone());
                    let changed = match (known.is_started(), new.is_started()) {
                        (_, false) => &mut applied.stopped,
                        (false, true) => &mut applied.added,
                        (true, true) => &mut applied.restarted,
                    };
                    changed.push(name);
                }
                None => applied.added.push(name),
            }
            started.push(new.clone());
            all.push(new);
        }
        for upstream in old.iter() {
            if !all.iter().any(|it| it.number() == upstream.number()) {
                applied.removed.push(upstream.name().to_owned());
                replaced.push(upstream.clone());
            }
        }
        *self.upstreams.write().unwrap_or_else(PoisonError::into_inner) = UpstreamSet::new(all);
        for upstream in started.iter().filter(|upstream| upstream.is_started()) {
            self.tasks.spawn(supervise(gateway.clone(), upstream.clone()));
            self.resume_instances(upstream);
        }
        for upstream in replaced {
            let number = upstream.number();
            ending.retain(|(_, end)| !end.is_cancelled());
            let waiting = ending.iter().filter(|(ends, _)| *ends == number).count();
            if waiting >= MAX_ENDING
                && let Some(at) = ending.iter().position(|(ends, _)| *ends == number)
                && let Some((_, oldest)) = ending.remove(at)
            {
                tracing::warn!(
                    upstream = upstream.name(),
                    "calls of a replaced upstream are cut off, since it was replaced {MAX_ENDING} more times meanwhile"
                );
                oldest.cancel();
            }
            ending.push_back((number, upstream.stopping.clone()));
            self.tasks.spawn(end_after_its_calls(upstream));
        }
        drop(ending);
        self.relist();
        if let Some(keeper) = &self.options.pin_keeper {
            keeper.wake();
        }
        applied
    }

    /// Replaces the options of one upstream, or adds it as the last one, as [`Self::apply`] does.
    pub fn apply_one(&self, options: UpstreamOptions) -> Applied {
        let upstreams = self.upstreams();
        let mut all: Vec<_> =
            upstreams.iter().map(|upstream| upstream.settings().options.clone()).collect();
        match all.iter_mut().find(|it| it.name == options.name) {
            Some(known) => *known = options,
            None => all.push(options),
        }
        self.apply(all)
    }
}

/// Ends an upstream that was replaced, when no request uses it any more.
async fn end_after_its_calls(upstream: Arc<Upstream>) {
    upstream.uses.close();
    tokio::select! {
        () = upstream.uses.wait() => {}
        () = upstream.stopping.cancelled() => {}
    }
    upstream.stopping.cancel();
}
