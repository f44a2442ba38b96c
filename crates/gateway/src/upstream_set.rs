//! The upstreams of a gateway, which change while it runs, and the requests that use them.

use std::{
    collections::VecDeque,
    ops::Deref,
    sync::{Arc, PoisonError},
};

use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use super::{Gateway, Upstream};

/// The upstreams of a gateway at one time, in the order of the configuration.
pub(crate) struct UpstreamSet(Arc<[Arc<Upstream>]>);

impl UpstreamSet {
    pub(crate) fn new(upstreams: Vec<Arc<Upstream>>) -> Self {
        Self(upstreams.into())
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Arc<[Arc<Upstream>]> {
        self.0.clone()
    }

    /// Returns the one with this number.
    fn get(&self, number: usize) -> Option<&Arc<Upstream>> {
        // Until the first change, the numbers are the positions.
        let at_position = self.0.get(number).filter(|upstream| upstream.number() == number);
        at_position.or_else(|| self.0.iter().find(|upstream| upstream.number() == number))
    }
}

/// An upstream with a request that uses it. It does not end by a change of the configuration.
#[derive(Clone)]
pub(crate) struct InUse {
    upstream: Arc<Upstream>,
    _token: TaskTrackerToken,
    /// If it is an instance: keeps the upstream that it belongs to.
    _reference: Option<TaskTrackerToken>,
}

impl InUse {
    /// Returns an instance of the upstream `reference`, with a token of its own.
    pub(crate) fn of_instance(
        instance: Arc<Upstream>,
        token: TaskTrackerToken,
        reference: &Self,
    ) -> Self {
        let reference = Some(reference.uses.token());
        Self { upstream: instance, _token: token, _reference: reference }
    }
}

impl Deref for InUse {
    type Target = Arc<Upstream>;

    fn deref(&self) -> &Arc<Upstream> {
        &self.upstream
    }
}

/// The replaced upstreams of one name that wait for their calls, the oldest first.
pub(crate) type Ending = VecDeque<(usize, CancellationToken)>;

impl Gateway {
    /// Returns the upstream with this number.
    #[must_use]
    pub fn upstream(&self, number: usize) -> Option<Arc<Upstream>> {
        let upstreams = self.upstreams.read().unwrap_or_else(PoisonError::into_inner);
        upstreams.get(number).cloned()
    }

    /// Enters an upstream for a request.
    pub(super) fn enter(&self, number: usize) -> Option<InUse> {
        let upstreams = self.upstreams.read().unwrap_or_else(PoisonError::into_inner);
        let upstream = upstreams.get(number)?.clone();
        // Under the lock: an upstream that is replaced afterwards waits for this request.
        let token = upstream.uses.token();
        Some(InUse { upstream, _token: token, _reference: None })
    }

    /// Returns the name of the upstream with this number.
    pub(super) fn name_of(&self, number: usize) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(number).cloned().unwrap_or_default()
    }

    /// Returns the number of a name, which is the same as long as the gateway runs.
    pub(super) fn number_of(&self, name: &str) -> usize {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })
    }
}
