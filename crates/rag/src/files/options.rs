//! How files are indexed.

use std::{num::NonZeroUsize, path::PathBuf, thread};

use crate::{ChunkOptions, ExtractLimits};

/// How files are indexed.
///
/// ```
/// use marquetry_rag::FileOptions;
///
/// let mut options = FileOptions::default();
/// options.prune = true;
/// assert!(!options.hidden);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileOptions {
    /// How their text is cut; 512 tokens at most by default, since a "sentence" of a program may be very long.
    pub chunks: ChunkOptions,
    /// How much one file may cost. `max_time` holds for every format, by the clock.
    pub limits: ExtractLimits,
    /// Names or URIs of tags that each file gets, beside those that it has. A name that is no tag yet becomes one.
    pub tags: Vec<String>,
    /// Folders that nothing outside of may be indexed; without any, what is named may be.
    pub within: Vec<PathBuf>,
    /// Files that are never indexed: those of the database.
    pub except: Vec<PathBuf>,
    /// Also files and folders whose names begin with a dot; what is named itself always is.
    pub hidden: bool,
    /// Also what `.gitignore` and `.ignore` of the folder or of those in it say that is to be ignored.
    pub ignored: bool,
    /// Counts the files before the first is read, for whoever shows how far it is.
    pub count: bool,
    /// Removes what lay below what is named and is there no more.
    pub prune: bool,
    /// Keeps nothing and removes nothing.
    pub dry_run: bool,
    /// Remembers what files are like, so that the next run opens only those that have changed.
    pub watch: bool,
    /// Where the user is at home, as groups are called by what lies below it.
    pub home: Option<PathBuf>,
    /// How many files are worked on at a time; as many as there are processors by default.
    pub workers: NonZeroUsize,
    /// How many bytes the files may have that are worked on at a time; 512 MiB by default. One that is larger is
    /// worked on alone.
    pub max_bytes_at_once: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        let max_tokens = Some(ChunkOptions::USUAL_TOKENS);
        let chunks = ChunkOptions { max_tokens, ..ChunkOptions::default() };
        Self {
            chunks,
            limits: ExtractLimits::default(),
            tags: Vec::new(),
            within: Vec::new(),
            except: Vec::new(),
            hidden: false,
            ignored: false,
            count: false,
            prune: false,
            dry_run: false,
            watch: false,
            home: None,
            workers: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            max_bytes_at_once: 512 << 20,
        }
    }
}
