//! The lock of the file of pins, which several programs change.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::PinError;

/// Time after which a lock is reported. Its holder needs some milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Locks the pins in a file for this process, until the returned file is dropped.
pub(crate) fn lock(path: &Path) -> Result<File, PinError> {
    let lock_path = lock_path(path);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options
        .open(&lock_path)
        .map_err(|source| PinError::Io { path: lock_path.clone(), source })?;
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(PinError::Locked { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => {
                return Err(PinError::Io { path: lock_path, source });
            }
        }
    }
}

/// Returns the path of the lock, which is not on the file itself, because that is replaced.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
