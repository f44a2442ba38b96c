//! Reads one file in a consistent state, extracts its text, and embeds its chunks.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use cap_std::fs::OpenOptions;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinError,
};

use super::{
    FileOptions, FileProblem,
    location::{Target, file_uri, record_of_path, special},
    walk::{ListedFile, count},
    writer::{BATCH_BYTES, PreparedFile, set_name},
};
use crate::{
    Caller, Document, ExtractLimits, Extracted, Hint, NewChunk, Pipeline, Problem, RecordError,
    Stop, extract,
};

/// Reads files, and prepares them to be stored: the data that the workers share.
#[derive(Clone)]
pub(super) struct FileReader {
    pub(super) pipeline: Pipeline,
    pub(super) caller: Caller,
    pub(super) options: FileOptions,
    /// The options that affect chunks, besides the file itself.
    pub(super) settings: String,
    /// URIs of the tags of each file.
    pub(super) tags: BTreeSet<String>,
    /// Kibibytes that are free of [`FileOptions::max_bytes_at_once`].
    pub(super) room: Arc<Semaphore>,
}

/// A file that a worker has read.
pub(super) struct ReadFile {
    pub(super) path: PathBuf,
    /// The stamp of the file, if the file need not be read again while the stamp is unchanged.
    pub(super) stamp: Option<Stamp>,
    /// `None` for an unchanged file.
    pub(super) outcome: Result<Option<Box<PreparedFile>>, FileProblem>,
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

impl FileReader {
    /// Counts the files of the targets. Dropping the future ends the count.
    pub(super) async fn count(self: Arc<Self>, targets: Arc<Vec<Target>>) -> u64 {
        let stop = Stop::never();
        let _caller = stop.on_drop();
        let counting = tokio::task::spawn_blocking(move || count(&targets, &self.options, &stop));
        result_of(counting.await)
    }

    pub(super) async fn work(self: Arc<Self>, found: ListedFile, known: Option<Stamp>) -> ReadFile {
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
        let (object_id, uri) = record_of_path(&self.caller, path);
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
        let source = file_uri(path);
        let file = SourceFile { path, source: &source, uri: &uri, is_new };
        let room = Arc::new(room);
        let (extracted, chunks) =
            self.extract_and_embed(file, bytes, room.clone()).await.map_err(|problem| {
                if is_new { problem } else { FileProblem::Kept(Box::new(problem)) }
            })?;
        if chunks.is_empty() && is_new {
            return Err(FileProblem::NoText);
        }
        let losses = losses(&extracted);
        // Small files wait for others to be stored with them.
        let is_large = extracted.content.len() >= BATCH_BYTES;
        Ok(Some(Box::new(PreparedFile {
            path: path.to_owned(),
            source,
            object_id,
            uri,
            extracted,
            losses,
            chunks,
            hash,
            settings: self.settings.clone(),
            bytes: length,
            modified,
            is_new,
            _room: is_large.then_some(room),
        })))
    }

    /// Reads a file, unless it has the known stamp. Waits until there is room for the memory that
    /// it takes until it is stored, which the permit holds. A file that needs more than all the
    /// room takes all of it, and is read alone.
    async fn read(
        &self,
        found: ListedFile,
        known: Option<Stamp>,
    ) -> Result<Option<(Contents, Stamp, OwnedSemaphorePermit)>, FileProblem> {
        let limits = self.options.limits;
        // Permits are numbers of 32 bits, and files may have more bytes.
        let kibibytes = ((found.bytes.min(limits.max_bytes) * MEMORY_FACTOR) >> 10) + 1;
        let max = (self.options.max_bytes_at_once >> 10).max(1);
        let permits = u32::try_from(kibibytes.min(max)).unwrap_or(1);
        let room = Arc::clone(&self.room)
            .acquire_many_owned(permits)
            .await
            .expect("the semaphore is never closed");
        blocking(&self.options, move || {
            if known.is_some() && known == Some(stamp_of(&found)?) {
                return Ok(None);
            }
            let (contents, stamp) = read_contents(&found, &limits)?;
            Ok(Some((contents, stamp, room)))
        })
        .await
    }

    /// Extracts the text of a file, and cuts it into embedded chunks.
    async fn extract_and_embed(
        &self,
        file: SourceFile<'_>,
        bytes: Vec<u8>,
        room: Arc<OwnedSemaphorePermit>,
    ) -> Result<(Extracted, Vec<NewChunk>), FileProblem> {
        let limits = self.options.limits;
        let stop = Stop::never();
        // If the run ends early, this ends the work on blocking threads.
        let _caller = stop.on_drop();
        // A file without bytes is an empty text, and no damaged document.
        let path = if bytes.is_empty() { Path::new("") } else { file.path };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
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
        set_name(&mut document, file.path, &extracted, file.source);
        let extracted = Arc::new(extracted);
        let chunks = self
            .pipeline
            .prepare_until(
                &document,
                !file.is_new,
                extracted.clone(),
                &self.options.chunks,
                &stop.and_within(limits.max_time),
            )
            .await?;
        if chunks.is_empty() {
            // Hidden text alone leaves an empty document; data and pictures do not.
            let content = (extracted.problems.iter())
                .filter(|it| it.is_loss() || matches!(it, Problem::NotText { .. }));
            let reasons: Vec<String> =
                content.take(PreparedFile::MAX_LOSSES).map(ToString::to_string).collect();
            if !reasons.is_empty() {
                return Err(FileProblem::Unread(reasons.join("; ")));
            }
        }
        Ok((Arc::unwrap_or_clone(extracted), chunks))
    }

    fn is_unchanged(&self, before: &Document, contents: &Contents) -> bool {
        let settings = before.metadata.get(PreparedFile::SETTINGS).and_then(|value| value.as_str());
        before.content_hash.as_ref() == Some(&contents.hash)
            && settings == Some(&self.settings)
            && self.tags.is_subset(&before.tags)
            && self.options.readers.is_subset(&before.readers)
    }
}

/// Returns what a reader of a document sees that is not in its text: the first
/// [`PreparedFile::MAX_LOSSES`].
fn losses(extracted: &Extracted) -> Vec<String> {
    let losses = extracted.problems.iter().filter(|problem| problem.is_loss());
    losses.take(PreparedFile::MAX_LOSSES).map(ToString::to_string).collect()
}

/// Bytes of memory for each byte of a file: its content, its text, copies of both while they are
/// converted, and passages with their vectors.
const MEMORY_FACTOR: u64 = 6;

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

/// Returns the result of a task. A panic of the task goes on in the caller.
pub(super) fn result_of<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// The bytes of a file, with their hash and time.
struct Contents {
    bytes: Vec<u8>,
    /// BLAKE3 hash of the bytes, in hexadecimal.
    hash: String,
    modified: Option<SystemTime>,
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
fn stamp_of(found: &ListedFile) -> Result<Stamp, FileProblem> {
    Stamp::of(&open(found)?)
}

/// Resolution of the times of files: two changes within it may leave the same time.
const TICK: Duration = Duration::from_millis(20);
/// Maximum number of attempts to read a changing file.
const ATTEMPTS: usize = 4;

/// Reads a file. Refuses a file that is too large. Reads a file again if it changes meanwhile, and
/// refuses it after several attempts.
fn read_contents(
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
