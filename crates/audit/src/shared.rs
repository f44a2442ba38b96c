//! What callers and the writer share.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::{AuditOptions, LineHash, queue::Queue};

/// What callers and the writer share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) options: AuditOptions,
    status: Mutex<WriterStatus>,
}

/// What the writer reports.
#[derive(Debug, Default)]
pub(crate) struct WriterStatus {
    pub(crate) lines: u64,
    pub(crate) dropped: u64,
    pub(crate) lost: u64,
    pub(crate) rotations: u64,
    pub(crate) last: Option<(u64, LineHash)>,
    /// Why the last attempt to write failed.
    pub(crate) problem: Option<String>,
    /// When the write began that has not returned yet.
    pub(crate) writing_since: Option<Instant>,
}

impl Shared {
    pub(crate) fn new(queue: Queue, options: AuditOptions) -> Self {
        Self { queue, options, status: Mutex::default() }
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, WriterStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
