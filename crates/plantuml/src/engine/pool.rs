//! The processes of an engine: those that draw, and those that wait for a diagram.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::process::Process;

/// At most a number of processes, of which some are idle.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    size: usize,
    /// One for each process that draws or starts. The other processes are idle.
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Process>>>,
    became_idle: Arc<Notify>,
}

/// The right to have one process outside of the pool.
#[derive(Debug)]
pub(super) struct Place {
    pool: Pool,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        let size = size.min(1 << 16);
        Self {
            size,
            places: Arc::new(Semaphore::new(size)),
            idle: Arc::default(),
            became_idle: Arc::default(),
        }
    }

    /// Waits for a place.
    pub(super) async fn place(&self) -> Place {
        let permit = self.places.clone().acquire_owned().await;
        self.holding(permit.expect("the semaphore is never closed"))
    }

    /// Returns a place if no process is idle and one is free.
    pub(super) fn empty_place(&self) -> Option<Place> {
        if !self.idle().is_empty() {
            return None;
        }
        self.places.clone().try_acquire_owned().ok().map(|permit| self.holding(permit))
    }

    /// Waits until all processes are idle, and ends them.
    pub(super) async fn clear(&self) {
        let all = self.places.acquire_many(self.size as u32).await;
        let _all = all.expect("the semaphore is never closed");
        self.idle().clear();
    }

    fn holding(&self, permit: OwnedSemaphorePermit) -> Place {
        Place { pool: self.clone(), _permit: permit }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Process>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Returns an idle process. While other processes draw or start, waits up to `wait` for one.
    pub(super) async fn idle(&self, wait: Duration) -> Option<Process> {
        let waiting = async {
            loop {
                let became_idle = self.pool.became_idle.notified();
                if let Some(process) = self.pool.idle().pop() {
                    return Some(process);
                }
                if self.is_alone() {
                    return None;
                }
                became_idle.await;
            }
        };
        timeout(wait, waiting).await.unwrap_or(None)
    }

    /// Returns whether no other process draws or starts.
    pub(super) fn is_alone(&self) -> bool {
        self.pool.places.available_permits() + 1 >= self.pool.size
    }

    /// Gives a process back for the next diagram.
    pub(super) fn keep(self, process: Process) {
        self.pool.idle().push(process);
        self.pool.became_idle.notify_waiters();
    }
}
