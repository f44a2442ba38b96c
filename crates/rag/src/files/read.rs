//! Reads a file in a consistent state.

use std::{
    fs::File,
    io::Read as _,
    thread,
    time::{Duration, SystemTime},
};

use cap_std::fs::OpenOptions;

use super::{location::special, problem::FileProblem, walk::ListedFile};
use crate::ExtractLimits;

/// The bytes of a file, with their hash and time.
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    /// BLAKE3 hash of the bytes, in hexadecimal.
    pub(super) hash: String,
    pub(super) modified: Option<SystemTime>,
}

/// Size and times of a file. At least one of them changes with the content, because programs cannot
/// set the time of the last change of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(file: &File) -> Result<Self, FileProblem> {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(FileProblem::Special("directory"));
        }
        if let Some(what) = special(metadata.file_type()) {
            return Err(FileProblem::Special(what));
        }
        Ok(Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt as _;
                (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
            },
        })
    }
}

impl Stamp {
    /// Returns whether the last change is so recent that another change might leave the same stamp.
    fn is_fresh(&self) -> bool {
        #[cfg(unix)]
        let changed = {
            let (_, _, seconds, nanoseconds) = self.inode;
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            let nanoseconds = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
            Some(SystemTime::UNIX_EPOCH + seconds + nanoseconds)
        };
        #[cfg(not(unix))]
        let changed = self.modified;
        // A time in the future comes from another clock.
        changed
            .and_then(|changed| SystemTime::now().duration_since(changed).ok())
            .is_some_and(|age| age < TICK)
    }
}

/// Opens a file below its root without following links. Never waits for the writer of a pipe.
fn open(found: &ListedFile) -> Result<File, FileProblem> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        // A named pipe may have replaced the file.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    Ok(found.root.dir.open_with(&found.relative, &options)?.into_std())
}

/// Returns the present stamp of a file.
pub(super) fn stamp(found: &ListedFile) -> Result<Stamp, FileProblem> {
    Stamp::of(&open(found)?)
}

/// Resolution of the times of files: two changes within it may leave the same time.
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of attempts to read a changing file.
const ATTEMPTS: usize = 4;

/// Reads a file. Refuses a file that is too large. Reads a file again if it changes meanwhile, and
/// refuses it after several attempts.
pub(super) fn read(
    found: &ListedFile,
    limits: &ExtractLimits,
) -> Result<(Contents, Stamp), FileProblem> {
    for _ in 0..ATTEMPTS {
        let mut file = open(found)?;
        let before = Stamp::of(&file)?;
        if before.is_fresh() {
            thread::sleep(TICK);
            continue;
        }
        limits.check_bytes(before.bytes)?;
        let mut bytes = Vec::with_capacity(usize::try_from(before.bytes).unwrap_or(0));
        // Files of the kernel report a length of 0.
        (&mut file).take(limits.max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        limits.check_bytes(bytes.len() as u64)?;
        if Stamp::of(&file)? == before {
            let hash = blake3::hash(&bytes).to_hex().to_string();
            return Ok((Contents { bytes, hash, modified: before.modified }, before));
        }
    }
    Err(FileProblem::Changing)
}
