//! Indexes files and folders.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use super::{
    FileEvent, FileOptions, FileOutcome, FileProblem, IndexError, IndexReport,
    identity::of_path,
    keep::{self, Keeper, Prepared},
    location::{Target, path_of, resolved},
    prune::{self, Scope},
    read::{self, Contents, Stamp},
    walk::{ListedFile, PathKey, count, key, walk},
};
use crate::{Caller, Document, Extracted, Hint, Pipeline, RecordError, Records, Stop, extract};

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
    keeper: Keeper,
    /// The files that were read, if they are watched.
    seen: HashMap<PathKey, CheckedFile>,
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

/// Version of the indexing. A new version makes the next run index all files again.
const VERSION: u32 = 4;
/// Most files in the queue.
const QUEUE: usize = 256;
/// Most chunks, files and bytes of text in one transaction.
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
        let keeper = Keeper::new(pipeline.clone(), records, caller.clone(), options.clone());
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
        Self { shared, keeper, seen: HashMap::new() }
    }

    /// Indexes files and folders, by paths or `file:` URIs, and reports the outcome of each file to
    /// `watch`.
    ///
    /// # Errors
    ///
    /// The database failed; files that were stored before stay. Problems of single files are not
    /// errors: the report has them.
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
    /// As [`Self::run`].
    pub async fn run_until(
        &mut self,
        arguments: &[OsString],
        mut watch: impl FnMut(&FileEvent<'_>),
        stop: impl Future<Output = ()>,
    ) -> Result<IndexReport, IndexError> {
        let mut stop = std::pin::pin!(stop);
        let started = Instant::now();
        let mut report = IndexReport::default();
        let tags = self.keeper.begin().await?;
        self.shared = Arc::new(Shared { tags, ..Shared::clone(&self.shared) });
        let mut targets = Vec::new();
        let mut scopes = Vec::new();
        let mut named = NamedFiles::default();
        for argument in arguments {
            match self.target(argument) {
                Ok(target) => {
                    named.0.extend(target.file.is_some().then(|| key(&target.path())));
                    scopes.push(Scope::new(target.path()));
                    targets.push(target);
                }
                Err((path, problem)) => {
                    let outcome = FileOutcome::Refused(&problem);
                    watch(&FileEvent::Done { path: &path, is_named: true, outcome });
                    report.refuse(path, problem.into());
                }
            }
        }

        let targets = Arc::new(targets);
        if self.shared.options.count {
            let counting = Stop::never();
            let _caller = counting.on_drop();
            let shared = Arc::clone(&self.shared);
            let targets = Arc::clone(&targets);
            let task =
                tokio::task::spawn_blocking(move || count(&targets, &shared.options, &counting));
            tokio::select! {
                () = &mut stop => {
                    report.stopped = true;
                    report.end(started);
                    return Ok(report);
                }
                counted = task => match counted {
                    Ok(counted) => watch(&FileEvent::Counted(counted)),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
            }
        }
        let (send, mut found) = mpsc::channel(QUEUE);
        let walking = {
            let shared = Arc::clone(&self.shared);
            tokio::task::spawn_blocking(move || walk(&targets, &shared.options, &send))
        };
        let mut work = JoinSet::new();
        let mut batch = Batch::default();
        let mut is_listed = false;
        while !is_listed || !work.is_empty() {
            let workers = self.shared.options.workers.get();
            let done = tokio::select! {
                () = &mut stop => {
                    report.stopped = true;
                    break;
                }
                () = tokio::time::sleep_until(batch.until()), if !batch.files.is_empty() => {
                    let kept = self.keeper.keep(std::mem::take(&mut batch).files).await?;
                    self.count_unkept(kept, &named, &mut report, &mut watch);
                    continue;
                }
                seen = found.recv(), if !is_listed && work.len() < workers => match seen {
                    Some(Ok(file)) => {
                        watch(&FileEvent::Found);
                        let known = self.seen.get(&key(&file.path())).map(|seen| seen.stamp);
                        work.spawn(Arc::clone(&self.shared).work(file, known));
                        continue;
                    }
                    Some(Err((path, problem))) => {
                        watch(&FileEvent::Found);
                        Worked { path, stamp: None, outcome: Err(problem) }
                    }
                    None => {
                        is_listed = true;
                        watch(&FileEvent::Listed);
                        continue;
                    }
                },
                Some(done) = work.join_next() => match done {
                    Ok(done) => done,
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
            };
            let outcome = match done.outcome {
                Err(FileProblem::Store(error)) => return Err(error.into()),
                outcome => outcome.map_err(Arc::new),
            };
            if let Some(stamp) = done.stamp.filter(|_| self.shared.options.watch) {
                let problem = outcome.as_ref().err().cloned();
                self.seen.insert(key(&done.path), CheckedFile { stamp, problem });
            }
            // A file that was not read again has the problem that it had before.
            let before = self.seen.get(&key(&done.path)).and_then(|seen| seen.problem.clone());
            match before.filter(|_| matches!(outcome, Ok(None))).map_or(outcome, Err) {
                Ok(Some(prepared)) => {
                    let chunks = prepared.chunks.len() as u64;
                    report.chunks += chunks;
                    report.bytes += prepared.bytes;
                    let outcome = if prepared.is_new {
                        report.indexed += 1;
                        FileOutcome::Indexed(chunks)
                    } else {
                        report.changed += 1;
                        FileOutcome::Changed(chunks)
                    };
                    watch(&named.done(&done.path, outcome));
                    batch.push(*prepared);
                }
                Ok(None) => {
                    report.unchanged += 1;
                    watch(&named.done(&done.path, FileOutcome::Unchanged));
                }
                Err(problem) => {
                    watch(&named.done(&done.path, FileOutcome::Refused(&problem)));
                    report.refuse(done.path, problem);
                }
            }
            if batch.is_full() || (is_listed && work.is_empty()) {
                let kept = self.keeper.keep(std::mem::take(&mut batch).files).await?;
                self.count_unkept(kept, &named, &mut report, &mut watch);
            }
        }
        let kept = self.keeper.keep(batch.files).await?;
        self.count_unkept(kept, &named, &mut report, &mut watch);
        if report.stopped {
            // The walk ends when its receiver is dropped.
            report.end(started);
            return Ok(report);
        }

        let walked = match walking.await {
            Ok(walked) => walked,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let unseen = prune::find(&self.shared.pipeline, &self.shared.caller, &scopes, &walked);
        let unseen = unseen.await?;
        report.excluded = unseen.excluded;
        for one in unseen.gone {
            if self.shared.options.prune {
                if !self.shared.options.dry_run {
                    tokio::select! {
                        biased;
                        () = &mut stop => {
                            report.stopped = true;
                            break;
                        }
                        removed = self.keeper.remove(&one.uri) => removed?,
                    }
                }
                report.removed += 1;
                watch(&named.done(&one.path, FileOutcome::Removed));
            } else {
                report.left += 1;
            }
            self.seen.remove(&key(&one.path));
            if report.gone.len() < IndexReport::MAX_NAMED {
                report.gone.push(one.path);
            }
        }
        report.end(started);
        Ok(report)
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

    /// Corrects the report for files whose records were refused.
    fn count_unkept(
        &mut self,
        unkept: Vec<(Prepared, FileProblem)>,
        named: &NamedFiles,
        report: &mut IndexReport,
        watch: &mut impl FnMut(&FileEvent<'_>),
    ) {
        for (prepared, problem) in unkept {
            report.chunks -= prepared.chunks.len() as u64;
            report.bytes -= prepared.bytes;
            if prepared.is_new {
                report.indexed -= 1;
            } else {
                report.changed -= 1;
            }
            self.seen.remove(&key(&prepared.path));
            watch(&named.done(&prepared.path, FileOutcome::Refused(&problem)));
            report.refuse(prepared.path, problem.into());
        }
    }
}

/// The files that were named themselves.
#[derive(Default)]
struct NamedFiles(HashSet<PathKey>);

impl NamedFiles {
    fn done<'a>(&self, path: &'a Path, outcome: FileOutcome<'a>) -> FileEvent<'a> {
        FileEvent::Done { path, is_named: self.0.contains(&key(path)), outcome }
    }
}

/// Files that are stored in one transaction.
#[derive(Default)]
struct Batch {
    files: Vec<Prepared>,
    chunks: usize,
    bytes: usize,
    /// The time at which the first of them was finished.
    since: Option<tokio::time::Instant>,
}

impl Batch {
    fn push(&mut self, file: Prepared) {
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

/// The result of a worker for a file.
struct Worked {
    path: PathBuf,
    /// The stamp of the file, if the file need not be read again while the stamp is unchanged.
    stamp: Option<Stamp>,
    /// `None` for an unchanged file.
    outcome: Result<Option<Box<Prepared>>, FileProblem>,
}

impl Shared {
    async fn work(self: Arc<Self>, found: ListedFile, known: Option<Stamp>) -> Worked {
        let path = found.path();
        let mut stamp = None;
        let outcome = self.prepare(found, &path, known, &mut stamp).await;
        if let Err(FileProblem::Embed(_) | FileProblem::Time(_)) = &outcome {
            // The next attempt may succeed.
            stamp = None;
        }
        Worked { path, stamp, outcome }
    }

    async fn prepare(
        &self,
        found: ListedFile,
        path: &Path,
        known: Option<Stamp>,
        stamp: &mut Option<Stamp>,
    ) -> Result<Option<Box<Prepared>>, FileProblem> {
        let kibibytes = (found.bytes.min(self.options.limits.max_bytes) >> 10) + 1;
        let most = self.options.max_bytes_at_once >> 10;
        let room = u32::try_from(kibibytes.min(most.max(1))).unwrap_or(1);
        let room = Arc::clone(&self.room).acquire_many_owned(room).await;
        let limits = self.options.limits;
        let file = blocking(&self.options, move || {
            if known.is_some() && known == Some(read::stamp(&found)?) {
                return Ok(None);
            }
            Ok(Some((read::read(&found, &limits)?, room)))
        });
        let Some(((contents, read_as), room)) = file.await? else { return Ok(None) };
        *stamp = Some(read_as);
        let (object_id, uri) = of_path(&self.caller, path);
        let before = self.pipeline.store().document(&uri).await?;
        if before.as_ref().is_some_and(|it| it.owner.as_ref() != Some(&self.caller.user)) {
            return Err(RecordError::Forbidden { action: "index a file into", target: uri }.into());
        }
        if before.as_ref().is_some_and(|before| self.is_unchanged(before, &contents)) {
            return Ok(None);
        }
        let Contents { bytes, hash, modified } = contents;
        let length = bytes.len() as u64;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = super::file_uri(path);
        let stop = Stop::never();
        let _caller = stop.on_drop();
        let extracted = {
            let source = source.clone();
            let stop = stop.clone();
            blocking(&self.options, move || {
                let _room = room;
                let mut hint = Hint::file(&name);
                hint.source_uri = Some(source.as_str());
                hint.limits = limits;
                hint.stop = Some(&stop);
                Ok(extract(&bytes, &hint)?)
            })
        };
        let prepared = async {
            let extracted: Extracted = extracted.await?;
            let mut document = Document::new(&uri);
            keep::name(&mut document, path, &extracted, &source);
            let is_kept = before.is_some();
            let options = &self.options.chunks;
            let stop = stop.and_within(limits.max_time);
            let chunks =
                self.pipeline.prepare_until(&document, is_kept, &extracted, options, &stop);
            let chunks = chunks.await?;
            Ok((extracted, chunks))
        };
        let (extracted, chunks) = prepared.await.map_err(|problem: FileProblem| match &before {
            Some(_) => FileProblem::Kept(Box::new(problem)),
            None => problem,
        })?;
        if chunks.is_empty() && before.is_none() {
            return Err(FileProblem::NoText);
        }
        Ok(Some(Box::new(Prepared {
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
            is_new: before.is_none(),
        })))
    }

    fn is_unchanged(&self, before: &Document, contents: &Contents) -> bool {
        let settings = before.metadata.get(Prepared::SETTINGS).and_then(|value| value.as_str());
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
