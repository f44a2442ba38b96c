//! The queue between callers and the writer's thread.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// An event that waits for the writer.
pub(crate) struct Waiting {
    /// The time of the event, as it is written.
    pub(crate) time: String,
    /// A JSON object.
    pub(crate) event: Vec<u8>,
    /// The caller that waits for the line.
    pub(crate) written: Option<oneshot::Sender<Result<(), String>>>,
    /// A place in the queue.
    pub(crate) _place: OwnedSemaphorePermit,
}

/// The queue. Its places are those of a semaphore, which callers can wait for.
pub(crate) struct Queue {
    work: Mutex<Work>,
    /// Signalled when there is work.
    has_work: Condvar,
    pub(crate) places: Arc<Semaphore>,
}

/// What the writer has to do.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) events: VecDeque<Waiting>,
    /// Events that were dropped because the queue was full, and are not in the log yet.
    pub(crate) dropped: u64,
    /// The file must be opened again.
    pub(crate) reopen: bool,
    /// No further events come.
    pub(crate) close: bool,
}

impl Work {
    fn is_some(&self) -> bool {
        !self.events.is_empty() || self.dropped > 0 || self.reopen || self.close
    }
}

impl Queue {
    pub(crate) fn new(places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)));
        Self { work: Mutex::default(), has_work: Condvar::new(), places }
    }

    /// Adds to the work of the writer. Returns false if the log was closed.
    pub(crate) fn add(&self, add: impl FnOnce(&mut Work)) -> bool {
        let mut work = self.lock();
        if work.close {
            return false;
        }
        add(&mut work);
        drop(work);
        self.has_work.notify_one();
        true
    }

    /// Waits for work, at most for this time, and takes it.
    pub(crate) fn take(&self, at_most: Option<Duration>) -> Work {
        let mut work = self.lock();
        match at_most {
            None => {
                while !work.is_some() {
                    work = self.has_work.wait(work).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Some(time) if !work.is_some() => {
                let waited = self.has_work.wait_timeout(work, time);
                work = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            Some(_) => {}
        }
        let close = work.close;
        mem::replace(&mut work, Work { close, ..Work::default() })
    }

    /// Returns the number of events that wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().events.len()
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
