//! The instances of an upstream that run, and the keys by which requests find them.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use marquetry_in_flight::Owner;
use marquetry_protocol::{
    RpcError,
    server::{Announcer, Caller, RequestContext},
};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::task::TaskTracker;

use super::options::{Isolation, UpstreamOptions};

/// The instances of one upstream.
pub(crate) struct Instances<U> {
    isolation: Isolation,
    pub(crate) max: usize,
    /// One for each process.
    pub(crate) permits: Arc<Semaphore>,
    table: Mutex<InstanceTable<U>>,
    /// The restarts of instances that have ended. Changes while the table is locked.
    pub(crate) ended_restarts: AtomicU32,
    /// Makes the ids of sessions unique.
    random: RandomState,
}

/// The instances that run, `U`, by their owners.
pub(crate) struct InstanceTable<U> {
    pub(crate) running: HashMap<Owner, RunningInstance<U>>,
    /// Whether a task looks for instances to end.
    pub(crate) is_swept: bool,
}

/// An instance that runs.
pub(crate) struct RunningInstance<U> {
    pub(crate) upstream: Arc<U>,
    /// The session that it belongs to; `None` if it belongs to a caller.
    pub(crate) session: Option<Announcer>,
    /// When it was last seen in use.
    pub(crate) last_use: Instant,
}

/// Facts that make an upstream an instance of another one.
pub(crate) struct InstanceOf {
    /// Identifies the instance in logs. No two instances have the same one.
    pub(crate) number: u32,
    /// Whose requests it answers.
    pub(crate) owner: Owner,
    /// The value of `${instance:id}`.
    pub(crate) id: String,
    /// Its processes.
    pub(crate) children: TaskTracker,
}

/// The caller or session that an instance is for.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) owner: Owner,
    pub(crate) session: Option<Announcer>,
}

/// Number of instances by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstanceCount {
    /// Instances that answer requests.
    pub ready: usize,
    /// Instances that start, or wait for their next start.
    pub not_ready: usize,
    /// The most instances at one time (`max_instances`).
    pub max: usize,
}

impl<U> Instances<U> {
    /// Creates the instances of an upstream with these options; `None` if all callers share it.
    pub(crate) fn of(options: &UpstreamOptions) -> Option<Self> {
        let max = options.max_instances.max(1);
        (options.isolation != Isolation::Shared).then(|| Self {
            isolation: options.isolation,
            max,
            permits: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            table: Mutex::new(InstanceTable { running: HashMap::new(), is_swept: false }),
            ended_restarts: AtomicU32::new(0),
            random: RandomState::new(),
        })
    }

    /// Returns the key of a request.
    ///
    /// # Errors
    /// Returns an error if each session has an instance, and the request has neither a session nor
    /// a token: clients without them cannot be told apart.
    pub(crate) fn key(&self, upstream: &str, cx: &RequestContext) -> Result<Key, RpcError> {
        let caller = Key { owner: Owner::Caller(cx.caller().clone()), session: None };
        if self.isolation != Isolation::Session {
            return Ok(caller);
        }
        if let Some(session) = cx.announcer() {
            let owner = Owner::Session(cx.conversation());
            return Ok(Key { owner, session: Some(session) });
        }
        // A pipe has one client, so it counts as one session.
        match cx.caller() {
            Caller::Principal(_) | Caller::Local => Ok(caller),
            _ => Err(RpcError::invalid_request(format!(
                "upstream '{upstream}' has an instance for each session (isolation = \"session\"), and this request has neither a session nor a token; send a token, or use a revision of MCP with sessions"
            ))),
        }
    }

    /// Returns whether requests may have this key, also if those of the options before had others.
    pub(crate) fn may_have(&self, owner: &Owner) -> bool {
        !matches!(
            (self.isolation, owner),
            (Isolation::Principal, Owner::Session(_))
                | (Isolation::Session, Owner::Caller(Caller::Address(_)))
        )
    }

    /// Returns the instance of a request, if it runs.
    pub(crate) fn existing(&self, cx: &RequestContext) -> Option<Arc<U>> {
        let key = self.key("", cx).ok()?;
        self.running(&key.owner)
    }

    pub(crate) fn running(&self, owner: &Owner) -> Option<Arc<U>> {
        self.table().running.get(owner).map(|running| running.upstream.clone())
    }

    /// Returns the instances that run.
    pub(crate) fn all(&self) -> Vec<Arc<U>> {
        self.table().running.values().map(|running| running.upstream.clone()).collect()
    }

    /// Returns the value of `${instance:id}` for an owner.
    pub(crate) fn id(&self, owner: &Owner) -> String {
        const CONTEXT: &str = "marquetry 2026-11-29 gateway instance id 1";
        let name = match owner {
            // The same after a restart of this server, so that a program can keep a file for each.
            Owner::Caller(Caller::Principal(principal)) => format!("principal {}", principal.id()),
            Owner::Caller(Caller::Address(address)) => format!("address {address}"),
            Owner::Caller(_) => "local".to_owned(),
            Owner::Session(session) => format!("session {}", self.random.hash_one(session)),
        };
        let hash = blake3::Hash::from(blake3::derive_key(CONTEXT, name.as_bytes())).to_hex();
        hash[..32].to_owned()
    }

    pub(crate) fn table(&self) -> MutexGuard<'_, InstanceTable<U>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InstanceOf {
    pub(crate) fn new(owner: Owner, id: String) -> Self {
        // Not counted for each upstream: one that replaces another must not repeat its numbers.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { number, owner, id, children: TaskTracker::new() }
    }
}

#[cfg(test)]
mod tests {
    use marquetry_protocol::server::Principal;

    use super::*;
    use crate::options::Transport;

    fn instances(isolation: Isolation) -> Option<Instances<()>> {
        let mut options = UpstreamOptions::new("a", Transport::stdio("x", [""; 0]));
        options.isolation = isolation;
        Instances::of(&options)
    }

    #[test]
    fn a_shared_upstream_has_no_instances() {
        assert!(instances(Isolation::Shared).is_none());
        assert_eq!(instances(Isolation::Session).unwrap().max, 16);
    }

    #[test]
    fn ids_tell_principals_apart_and_do_not_name_them() {
        fn principal(subject: &str) -> Owner {
            let principal = Principal::new(None, subject).with_scopes(["x"]);
            Owner::Caller(Caller::Principal(Arc::new(principal)))
        }
        let one = instances(Isolation::Principal).unwrap();
        let other = instances(Isolation::Principal).unwrap();
        let anna = one.id(&principal("../anna"));
        assert_eq!(anna, other.id(&principal("../anna")), "the same in the next run");
        assert_ne!(anna, one.id(&principal("bert")));
        assert_ne!(one.id(&principal("local")), one.id(&Owner::Caller(Caller::Local)));
        assert!(anna.len() == 32 && anna.chars().all(|c| c.is_ascii_hexdigit()), "{anna}");
    }
}
