//! Options of a log.

use std::time::Duration;

/// Options of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditOptions {
    /// Size at which a file is rotated, in bytes. `None`: the log never rotates its file, so that
    /// another program such as logrotate can do it.
    pub max_file_bytes: Option<u64>,
    /// Number of files, with the one that is written. At least 1, which keeps no rotated file.
    pub max_files: usize,
    /// Number of events that wait for the writer.
    pub queue: usize,
    /// What happens to an event when the queue is full.
    pub on_full: OnFull,
    /// What happens to an event when it cannot be written.
    pub on_error: OnError,
    /// Writes each batch of lines to the disk before their callers continue, so that a power
    /// failure loses none of them.
    pub sync: bool,
    /// Interval between attempts to write again after a failure.
    pub retry: Duration,
}

/// What happens to an event when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// The caller waits.
    #[default]
    Wait,
    /// The event is dropped and counted. Callers never wait, not even for their line.
    Drop,
}

/// What happens to an event when it cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is counted, and the caller continues.
    #[default]
    GoOn,
    /// It is counted, and the caller gets an error.
    Refuse,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            max_file_bytes: Some(64 << 20),
            max_files: 8,
            queue: 4_096,
            on_full: OnFull::Wait,
            on_error: OnError::GoOn,
            sync: false,
            retry: Duration::from_secs(1),
        }
    }
}

impl AuditOptions {
    /// Sets the size at which a file is rotated; see [`Self::max_file_bytes`].
    #[must_use]
    pub fn with_max_file_bytes(self, max_file_bytes: Option<u64>) -> Self {
        Self { max_file_bytes, ..self }
    }

    /// Sets the number of files, with the one that is written.
    #[must_use]
    pub fn with_max_files(self, max_files: usize) -> Self {
        Self { max_files, ..self }
    }

    /// Sets the number of events that wait for the writer.
    #[must_use]
    pub fn with_queue(self, queue: usize) -> Self {
        Self { queue, ..self }
    }

    /// Sets what happens to an event when the queue is full.
    #[must_use]
    pub fn with_on_full(self, on_full: OnFull) -> Self {
        Self { on_full, ..self }
    }

    /// Sets what happens to an event when it cannot be written.
    #[must_use]
    pub fn with_on_error(self, on_error: OnError) -> Self {
        Self { on_error, ..self }
    }

    /// Sets whether lines are written to the disk before their callers continue.
    #[must_use]
    pub fn with_sync(self, sync: bool) -> Self {
        Self { sync, ..self }
    }

    /// Sets the interval between attempts to write again after a failure.
    #[must_use]
    pub fn with_retry(self, retry: Duration) -> Self {
        Self { retry, ..self }
    }
}
