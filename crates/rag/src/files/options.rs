//! Options of indexing files.

use std::{collections::BTreeSet, num::NonZeroUsize, path::PathBuf, thread};

use crate::{ChunkOptions, ExtractLimits};

/// Options for indexing files.
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
    /// Options of chunks. A chunk has at most 512 tokens by default, because a "sentence" of source
    /// code may be very long.
    pub chunks: ChunkOptions,
    /// Limits on reading one file. `max_time` applies to every format.
    pub limits: ExtractLimits,
    /// Names or URIs of tags to add to each file. A missing tag is created from its name.
    pub tags: Vec<String>,
    /// URIs of users and groups that may read each file, besides its owner. Files that are indexed
    /// again keep the readers that they have.
    pub readers: BTreeSet<String>,
    /// Folders in which files may be indexed. If empty, every named path may be.
    pub within: Vec<PathBuf>,
    /// Files that are never indexed, such as the database itself.
    pub except: Vec<PathBuf>,
    /// Whether to index files and folders whose names begin with a dot. A named path is always
    /// indexed.
    pub hidden: bool,
    /// Whether to index files that `.gitignore` or `.ignore` in the folder or its subfolders
    /// exclude.
    pub ignored: bool,
    /// Whether to count the files before the first is read, to show the progress.
    pub count: bool,
    /// Whether to remove files from the index that were below a named path and do not exist any
    /// more.
    pub prune: bool,
    /// Whether to store and remove nothing.
    pub dry_run: bool,
    /// Whether to remember sizes and times of files, so that the next run of the same indexer opens
    /// only changed files.
    pub watch: bool,
    /// The home directory of the user. The names of groups are paths below it.
    pub home: Option<PathBuf>,
    /// Number of files that are read at the same time; by default the number of processors.
    pub workers: NonZeroUsize,
    /// Memory for all files that are read, embedded and stored at the same time, in bytes; 512 MiB
    /// by default. A file counts six times its size, and one that does not fit is read alone.
    /// [`ExtractLimits::max_unpacked_bytes_at_once`] limits the unpacked contents of compressed
    /// files.
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
            readers: BTreeSet::new(),
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
