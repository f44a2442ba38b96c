//! Calls that wait for a stateless agent to come back with its answers.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use marquetry_protocol::{
    RpcError,
    server::{
        Caller,
        fair::{FairBounds, FairLimiter, Slot},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::options::GatewayLimits;

/// Member of an error's data with the kind of the failure.
pub(crate) const FAILURE_KIND: &str = "marquetry/failure";

/// The waiting calls: limited in number, shared between callers, and each for a limited time.
pub(crate) struct ParkedCalls<C> {
    calls: Mutex<HashMap<Handle, Entry<C>>>,
    room: FairLimiter,
    time: Duration,
    /// Handles of another process are invalid here.
    process: u64,
    next: AtomicU64,
}

/// Key of a waiting call. It is part of the sealed `requestState`, which is valid for the same
/// request only, and it works once: each wait has a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Handle {
    process: u64,
    number: u64,
}

struct Entry<C> {
    call: C,
    _expiry: AbortOnDropHandle<()>,
}

/// The slot of one waiting call. Its first question takes it, and the end of the call frees it.
pub(super) struct ParkingSlot {
    all: FairLimiter,
    caller: Caller,
    mine: Mutex<Option<Slot>>,
}

impl<C: Send + 'static> ParkedCalls<C> {
    pub(super) fn new(limits: &GatewayLimits) -> Self {
        let bounds = FairBounds {
            what: "calls wait for answers of their clients",
            total_setting: "limits.max_parked_calls",
            per_caller_setting: "limits.max_parked_calls_per_caller",
            total: limits.max_parked_calls,
            per_caller: limits.max_parked_calls_per_caller,
            queued: 0,
            wait: Duration::ZERO,
        };
        Self {
            calls: Mutex::default(),
            room: FairLimiter::new(bounds),
            time: limits.question_time,
            process: RandomState::new().hash_one(0),
            next: AtomicU64::new(0),
        }
    }

    pub(super) fn room(&self, caller: &Caller) -> ParkingSlot {
        ParkingSlot { all: self.room.clone(), caller: caller.clone(), mine: Mutex::default() }
    }

    pub(super) fn next_handle(&self) -> Handle {
        Handle { process: self.process, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// Stores a call. After the time limit it is dropped, which cancels it at its upstream.
    pub(super) fn put(self: &Arc<Self>, handle: Handle, call: C) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let parked = Arc::downgrade(self);
        let time = self.time;
        let expiry = runtime.spawn(async move {
            tokio::time::sleep(time).await;
            if let Some(parked) = parked.upgrade() {
                let late = parked.lock().remove(&handle);
                if late.is_some() {
                    tracing::info!(
                        "a client did not return with its answers in time; its call is cancelled"
                    );
                }
            }
        });
        self.lock().insert(handle, Entry { call, _expiry: AbortOnDropHandle::new(expiry) });
    }

    /// Removes and returns a call, once.
    ///
    /// # Errors
    /// Returns an error if it is missing: it was taken before, or has expired.
    pub(super) fn take(&self, handle: Handle) -> Result<C, RpcError> {
        let entry = self.lock().remove(&handle);
        entry.map(|entry| entry.call).ok_or_else(|| {
            RpcError::invalid_params(
                "requestState is of a call that no longer waits: it was answered before, took too long, or its upstream's server has restarted; send the request without it",
            )
        })
    }

    /// Drops all calls.
    pub(super) fn clear(&self) {
        let calls = std::mem::take(&mut *self.lock());
        drop(calls);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Handle, Entry<C>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ParkingSlot {
    /// # Errors
    /// Returns an error if no slot is free; the error names the limit.
    pub(super) fn take(&self) -> Result<(), RpcError> {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        if mine.is_some() {
            return Ok(());
        }
        let slot = self.all.try_enter(&self.caller, 1).map_err(|full| {
            RpcError::too_many_requests(full.to_string())
                // A later try may work, unlike after exceeding a limit of size.
                .with_data(&json!({ FAILURE_KIND: "unavailable" }))
        })?;
        *mine = Some(slot);
        Ok(())
    }
}
