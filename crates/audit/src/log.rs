//! The log, as its callers use it.

use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use crate::{
    AuditError, AuditOptions, LineHash, OnError, OnFull,
    chain::{MAX_EVENT_BYTES, OWN_EVENT},
    file,
    queue::{Queue, Waiting},
    shared::Shared,
    writer::Writer,
};

/// A write that takes longer is reported as a problem.
const SLOW: Duration = Duration::from_secs(5);

/// A log. Cheap to clone; all clones write to one file.
#[derive(Clone)]
pub struct AuditLog {
    handle: Arc<Handle>,
}

/// Closes the log when the last [`AuditLog`] is dropped.
struct Handle {
    shared: Arc<Shared>,
    /// True when the writer has ended.
    ended: watch::Receiver<bool>,
}

/// The state of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditStatus {
    /// Lines that this process has written.
    pub lines: u64,
    /// Events that were dropped because the queue was full.
    pub dropped: u64,
    /// Events that could not be written.
    pub lost: u64,
    /// Events that wait for the writer.
    pub queued: usize,
    /// How often this process has rotated the file.
    pub rotations: u64,
    /// Number and hash of the last line. Keep them elsewhere to find later whether the end of the
    /// log was removed.
    pub last: Option<(u64, LineHash)>,
    /// Why lines cannot be written at present.
    pub problem: Option<String>,
}

impl AuditLog {
    /// Opens or creates a log, and writes a line with the event `log_opened`. Missing folders are
    /// created for their owner alone.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened and written, is a link, belongs to another
    /// user, is in use by another process, or is not a log.
    pub fn open(path: impl AsRef<Path>, options: AuditOptions) -> Result<Self, AuditError> {
        let path = path.as_ref();
        file::create_folder(path).map_err(|error| AuditError::open(path, &error))?;
        let queue = Queue::new(options.queue);
        let shared = Arc::new(Shared::new(queue, options));
        let writer = Writer::open(path, shared.clone())?;
        let (end, ended) = watch::channel(false);
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || {
                writer.run();
                end.send_replace(true);
            })
            .map_err(|error| AuditError::open(path, &error))?;
        Ok(Self { handle: Arc::new(Handle { shared, ended }) })
    }

    /// Checks that a log could be opened and written, and leaves everything as it is. The log may
    /// be in use.
    ///
    /// # Errors
    ///
    /// Returns an error if the path cannot be written to, or another file than a log is there.
    pub fn check(path: impl AsRef<Path>) -> Result<(), AuditError> {
        file::probe(path.as_ref())
    }

    /// Returns whether a log is open, in this process or another one. Changes nothing.
    #[must_use]
    pub fn is_in_use(path: impl AsRef<Path>) -> bool {
        file::is_locked(path.as_ref())
    }

    /// Writes an event, which is a JSON object without the members `seq`, `prev` and `time`.
    /// Returns when the kernel has its line, with [`AuditOptions::sync`] when the disk has it. With
    /// [`OnFull::Drop`] it returns at once.
    ///
    /// If the future is dropped after it was polled, the event may be written or not.
    ///
    /// # Errors
    ///
    /// Returns an error if the event is no JSON object or too long, if the log was closed, and with
    /// [`OnError::Refuse`] if the line could not be written.
    pub async fn write(&self, event: &(impl Serialize + ?Sized)) -> Result<(), AuditError> {
        let event = as_object(event)?;
        let shared = &self.handle.shared;
        let place = match shared.options.on_full {
            OnFull::Drop => return self.submit_object(event),
            OnFull::Wait => shared.queue.places.clone().acquire_owned().await,
        };
        let place = place.map_err(|_| AuditError::Closed)?;
        let (written, line) = oneshot::channel();
        self.enqueue(event, place, Some(written))?;
        match line.await {
            Ok(Err(problem)) if shared.options.on_error == OnError::Refuse => {
                Err(AuditError::Unwritable { problem })
            }
            Ok(_) => Ok(()),
            Err(_) => Err(AuditError::Closed),
        }
    }

    /// Hands an event to the writer and returns at once, for callers that cannot wait. If the queue
    /// is full, the event is dropped and counted, also with [`OnFull::Wait`].
    ///
    /// # Errors
    ///
    /// Returns an error if the event is no JSON object or too long, or if the log was closed.
    pub fn submit(&self, event: &(impl Serialize + ?Sized)) -> Result<(), AuditError> {
        self.submit_object(as_object(event)?)
    }

    fn submit_object(&self, event: Vec<u8>) -> Result<(), AuditError> {
        let shared = &self.handle.shared;
        if let Ok(place) = shared.queue.places.clone().try_acquire_owned() {
            return self.enqueue(event, place, None);
        }
        shared.status().dropped += 1;
        let is_open = shared.queue.add(|work| work.dropped += 1);
        if is_open { Ok(()) } else { Err(AuditError::Closed) }
    }

    fn enqueue(
        &self,
        event: Vec<u8>,
        place: OwnedSemaphorePermit,
        written: Option<oneshot::Sender<Result<(), String>>>,
    ) -> Result<(), AuditError> {
        let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let waiting = Waiting { time, event, written, _place: place };
        let is_open = self.handle.shared.queue.add(|work| work.events.push_back(waiting));
        if is_open { Ok(()) } else { Err(AuditError::Closed) }
    }

    /// Opens the file again before the next line, as daemons do at SIGHUP after another program has
    /// renamed it.
    pub fn reopen(&self) {
        self.handle.shared.queue.add(|work| work.reopen = true);
    }

    /// Returns an error if events would be refused now: with [`OnError::Refuse`], after a line
    /// could not be written and before the log works again. Ask before work that cannot be undone.
    ///
    /// # Errors
    ///
    /// Returns the error that [`Self::write`] would return.
    pub fn accepts(&self) -> Result<(), AuditError> {
        let shared = &self.handle.shared;
        if shared.options.on_error == OnError::GoOn {
            return Ok(());
        }
        match shared.status().problem.clone() {
            Some(problem) => Err(AuditError::Unwritable { problem }),
            None => Ok(()),
        }
    }

    /// Returns the state of the log.
    #[must_use]
    pub fn status(&self) -> AuditStatus {
        let queued = self.handle.shared.queue.len();
        let status = self.handle.shared.status();
        let slow = status.writing_since.map(|since| since.elapsed()).filter(|time| *time >= SLOW);
        let slow = slow.map(|time| format!("the disk has not answered for {} s", time.as_secs()));
        AuditStatus {
            lines: status.lines,
            dropped: status.dropped,
            lost: status.lost,
            queued,
            rotations: status.rotations,
            last: status.last,
            problem: status.problem.clone().or(slow),
        }
    }

    /// Writes the events that wait and a line with the event `log_closed`, and closes the file.
    /// Later events are refused.
    pub async fn close(&self) {
        self.handle.shared.queue.add(|work| work.close = true);
        let mut ended = self.handle.ended.clone();
        // An error means that the writer's thread is gone.
        _ = ended.wait_for(|ended| *ended).await;
    }
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.queue.add(|work| work.close = true);
    }
}

fn as_object(event: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, AuditError> {
    let event = serde_json::to_vec(event)
        .map_err(|error| AuditError::NotAnObject { problem: error.to_string() })?;
    if event.first() != Some(&b'{') {
        let problem = "it is another JSON value".to_owned();
        return Err(AuditError::NotAnObject { problem });
    }
    if event.starts_with(OWN_EVENT) {
        let problem = "names of events that begin with log_ are those of the log itself".to_owned();
        return Err(AuditError::NotAnObject { problem });
    }
    if event.len() > MAX_EVENT_BYTES {
        return Err(AuditError::TooLong { bytes: event.len(), max: MAX_EVENT_BYTES });
    }
    Ok(event)
}
