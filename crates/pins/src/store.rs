//! The pins of a running server, and changes of their file.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::SystemTime,
};

use crate::{
    AcceptedPin, Definition, PinError, PinEvent, PinFile, Verdict, file::create_folder_of,
    lock::lock, record::record, snapshot::Snapshot,
};

/// The pins in a file that other programs change, too.
#[derive(Debug)]
pub struct PinStore {
    path: PathBuf,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Locked while the file is read or changed.
    stamp: Mutex<Stamp>,
    /// Why the file could not be read or written last.
    problem: RwLock<Option<String>>,
}

/// Time, length and (on Unix) number of a file, which differ once it was replaced.
type Stamp = Option<(SystemTime, u64, u64)>;

impl PinStore {
    /// Reads the pins in a file, which need not exist. If it cannot be read, each definition has
    /// the verdict [`Verdict::Unknown`] until [`Self::refresh`] can read it.
    #[must_use]
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let stamp = stamp(&path);
        let read = PinFile::read(&path);
        let problem = read.as_ref().err().map(ToString::to_string);
        Self {
            snapshot: RwLock::new(Arc::new(Snapshot::of(&read.unwrap_or_default()))),
            stamp: Mutex::new(stamp),
            problem: RwLock::new(problem),
            path,
        }
    }

    /// Returns why the pins cannot be read or written at present. The text names the file.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Compares definitions of a server with their pins, without I/O. Returns a verdict for each.
    #[must_use]
    pub fn verdicts(&self, server: &str, definitions: &[Definition]) -> Vec<Verdict> {
        let snapshot = self.snapshot();
        let has_problem = self.problem().is_some();
        let verdicts = definitions.iter().map(|it| match snapshot.verdict(server, it) {
            // Trusted now and not pinned, it would be trusted whatever it becomes.
            Verdict::FirstSight if has_problem => Verdict::Unknown,
            verdict => verdict,
        });
        verdicts.collect()
    }

    /// Returns whether definitions of a server wait to be accepted, without I/O.
    #[must_use]
    pub fn has_waiting(&self, server: &str) -> bool {
        self.snapshot().has_waiting(server)
    }

    /// Pins the definitions of lists that were never seen before, and stores those that differ from
    /// their pins. Returns the latter, if they are not stored already. Blocks.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read or written; it then stays as it
    /// is.
    pub fn record(
        &self,
        server: &str,
        definitions: &[Definition],
    ) -> Result<Vec<PinEvent>, PinError> {
        let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = change(&self.path, |file| {
            let recorded = record(file, server, definitions);
            Ok((recorded.is_changed, recorded.events))
        });
        match recorded {
            Ok((file, events)) => {
                *known = stamp(&self.path);
                self.replace(&file);
                Ok(events)
            }
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        }
    }

    /// Reads the file again if it was replaced. Returns the definitions that were accepted since;
    /// `None` if it was not replaced. Blocks.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read; the old pins then stay.
    pub fn refresh(&self) -> Result<Option<Vec<PinEvent>>, PinError> {
        let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        let found = stamp(&self.path);
        if *known == found {
            return Ok(None);
        }
        *known = found;
        let file = PinFile::read(&self.path).inspect_err(|error| self.fail(error))?;
        let old = self.snapshot();
        self.replace(&file);
        Ok(Some(self.snapshot().accepted_since(&old, &file)))
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, file: &PinFile) {
        let snapshot = Arc::new(Snapshot::of(file));
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn fail(&self, error: &PinError) {
        let problem = Some(error.to_string());
        *self.problem.write().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// Pins definitions that wait, in the file of this path. Blocks.
///
/// # Errors
/// Returns an error if one of them no longer waits with the same hash, or if the file cannot be
/// changed. Then no pin is changed.
pub fn accept(path: &Path, accepted: &[AcceptedPin]) -> Result<(), PinError> {
    let changed = change(path, |file| {
        for AcceptedPin { server, kind, name, hash } in accepted {
            let pin = file.pin_mut(server, *kind, name);
            let pin = pin.filter(|pin| pin.waiting.as_ref().is_some_and(|it| it.hash == *hash));
            let Some(pin) = pin else {
                return Err(PinError::ChangedMeanwhile {
                    server: server.clone(),
                    kind: *kind,
                    name: name.clone(),
                });
            };
            pin.accepted = pin.waiting.take();
        }
        Ok((!accepted.is_empty(), ()))
    });
    changed.map(drop)
}

/// Removes the pins of a server, so that its next definitions are trusted. Blocks.
///
/// # Errors
/// Returns an error if the server has no pins, or if the file cannot be changed.
pub fn forget(path: &Path, server: &str) -> Result<(), PinError> {
    let changed = change(path, |file| match file.servers.remove(server) {
        Some(_) => Ok((true, ())),
        None => Err(PinError::UnknownServer { server: server.to_owned() }),
    });
    changed.map(drop)
}

/// Reads a file, changes its pins, and writes it if they have changed, while no other program does.
fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut PinFile) -> Result<(bool, T), PinError>,
) -> Result<(PinFile, T), PinError> {
    create_folder_of(path)?;
    let _lock = lock(path)?;
    let mut file = PinFile::read(path)?;
    let (is_changed, outcome) = change(&mut file)?;
    if is_changed {
        file.write(path)?;
    }
    Ok((file, outcome))
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let number = 0;
    Some((metadata.modified().ok()?, metadata.len(), number))
}
