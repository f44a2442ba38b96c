//! Indexes files and folders.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use super::{
    FileEvent, FileOptions, FileOutcome, FileProblem, IncompleteFile, IndexError, IndexReport,
    location::{Target, path_of, resolved},
    read::{FileReader, ReadFile, Stamp, result_of},
    walk::{MissingFile, PathKey, Scope, WalkEntry, Walked, find_unlisted, key, walk},
    writer::{BATCH_BYTES, FileWriter, PreparedFile},
};
use crate::{Caller, Pipeline, Records};

/// Indexes files on behalf of a caller, as records of the type `data.data` whose content is the
/// text of the file.
///
/// Files are identified by their paths. An unchanged file is skipped, and a changed one is replaced
/// as a whole. If a run is stopped or the process is killed, each file has all its chunks or none;
/// the next run indexes the rest.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::sync::Arc;
/// use marquetry_rag::{
///     Caller, EmbeddingModel, FileOptions, Indexer, MemoryRecords, MemoryStore, Pipeline, Records, SearchRequest, StaticModel,
/// };
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("bread.md"), "# Bread\n\nBread is made of flour and water.")?;
/// let store = Arc::new(MemoryStore::new(EmbeddingModel::default()));
/// let pipeline = Pipeline::new(store, Arc::new(StaticModel::built_in()))?;
/// let records = Records::new(Arc::new(MemoryRecords::default()));
/// let me = Caller::new("default", "me")?;
///
/// let mut indexer = Indexer::new(pipeline.clone(), Arc::new(records), me, FileOptions::default());
/// let report = indexer.run(&[folder.path().into()], |_| ()).await?;
/// assert_eq!(report.indexed, 1);
///
/// let hits = pipeline.search(SearchRequest::new("What is in bread?", None)).await?;
/// assert_eq!(hits[0].kind.as_deref(), Some("data.data"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Indexer {
    reader: Arc<FileReader>,
    writer: FileWriter,
    /// The files that were read, if they are watched.
    checked: HashMap<PathKey, CheckedFile>,
}

/// A file that need not be read again while its stamp is unchanged.
struct CheckedFile {
    stamp: Stamp,
    /// The reason if it was not indexed.
    problem: Option<Arc<FileProblem>>,
}

/// Version of the indexing. A new version makes the next run index all files again, as when chunks
/// got the starts of pages (3) and documents their structure (4).
const VERSION: u32 = 4;
/// Maximum number of entries that the walk may be ahead of the workers.
const QUEUE: usize = 256;
/// Maximum number of chunks, files and bytes of text in one transaction. A transaction has a fixed
/// cost, and its files are in memory until then.
const BATCH_CHUNKS: usize = 2_048;
const BATCH_FILES: usize = 64;
/// Longest time for which a finished file waits for others of its transaction, so that a killed
/// process loses little.
const BATCH_TIME: Duration = Duration::from_secs(2);

impl Indexer {
    /// Creates an indexer that stores files as records of the caller.
    ///
    /// It needs a Tokio runtime with timers.
    pub fn new(
        pipeline: Pipeline,
        records: Arc<Records>,
        caller: Caller,
        options: FileOptions,
    ) -> Self {
        let writer = FileWriter::new(pipeline.clone(), records, caller.clone(), options.clone());
        let chunks = &options.chunks;
        let max = chunks.max_tokens.map_or(0, std::num::NonZeroUsize::get);
        let settings = format!(
            "{VERSION} {:?} {}/{} {max} {}",
            chunks.strategy, chunks.size, chunks.overlap, chunks.max_bytes
        );
        // A semaphore of Tokio has at most 2^29 - 1 permits on 32-bit machines, so they count KiB.
        let room = (options.max_bytes_at_once >> 10).clamp(1, u64::from(u32::MAX >> 4));
        let room = Arc::new(Semaphore::new(usize::try_from(room).unwrap_or(1)));
        let tags = BTreeSet::new();
        let reader = Arc::new(FileReader { pipeline, caller, options, settings, tags, room });
        Self { reader, writer, checked: HashMap::new() }
    }

    /// Indexes files and folders, by paths or `file:` URIs, and reports the outcome of each file to
    /// `watch`.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails; files that were stored before stay. Problems of
    /// single files are not errors: the report has them.
    pub async fn run(
        &mut self,
        arguments: &[OsString],
        watch: impl FnMut(&FileEvent<'_>),
    ) -> Result<IndexReport, IndexError> {
        self.run_until(arguments, watch, std::future::pending()).await
    }

    /// Indexes as [`Self::run`] does, until `stop` completes. Then finished files are stored, the
    /// other files are left to the next run, no files are removed from the index, and
    /// [`IndexReport::stopped`] is true.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::run`] would.
    pub async fn run_until(
        &mut self,
        arguments: &[OsString],
        watch: impl FnMut(&FileEvent<'_>),
        stop: impl Future<Output = ()>,
    ) -> Result<IndexReport, IndexError> {
        let mut stop = pin!(stop);
        let mut run = Run::new(watch);
        let tags = self.writer.begin().await?;
        // Tags are looked up in each run: a user may have removed one between two rounds of a
        // watch.
        self.reader = Arc::new(FileReader { tags, ..FileReader::clone(&self.reader) });
        let targets = Arc::new(self.open_targets(arguments, &mut run));

        if self.reader.options.count {
            tokio::select! {
                () = &mut stop => {
                    run.report.stopped = true;
                    return Ok(run.end());
                }
                files = Arc::clone(&self.reader).count(Arc::clone(&targets)) => {
                    (run.watch)(&FileEvent::Counted(files));
                }
            }
        }

        let (send, found) = mpsc::channel(QUEUE);
        let reader = Arc::clone(&self.reader);
        let walking = tokio::task::spawn_blocking(move || walk(&targets, &reader.options, &send));
        self.index_found(found, &mut run, stop.as_mut()).await?;
        // A stopped run does not wait for the walk, which ends because its receiver is dropped.
        // Without a whole walk it is unknown which files are missing.
        if !run.report.stopped {
            let walked = result_of(walking.await);
            self.remove_missing(&walked, &mut run, stop).await?;
        }
        Ok(run.end())
    }

    /// Opens the named paths. Reports those that cannot be indexed.
    fn open_targets<W: FnMut(&FileEvent<'_>)>(
        &self,
        arguments: &[OsString],
        run: &mut Run<W>,
    ) -> Vec<Target> {
        let mut targets = Vec::new();
        for argument in arguments {
            match self.target(argument) {
                Ok(target) => {
                    run.named.extend(target.file.is_some().then(|| key(&target.path())));
                    run.scopes.push(Scope::new(target.path()));
                    targets.push(target);
                }
                Err((path, problem)) => {
                    let outcome = FileOutcome::Refused(&problem);
                    (run.watch)(&FileEvent::Done { path: &path, is_named: true, outcome });
                    run.report.refuse(path, problem.into());
                }
            }
        }
        targets
    }

    /// Opens a named path.
    fn target(&self, argument: &OsStr) -> Result<Target, (PathBuf, FileProblem)> {
        let path = path_of(argument).map_err(|problem| (PathBuf::from(argument), problem))?;
        let opened = Target::open(&path, &self.reader.options.within);
        opened.map_err(|problem| match problem {
            // The path of the link, and not of its target.
            FileProblem::Link => (std::path::absolute(&path).unwrap_or(path), problem),
            problem => (resolved(&path), problem),
        })
    }

    /// Indexes the files that a walk finds: reads several at a time, and stores them in batches.
    async fn index_found<W: FnMut(&FileEvent<'_>)>(
        &mut self,
        mut found: mpsc::Receiver<WalkEntry>,
        run: &mut Run<W>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), IndexError> {
        let workers = self.reader.options.workers.get();
        let mut work = JoinSet::new();
        let mut batch = Batch::default();
        let mut is_listed = false;
        while !is_listed || !work.is_empty() {
            let read = tokio::select! {
                () = &mut stop => {
                    // Dropping `work` aborts the files that are still being read. The batch is
                    // finished, so it is stored below.
                    run.report.stopped = true;
                    break;
                }
                () = tokio::time::sleep_until(batch.until()), if !batch.files.is_empty() => {
                    self.store(&mut batch, run).await?;
                    continue;
                }
                // While all workers are busy, entries wait in the queue, and the walk behind it.
                entry = found.recv(), if !is_listed && work.len() < workers => match entry {
                    Some(Ok(file)) => {
                        (run.watch)(&FileEvent::Found);
                        let known = self.checked.get(&key(&file.path())).map(|file| file.stamp);
                        work.spawn(Arc::clone(&self.reader).work(file, known));
                        continue;
                    }
                    Some(Err((path, problem))) => {
                        (run.watch)(&FileEvent::Found);
                        ReadFile { path, stamp: None, outcome: Err(problem) }
                    }
                    None => {
                        is_listed = true;
                        (run.watch)(&FileEvent::Listed);
                        continue;
                    }
                },
                Some(read) = work.join_next() => result_of(read),
            };
            self.add(read, &mut batch, run)?;
            if batch.is_full() || (is_listed && work.is_empty()) {
                self.store(&mut batch, run).await?;
            }
        }
        self.store(&mut batch, run).await
    }

    /// Reports a file that was read, and adds it to the batch if it has new content.
    fn add<W: FnMut(&FileEvent<'_>)>(
        &mut self,
        read: ReadFile,
        batch: &mut Batch,
        run: &mut Run<W>,
    ) -> Result<(), IndexError> {
        let ReadFile { path, stamp, outcome } = read;
        let outcome = match outcome {
            // Each further file would fail as well. Other problems concern only this file.
            Err(FileProblem::Store(error)) => return Err(error.into()),
            outcome => outcome.map_err(Arc::new),
        };
        if let Some(stamp) = stamp.filter(|_| self.reader.options.watch) {
            let problem = outcome.as_ref().err().cloned();
            self.checked.insert(key(&path), CheckedFile { stamp, problem });
        }
        match outcome {
            Ok(Some(prepared)) => {
                run.add(&prepared);
                batch.push(*prepared);
            }
            Ok(None) => {
                // A file that was not read again has the problem that it had before.
                let checked = self.checked.get(&key(&path));
                if let Some(problem) = checked.and_then(|checked| checked.problem.clone()) {
                    run.refuse(path, problem);
                } else {
                    run.report.unchanged += 1;
                    run.done(&path, FileOutcome::Unchanged);
                }
            }
            Err(problem) => run.refuse(path, problem),
        }
        Ok(())
    }

    /// Stores a batch and empties it. Corrects the report for files whose records were refused.
    async fn store<W: FnMut(&FileEvent<'_>)>(
        &mut self,
        batch: &mut Batch,
        run: &mut Run<W>,
    ) -> Result<(), IndexError> {
        for (file, problem) in self.writer.store(std::mem::take(batch).files).await? {
            // The next run reads it again.
            self.checked.remove(&key(&file.path));
            run.subtract(&file);
            run.refuse(file.path, problem.into());
        }
        Ok(())
    }

    /// Reports indexed files that do not exist any more, and with
    /// [`prune`](FileOptions::prune) removes them from the index.
    async fn remove_missing<W: FnMut(&FileEvent<'_>)>(
        &mut self,
        walked: &Walked,
        run: &mut Run<W>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), IndexError> {
        let options = &self.reader.options;
        let unlisted =
            find_unlisted(&self.reader.pipeline, &self.reader.caller, &run.scopes, walked).await?;
        run.report.excluded = unlisted.excluded;
        for MissingFile { path, uri } in unlisted.missing {
            if options.prune {
                if !options.dry_run {
                    tokio::select! {
                        // A run that was stopped begins no other removal.
                        biased;
                        () = &mut stop => {
                            run.report.stopped = true;
                            break;
                        }
                        removed = self.writer.remove(&uri) => removed?,
                    }
                }
                run.report.removed += 1;
                run.done(&path, FileOutcome::Removed);
            } else {
                run.report.left += 1;
            }
            self.checked.remove(&key(&path));
            if run.report.gone.len() < IndexReport::MAX_NAMED {
                run.report.gone.push(path);
            }
        }
        Ok(())
    }
}

/// A run of an indexer: its report so far, and the function that watches it.
struct Run<W> {
    started: Instant,
    report: IndexReport,
    watch: W,
    /// The files that were named themselves.
    named: HashSet<PathKey>,
    /// The named paths.
    scopes: Vec<Scope>,
}

impl<W: FnMut(&FileEvent<'_>)> Run<W> {
    fn new(watch: W) -> Self {
        Self {
            started: Instant::now(),
            report: IndexReport::default(),
            watch,
            named: HashSet::new(),
            scopes: Vec::new(),
        }
    }

    fn end(mut self) -> IndexReport {
        self.report.end(self.started);
        self.report
    }

    /// Passes the outcome of a file to the watcher.
    fn done(&mut self, path: &Path, outcome: FileOutcome<'_>) {
        let is_named = self.named.contains(&key(path));
        (self.watch)(&FileEvent::Done { path, is_named, outcome });
    }

    /// Reports a file that is not indexed.
    fn refuse(&mut self, path: PathBuf, problem: Arc<FileProblem>) {
        self.done(&path, FileOutcome::Refused(&problem));
        self.report.refuse(path, problem);
    }

    /// Reports a file with new content.
    fn add(&mut self, file: &PreparedFile) {
        let chunks = file.chunks.len() as u64;
        self.report.chunks += chunks;
        self.report.bytes += file.bytes;
        if !file.losses.is_empty() {
            let incomplete =
                IncompleteFile { path: file.path.clone(), losses: file.losses.clone() };
            (self.watch)(&FileEvent::Incomplete(&incomplete));
            self.report.add_incomplete(incomplete);
        }
        let outcome = if file.is_new {
            self.report.indexed += 1;
            FileOutcome::Indexed(chunks)
        } else {
            self.report.changed += 1;
            FileOutcome::Changed(chunks)
        };
        self.done(&file.path, outcome);
    }

    /// Takes a file out of the numbers of the report.
    fn subtract(&mut self, file: &PreparedFile) {
        self.report.chunks -= file.chunks.len() as u64;
        self.report.bytes -= file.bytes;
        self.report.remove_incomplete(&file.path);
        if file.is_new {
            self.report.indexed -= 1;
        } else {
            self.report.changed -= 1;
        }
    }
}

/// Files that are stored in one transaction.
#[derive(Default)]
struct Batch {
    files: Vec<PreparedFile>,
    chunks: usize,
    bytes: usize,
    /// The time at which the first of them was finished.
    since: Option<tokio::time::Instant>,
}

impl Batch {
    fn push(&mut self, file: PreparedFile) {
        self.since.get_or_insert_with(tokio::time::Instant::now);
        self.chunks += file.chunks.len();
        self.bytes += file.extracted.content.len();
        self.files.push(file);
    }

    /// Returns the time by which they must be stored.
    fn until(&self) -> tokio::time::Instant {
        self.since.unwrap_or_else(tokio::time::Instant::now) + BATCH_TIME
    }

    fn is_full(&self) -> bool {
        self.chunks >= BATCH_CHUNKS || self.files.len() >= BATCH_FILES || self.bytes >= BATCH_BYTES
    }
}
