//! The file that is written: opened without following links, rotated, and repaired after a failure.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::{AuditError, tail::Tail, verify::files_of};

/// The open file of a log.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: File,
    /// Bytes in the file.
    len: u64,
}

impl LogFile {
    /// Opens or creates the file, and reads its end. The file is `None` if it is no log.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Option<Tail>)> {
        let mut file = open(path)?;
        let tail = Tail::read(&mut file)?;
        let len = file.metadata()?.len();
        Ok((Self { file, len }, tail))
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds lines. After a failure the file has the length of before, if that can be restored.
    pub(crate) fn write(&mut self, lines: &[u8], sync: bool) -> io::Result<()> {
        let written = self.file.write_all(lines);
        let written = written.and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.len += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A full disk takes a part of a line. What cannot be removed is found when the
                // file is opened again.
                _ = self.file.set_len(self.len);
                Err(error)
            }
        }
    }

    /// Returns whether the file was removed, so that lines would vanish. A file that was only
    /// renamed still has them.
    #[cfg(unix)]
    pub(crate) fn is_removed(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    #[cfg(not(unix))]
    pub(crate) fn is_removed(&self) -> bool {
        false
    }

    /// Returns whether `path` is still the name of this file.
    #[cfg(unix)]
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(named), Ok(own)) = (fs::symlink_metadata(path), self.file.metadata()) else {
            return false;
        };
        (named.dev(), named.ino()) == (own.dev(), own.ino())
    }

    #[cfg(not(unix))]
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// Opens a file to add to it, with mode 0600.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without NONBLOCK, opening a pipe would wait for its reader.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = options.open(path).map_err(|error| without_link(path, error))?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a file; name a file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        // Its owner could read, change and remove the log.
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            let problem = "belongs to another user; name another file, or change its owner";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
        }
        if metadata.mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// Replaces the system's error for a link ("too many levels of symbolic links").
fn without_link(path: &Path, error: io::Error) -> io::Error {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        let problem = "is a link, which is not followed; remove it, or name the file behind it";
        return io::Error::new(io::ErrorKind::InvalidInput, problem);
    }
    error
}

/// Locks a log for this process until the file is dropped. The lock is not on the log itself, which
/// is renamed when it is rotated.
pub(crate) fn lock(path: &Path) -> Result<File, AuditError> {
    let lock_path = with_suffix(path, ".lock");
    let file = open(&lock_path).map_err(|error| AuditError::open(&lock_path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(AuditError::InUse { path: path.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(AuditError::open(&lock_path, &error)),
    }
}

/// Returns whether another process, or another log of this one, has locked a log.
pub(crate) fn is_locked(path: &Path) -> bool {
    let lock_path = with_suffix(path, ".lock");
    // Opening a pipe would wait for its writer.
    if !fs::symlink_metadata(&lock_path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let file = File::open(&lock_path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

/// Renames the file to `PATH.1`, `PATH.1` to `PATH.2`, and so on. The file that would become
/// `PATH.max_files` is removed.
pub(crate) fn rotate(path: &Path, max_files: usize) -> io::Result<()> {
    let kept = max_files.saturating_sub(1);
    for number in (0..kept).rev() {
        let from = if number == 0 { path.to_owned() } else { numbered(path, number) };
        match fs::rename(&from, numbered(path, number + 1)) {
            // A person may have removed an old file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && number > 0 => {}
            renamed => renamed?,
        }
    }
    if kept == 0 {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Returns the end of the newest rotated file, for a log whose file is new or empty.
pub(crate) fn end_of_rotated(path: &Path) -> io::Result<Option<Tail>> {
    let mut newest: Option<Tail> = None;
    for rotated in files_of(path)?.into_iter().filter(|file| file != path) {
        let mut file = File::open(&rotated)?;
        if let Some(tail) = Tail::read(&mut file)?
            && let Some(end) = tail.end
            && newest.as_ref().and_then(|it| it.end).is_none_or(|best| best.seq < end.seq)
        {
            newest = Some(tail);
        }
    }
    Ok(newest)
}

/// Creates the folder of a log and the missing ones above it, for their owner alone.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Checks that a log could be opened here, and changes nothing.
pub(crate) fn probe(path: &Path) -> Result<(), AuditError> {
    if fs::symlink_metadata(path).is_ok() {
        let (_, tail) = LogFile::open(path).map_err(|error| AuditError::open(path, &error))?;
        tail.ok_or_else(|| AuditError::NotALog { path: path.to_owned() })?;
    }
    let above = path.parent().unwrap_or(Path::new("."));
    let folder = above.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let trial = folder.join(format!(".audit-check-{}", std::process::id()));
    let created = OpenOptions::new().write(true).create_new(true).open(&trial);
    let removed = created.and_then(|_| fs::remove_file(&trial));
    removed.map_err(|error| AuditError::open(path, &error))
}

/// Returns the path of a rotated file.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    with_suffix(path, &format!(".{number}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
