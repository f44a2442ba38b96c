//! One file, read as it was at one moment.

use std::{
    fs::File,
    io::Read as _,
    thread,
    time::{Duration, SystemTime},
};

use cap_std::fs::OpenOptions;

use super::{place::special, problem::FileProblem, walk::Found};
use crate::ExtractLimits;

/// A file's bytes, and what they were taken from.
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    /// Of the bytes, in hexadecimal.
    pub(super) hash: String,
    pub(super) modified: Option<SystemTime>,
}

/// What changes with a file's content; its length and times cannot all be kept while the content changes, as nobody
/// sets the time of the last change of its inode.
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
    /// Whether the last change was so short ago that another one might look the same.
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
        // What lies in the future was set by another clock, and tells nothing.
        changed
            .and_then(|changed| SystemTime::now().duration_since(changed).ok())
            .is_some_and(|age| age < TICK)
    }
}

/// Opens a file below its root, whatever links there are by now, and never waits for somebody to write.
fn open(found: &Found) -> Result<File, FileProblem> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt as _;
        // A named pipe may have taken the place of the file.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    Ok(found.root.dir.open_with(&found.relative, &options)?.into_std())
}

/// What the file is like now.
pub(super) fn stamp(found: &Found) -> Result<Stamp, FileProblem> {
    Stamp::of(&open(found)?)
}

/// How coarse the times of files may be: a change within the same tick as the one before it leaves no trace.
const TICK: Duration = Duration::from_millis(20);
/// How often a file is tried that changes all the time.
const ATTEMPTS: usize = 4;

/// Reads a file. One that is too large is not read at all; one that changes meanwhile is read again, and then refused.
pub(super) fn read(
    found: &Found,
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
        // Files of the kernel say that they have no length.
        (&mut file).take(limits.max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        limits.check_bytes(bytes.len() as u64)?;
        if Stamp::of(&file)? == before {
            let hash = blake3::hash(&bytes).to_hex().to_string();
            return Ok((Contents { bytes, hash, modified: before.modified }, before));
        }
    }
    Err(FileProblem::Changing)
}
