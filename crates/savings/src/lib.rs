#![doc = include_str!("../README.md")]

mod day;
mod file;
mod totals;

use std::{
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use marquetry_database::DatabaseError;
use tokio::sync::{mpsc, oneshot};

pub use crate::{day::Day, totals::SavingsRow};
use crate::{file::SavingsFile, totals::Totals};

/// Days for which figures are kept.
pub const MAX_DAYS: u32 = 400;

/// Time between two writes of the file; a crash loses the figures of this time.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// Figures that wait for the task.
const MAX_WAITING: usize = 4_096;

/// The bytes and tokens that one answer kept from a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// Id of the caller; none without authentication.
    pub owner: Option<String>,
    /// The tool, by the name that agents use.
    pub tool: String,
    /// Bytes of the answer that the model did not get.
    pub bytes: u64,
    /// Estimated tokens of the answer that the model did not get.
    pub tokens: u64,
}

/// The figures of this process and, with a file, those of earlier ones. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Savings {
    sender: mpsc::Sender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    totals: Mutex<Totals>,
    dropped: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Add(Saving),
    /// Answered when all earlier figures are added and written.
    Flush(oneshot::Sender<()>),
}

impl Savings {
    /// Starts to count, with the figures of a file if there is one. The file is created with the
    /// first figure. A file that cannot be used is reported in the log, and figures then last as
    /// long as the process.
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    #[must_use]
    pub fn start(file: Option<&Path>) -> Self {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let shared = Arc::new(Shared::default());
        tokio::spawn(count(receiver, shared.clone(), file.map(SavingsFile::new)));
        Self { sender, shared }
    }

    /// Adds the figures of one answer. Never waits.
    pub fn add(&self, saving: Saving) {
        if self.sender.try_send(Message::Add(saving)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all earlier figures are added, and written if there is a file.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).await.is_ok() {
            // The task ends with the runtime.
            _ = written.await;
        }
    }

    /// Returns the figures of one caller for the last `days` days, newest first; `None` is the
    /// caller without authentication.
    #[must_use]
    pub fn rows(&self, owner: Option<&str>, days: u32) -> Vec<SavingsRow> {
        self.shared.totals().rows(Some(owner.unwrap_or_default()), Day::today().before(days))
    }

    /// Returns the figures of all callers together for the last `days` days, newest first.
    #[must_use]
    pub fn rows_of_all(&self, days: u32) -> Vec<SavingsRow> {
        self.shared.totals().rows(None, Day::today().before(days))
    }

    /// Returns the sum of the figures that this process has added.
    #[must_use]
    pub fn of_this_run(&self) -> SavingsRow {
        self.shared.totals().of_this_run()
    }
}

impl Shared {
    fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the rows of a file, of all callers together, for the last `days` days, newest first.
///
/// # Errors
///
/// Returns an error if the file cannot be read. A missing or empty file has no rows.
pub async fn read(file: &Path, days: u32) -> Result<Vec<SavingsRow>, DatabaseError> {
    // A server that has created its file may not have written to it yet.
    if !file.exists() || file.metadata().is_ok_and(|found| found.is_file() && found.len() == 0) {
        return Ok(Vec::new());
    }
    let mut totals = Totals::default();
    totals.load(SavingsFile::new(file).read().await?);
    Ok(totals.rows(None, Day::today().before(days)))
}

/// Adds up figures until all senders are gone.
async fn count(
    mut receiver: mpsc::Receiver<Message>,
    shared: Arc<Shared>,
    mut file: Option<SavingsFile>,
) {
    if let Some(of_file) = &mut file {
        match of_file.load().await {
            Ok(rows) => shared.totals().load(rows),
            Err(error) => {
                tracing::warn!(%error, "the file of savings cannot be used; savings are counted until the server ends");
                file = None;
            }
        }
    }
    let mut ticks = tokio::time::interval(WRITE_INTERVAL);
    loop {
        let waiting = tokio::select! {
            message = receiver.recv() => match message {
                Some(Message::Add(saving)) => {
                    shared.totals().add(saving, Day::today());
                    continue;
                }
                Some(Message::Flush(done)) => Some(done),
                None => {
                    write(&shared, file.as_mut()).await;
                    return;
                }
            },
            _ = ticks.tick() => None,
        };
        write(&shared, file.as_mut()).await;
        if let Some(done) = waiting {
            // The caller may have gone.
            _ = done.send(());
        }
    }
}

/// Writes the figures since the last write.
async fn write(shared: &Shared, file: Option<&mut SavingsFile>) {
    let dropped = shared.dropped.swap(0, Ordering::Relaxed);
    if dropped > 0 {
        tracing::warn!(dropped, "figures of savings were dropped, because too many waited");
    }
    let rows = shared.totals().take_unwritten();
    let Some(file) = file.filter(|_| !rows.is_empty()) else { return };
    if let Err(error) = file.add(rows.clone()).await {
        tracing::warn!(%error, "savings cannot be written; the next write tries again");
        shared.totals().put_back(rows);
    }
}

#[cfg(test)]
mod tests;
