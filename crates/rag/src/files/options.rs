//! Options of indexing files.

use std::{num::NonZeroUsize, path::PathBuf, thread};

use crate::{ChunkOptions, ExtractLimits};

/// Options of indexing files.
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
    /// Options of chunks; at most 512 tokens each by default, because a "sentence" of a program may be very long.
    pub chunks: ChunkOptions,
    /// Limits of what reading one file may cost. `max_time` holds for every format.
    pub limits: ExtractLimits,
    /// Names or URIs of tags that each file gets, besides those that it has. A missing tag is created from its name.
    pub tags: Vec<String>,
    /// Only files in these folders are indexed; without any folder, every named path.
    pub within: Vec<PathBuf>,
    /// Files that are never indexed, such as the database.
    pub except: Vec<PathBuf>,
    /// Whether files and folders whose names begin with a dot are indexed. A named path always is.
    pub hidden: bool,
    /// Whether files are indexed that `.gitignore` or `.ignore` in the folder or its subfolders exclude.
    pub ignored: bool,
    /// Counts the files before the first is read, to show the progress.
    pub count: bool,
    /// Removes files from the index that lay below a named path and do not exist any more.
    pub prune: bool,
    /// Stores nothing and removes nothing.
    pub dry_run: bool,
    /// Remembers sizes and times of files, so that the next run of the same indexer opens only changed files.
    pub watch: bool,
    /// The home directory of the user: groups are named by the path below it.
    pub home: Option<PathBuf>,
    /// Number of files that are read at a time; by default the number of processors.
    pub workers: NonZeroUsize,
    /// Most bytes of all files that are read at a time; 512 MiB by default. A larger file is read alone. What
    /// compressed files unpack to is bounded by [`ExtractLimits::max_unpacked_bytes_at_once`].
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
