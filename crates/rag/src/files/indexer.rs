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
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::{JoinError, JoinSet},
};

use super::{
    FileEvent, FileOptions, FileOutcome, FileProblem, IndexError, IndexReport,
    identity::of_path,
    location::{Target, path_of, resolved},
    prune::{self, MissingFile, Scope},
    read::{self, Contents, Stamp},
    walk::{ListedFile, PathKey, WalkEntry, Walked, count, key, walk},
    writer::{self, FileWriter, PreparedFile},
};
use crate::{
    Caller, Document, Extracted, Hint, NewChunk, Pipeline, RecordError, Records, Stop, extract,
};

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
    shared: Arc<Shared>,
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

/// The data that the workers share.
#[derive(Clone)]
struct Shared {
    pipeline: Pipeline,
    caller: Caller,
    options: FileOptions,
    /// The options that affect chunks, besides the file itself.
    settings: String,
    /// URIs of the tags of each file.
    tags: BTreeSet<String>,
    /// Kibibytes that are free of [`FileOptions::max_bytes_at_once`].
    room: Arc<Semaphore>,
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
const BATCH_BYTES: usize = 16 << 20;
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
        let most = chunks.max_tokens.map_or(0, std::num::NonZeroUsize::get);
        let settings = format!(
            "{VERSION} {:?} {}/{} {most} {}",
            chunks.strategy, chunks.size, chunks.overlap, chunks.max_bytes
        );
        let room = (options.max_bytes_at_once >> 10).clamp(1, u64::from(u32::MAX >> 4));
        let room = Arc::new(Semaphore::new(usize::try_from(room).unwrap_or(1)));
        let tags = BTreeSet::new();
        let shared = Arc::new(Shared { pipeline, caller, options, settings, tags, room });
        Self { shared, writer, checked: HashMap::new() }
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
        self.shared = Arc::new(Shared { tags, ..Shared::clone(&self.shared) });
        let targets = Arc::new(self.open_targets(arguments, &mut run));

        if self.shared.options.count {
            tokio::select! {
                () = &mut stop => {
                    run.report.stopped = true;
                    return Ok(run.end());
                }
                files = Arc::clone(&self.shared).count(Arc::clone(&targets)) => {
                    (run.watch)(&FileEvent::Counted(files));
                }
            }
        }

        let (send, found) = mpsc::channel(QUEUE);
        let shared = Arc::clone(&self.shared);
        let walking = tokio::task::spawn_blocking(move || walk(&targets, &shared.options, &send));
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
        let opened = Target::open(&path, &self.shared.options.within);
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
        let workers = self.shared.options.workers.get();
        let mut work = JoinSet::new();
        let mut batch = Batch::default();
        let mut is_listed = false;
        while !is_listed || !work.is_empty() {
            let read = tokio::select! {
                () = &mut stop => {
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
                        work.spawn(Arc::clone(&self.shared).work(file, known));
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
        if let Some(stamp) = stamp.filter(|_| self.shared.options.watch) {
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
        let options = &self.shared.options;
        let unlisted =
            prune::find(&self.shared.pipeline, &self.shared.caller, &run.scopes, walked).await?;
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
        if file.is_new {
            self.report.indexed -= 1;
        } else {
            self.report.changed -= 1;
        }
    }
}

/// Returns the result of a task. A panic of the task goes on in the caller.
fn result_of<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
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

/// A file that a worker has read.
struct ReadFile {
    path: PathBuf,
    /// The stamp of the file, if the file need not be read again while the stamp is unchanged.
    stamp: Option<Stamp>,
    /// `None` for an unchanged file.
    outcome: Result<Option<Box<PreparedFile>>, FileProblem>,
}

/// A file that is read, with the names of its document.
#[derive(Clone, Copy)]
struct SourceFile<'a> {
    path: &'a Path,
    /// The `file:` URI.
    source: &'a str,
    /// The URI of its record.
    uri: &'a str,
    /// Whether the index has no document of it.
    is_new: bool,
}

impl Shared {
    /// Counts the files of the targets. Dropping the future ends the count.
    async fn count(self: Arc<Self>, targets: Arc<Vec<Target>>) -> u64 {
        let stop = Stop::never();
        let _caller = stop.on_drop();
        let counting = tokio::task::spawn_blocking(move || count(&targets, &self.options, &stop));
        result_of(counting.await)
    }

    async fn work(self: Arc<Self>, found: ListedFile, known: Option<Stamp>) -> ReadFile {
        let path = found.path();
        let mut stamp = None;
        let outcome = self.prepare(found, &path, known, &mut stamp).await;
        if let Err(FileProblem::Embed(_) | FileProblem::Time(_)) = &outcome {
            // The next attempt may succeed.
            stamp = None;
        }
        ReadFile { path, stamp, outcome }
    }

    /// Prepares a file to be stored; returns None if it is unchanged. Sets `stamp` once the file
    /// was read.
    async fn prepare(
        &self,
        found: ListedFile,
        path: &Path,
        known: Option<Stamp>,
        stamp: &mut Option<Stamp>,
    ) -> Result<Option<Box<PreparedFile>>, FileProblem> {
        let Some((contents, read_as, room)) = self.read(found, known).await? else {
            return Ok(None);
        };
        *stamp = Some(read_as);
        let (object_id, uri) = of_path(&self.caller, path);
        let before = self.pipeline.store().document(&uri).await?;
        if before.as_ref().is_some_and(|it| it.owner.as_ref() != Some(&self.caller.user)) {
            return Err(RecordError::Forbidden { action: "index a file into", target: uri }.into());
        }
        if before.as_ref().is_some_and(|before| self.is_unchanged(before, &contents)) {
            return Ok(None);
        }
        let is_new = before.is_none();
        let Contents { bytes, hash, modified } = contents;
        let length = bytes.len() as u64;
        let source = super::file_uri(path);
        let file = SourceFile { path, source: &source, uri: &uri, is_new };
        let (extracted, chunks) =
            self.extract_and_embed(file, bytes, room).await.map_err(|problem| {
                if is_new { problem } else { FileProblem::Kept(Box::new(problem)) }
            })?;
        if chunks.is_empty() && is_new {
            return Err(FileProblem::NoText);
        }
        Ok(Some(Box::new(PreparedFile {
            path: path.to_owned(),
            source,
            object_id,
            uri,
            extracted,
            chunks,
            hash,
            settings: self.settings.clone(),
            bytes: length,
            modified,
            is_new,
        })))
    }

    /// Reads a file, unless it has the known stamp. Waits until there is room for its bytes, which
    /// the permit holds. A file that is larger than all the room takes all of it, and is read
    /// alone.
    async fn read(
        &self,
        found: ListedFile,
        known: Option<Stamp>,
    ) -> Result<Option<(Contents, Stamp, OwnedSemaphorePermit)>, FileProblem> {
        let limits = self.options.limits;
        // Permits are numbers of 32 bits, and files may have more bytes.
        let kibibytes = (found.bytes.min(limits.max_bytes) >> 10) + 1;
        let most = (self.options.max_bytes_at_once >> 10).max(1);
        let permits = u32::try_from(kibibytes.min(most)).unwrap_or(1);
        let room = Arc::clone(&self.room)
            .acquire_many_owned(permits)
            .await
            .expect("the semaphore is never closed");
        blocking(&self.options, move || {
            if known.is_some() && known == Some(read::stamp(&found)?) {
                return Ok(None);
            }
            let (contents, stamp) = read::read(&found, &limits)?;
            Ok(Some((contents, stamp, room)))
        })
        .await
    }

    /// Extracts the text of a file, and cuts it into embedded chunks.
    async fn extract_and_embed(
        &self,
        file: SourceFile<'_>,
        bytes: Vec<u8>,
        room: OwnedSemaphorePermit,
    ) -> Result<(Extracted, Vec<NewChunk>), FileProblem> {
        let limits = self.options.limits;
        let stop = Stop::never();
        // If the run ends early, this ends the work on blocking threads.
        let _caller = stop.on_drop();
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source_uri = file.source.to_owned();
        let extracting = stop.clone();
        let extracted: Extracted = blocking(&self.options, move || {
            // A time limit does not end the work, which needs the memory until it ends.
            let _room = room;
            let mut hint = Hint::file(&name);
            hint.source_uri = Some(source_uri.as_str());
            hint.limits = limits;
            hint.stop = Some(&extracting);
            Ok(extract(&bytes, &hint)?)
        })
        .await?;
        // The name and the title are embedded with the chunks.
        let mut document = Document::new(file.uri);
        writer::set_name(&mut document, file.path, &extracted, file.source);
        let chunks = self
            .pipeline
            .prepare_until(
                &document,
                !file.is_new,
                &extracted,
                &self.options.chunks,
                &stop.and_within(limits.max_time),
            )
            .await?;
        Ok((extracted, chunks))
    }

    fn is_unchanged(&self, before: &Document, contents: &Contents) -> bool {
        let settings = before.metadata.get(PreparedFile::SETTINGS).and_then(|value| value.as_str());
        before.content_hash.as_ref() == Some(&contents.hash)
            && settings == Some(&self.settings)
            && self.tags.is_subset(&before.tags)
    }
}

/// Runs blocking work with a time limit.
async fn blocking<T: Send + 'static>(
    options: &FileOptions,
    work: impl FnOnce() -> Result<T, FileProblem> + Send + 'static,
) -> Result<T, FileProblem> {
    let time = options.limits.max_time;
    // After the time limit the work is asked to stop, and not waited for. Its memory counts until
    // it ends.
    match tokio::time::timeout(time, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(_)) => Err(FileProblem::Panic),
        Err(_) => Err(FileProblem::Time(time)),
    }
}
