//! `marquetry index`

use std::{
    cell::Cell,
    collections::BTreeSet,
    ffi::OsString,
    io::{self, IsTerminal as _},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use marquetry_knowledge::{DatabaseLocation, Knowledge};
use marquetry_printable::printable_line;
use marquetry_rag::{
    ChunkOptions, ExtractError, FileEvent, FileOptions, FileOutcome, FileProblem, IncompleteFile,
    IndexError, IndexReport, Indexer, Refused, Strategy, file_uri,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    DatabaseArgs, LibraryCommandError, Settings,
    output::{print, print_json},
};

/// Arguments of `marquetry index`.
#[derive(Args, Clone, Debug)]
pub struct IndexArgs {
    /// Files and folders, or their file: URIs. In folders, hidden files and files that .gitignore
    /// or .ignore exclude are left out.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<OsString>,
    /// Keep running, and look for changes about once a second until interrupted.
    #[arg(long, conflicts_with = "dry_run")]
    watch: bool,
    /// Unit into which texts are cut.
    #[arg(long, value_name = "KIND", default_value = "sentence")]
    chunk: ChunkKind,
    /// Maximum sentences per passage; with --chunk word, words.
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    chunk_size: i64,
    /// Sentences that consecutive passages share; with --chunk word, words.
    #[arg(long, value_name = "N", default_value_t = 0)]
    overlap: usize,
    /// Maximum tokens per passage.
    #[arg(long, value_name = "N", default_value = "512")]
    max_tokens: NonZeroUsize,
    /// Tag to add to each file, by name or URI; may be given several times.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Who may find and read each file on a server with [auth]: "everyone", the name of a user, or
    /// that of a group; may be given several times. Replaces `readers` in [knowledge].
    #[arg(long, value_name = "NAME")]
    reader: Vec<String>,
    /// Remove indexed files that no longer exist below PATH. A PATH that does not exist is an
    /// error; its files are not removed.
    #[arg(long)]
    prune: bool,
    /// Report what would be done, without changing anything. Files are read and cut into passages
    /// for this, so it takes about as long.
    #[arg(long)]
    dry_run: bool,
    /// Include files and folders whose names begin with a dot.
    #[arg(long)]
    hidden: bool,
    /// Include files that .gitignore and .ignore exclude.
    #[arg(long)]
    no_ignore: bool,
    /// Refuse every PATH outside of this folder; may be given several times.
    #[arg(long, value_name = "FOLDER")]
    within: Vec<PathBuf>,
    /// Maximum size of a file, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    max_file_size: u64,
    /// Remove the database's vectors if they belong to another model than the one in
    /// [knowledge.embedding], or to an older version of this program. Records stay; documents
    /// outside of PATH are not found until they are indexed again.
    #[arg(long, conflicts_with = "dry_run")]
    reset: bool,
    /// List all files that are skipped because they are not documents. By default, only files that
    /// were named and the first few in folders are listed.
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ChunkKind {
    Sentence,
    Word,
    /// Sentences; a passage does not cross a chapter boundary.
    Chapter,
}

/// Indexes files and folders, until `stop` is cancelled. Finished files stay indexed; each file has
/// all its passages or none of them.
///
/// With `--watch` it ends only when it is stopped.
///
/// # Errors
///
/// Returns an error if the arguments are wrong, a file was not indexed, or the database cannot be
/// opened or written.
pub async fn index(
    arguments: &IndexArgs,
    settings: Settings<'_>,
    stop: &CancellationToken,
) -> Result<(), LibraryCommandError> {
    let options = arguments.options()?;
    let opened = stop.run_until_cancelled(open(arguments, settings, options)).await;
    let Some((knowledge, mut indexer)) = opened.transpose()? else { return Ok(()) };
    let done = work(arguments, &mut indexer, stop).await;
    knowledge.close().await;
    done
}

impl IndexArgs {
    /// Returns whether the command follows changes until it is stopped.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.watch
    }

    /// Returns whether no PATH exists.
    fn names_nothing(&self) -> bool {
        self.paths.iter().all(|path| {
            !path.to_string_lossy().starts_with("file:")
                && Path::new(path).symlink_metadata().is_err()
        })
    }

    fn options(&self) -> Result<FileOptions, LibraryCommandError> {
        let strategy = match self.chunk {
            ChunkKind::Sentence => Strategy::Sentence,
            ChunkKind::Word => Strategy::Word,
            ChunkKind::Chapter => Strategy::Chapter,
        };
        let mut chunks = ChunkOptions::new(strategy, self.chunk_size)
            .map_err(|error| LibraryCommandError::usage(format!("--chunk-size: {error}")))?;
        if self.overlap >= chunks.size.get() {
            let size = chunks.size;
            return Err(LibraryCommandError::usage(format!(
                "--overlap: {} is not smaller than the chunk size {size}",
                self.overlap
            )));
        }
        chunks.overlap = self.overlap;
        chunks.max_tokens = Some(self.max_tokens);
        for folder in &self.within {
            if !folder.is_dir() {
                return Err(LibraryCommandError::usage(format!(
                    "--within: {} is not a folder",
                    name(folder)
                )));
            }
        }
        let mut options = FileOptions::default();
        options.chunks = chunks;
        options.limits.max_bytes = self.max_file_size << 20;
        options.tags.clone_from(&self.tag);
        options.within.clone_from(&self.within);
        options.hidden = self.hidden;
        options.ignored = self.no_ignore;
        options.prune = self.prune;
        options.dry_run = self.dry_run;
        options.watch = self.watch;
        // For the progress bar, which only a terminal shows.
        options.count = io::stderr().is_terminal();
        options.home =
            std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok());
        Ok(options)
    }
}

async fn work(
    arguments: &IndexArgs,
    indexer: &mut Indexer,
    stop: &CancellationToken,
) -> Result<(), LibraryCommandError> {
    let report = once(arguments, indexer, true, stop).await.map_err(|error| {
        if error.is_of_database() {
            let error = error.to_string();
            // The database contains the files before the last batch.
            let cause =
                error.split_once("; nothing was changed").map_or(&*error, |(cause, _)| cause);
            LibraryCommandError::new(format!(
                "{cause}; earlier files are indexed; run the command again to continue"
            ))
        } else {
            error.into()
        }
    })?;
    print_report(arguments, &report)?;
    if report.stopped {
        return Ok(());
    }
    if !arguments.watch {
        return match report.failed {
            0 => Ok(()),
            1 => Err(LibraryCommandError::new("one file was not indexed")),
            count => Err(LibraryCommandError::new(format!("{count} files were not indexed"))),
        };
    }
    // A mistyped path would be watched for ever.
    if let Some(missing) =
        report.failures.iter().find(|one| matches!(*one.problem, FileProblem::Missing))
    {
        let path = name(&missing.path);
        return Err(LibraryCommandError::new(format!(
            "failed to watch {path}: {}",
            missing.problem
        )));
    }
    watch(arguments, indexer, report, stop).await
}

/// Returns the database, and the indexer for it.
async fn open(
    arguments: &IndexArgs,
    settings: Settings<'_>,
    mut options: FileOptions,
) -> Result<(Knowledge, Indexer), LibraryCommandError> {
    let settings = settings(&arguments.database)?;
    let location = settings.location()?;
    let readers =
        if arguments.reader.is_empty() { &settings.config.readers } else { &arguments.reader };
    if readers.iter().any(|name| name.trim().is_empty()) {
        return Err(LibraryCommandError::usage("a reader has no name: see --reader and `readers`"));
    }
    options.readers = readers.iter().flat_map(|name| settings.readers_named(name)).collect();
    options.chunks.max_bytes = settings.config.max_passage_bytes;
    options.limits.max_time = Duration::from_millis(settings.config.max_work_ms.get());
    options.limits.max_unpacked_bytes_at_once = settings.config.max_unpacked_bytes_at_once.get();
    let knowledge = match location {
        // A run with nothing to store creates no database.
        DatabaseLocation::File(path)
            if !path.exists() && (arguments.dry_run || arguments.names_nothing()) =>
        {
            Knowledge::in_memory(&settings)?
        }
        _ if arguments.reset => Knowledge::open_reset(&settings).await?,
        _ => Knowledge::open(&settings).await?,
    };
    if let DatabaseLocation::File(path) = location
        && let Ok(path) = path.canonicalize()
    {
        // SQLite writes the other three beside the database.
        options.except = ["", "-wal", "-shm", "-journal"]
            .map(|end| {
                let mut name = path.clone().into_os_string();
                name.push(end);
                PathBuf::from(name)
            })
            .to_vec();
    }
    let caller = knowledge.local().await?;
    let records = Arc::new(knowledge.records.clone());
    let indexer = Indexer::new(knowledge.pipeline.clone(), records, caller, options);
    Ok((knowledge, indexer))
}

/// Indexes repeatedly until it is stopped, for at most a tenth of the time.
async fn watch(
    arguments: &IndexArgs,
    indexer: &mut Indexer,
    mut last: IndexReport,
    stop: &CancellationToken,
) -> Result<(), LibraryCommandError> {
    if !arguments.database.is_json() {
        let hint = if arguments.prune {
            ""
        } else {
            "; files that are deleted stay indexed without --prune"
        };
        print(&format!("watching for changes; Ctrl-C stops it{hint}\n"))?;
    }
    let mut reported = Reported::of(&last);
    loop {
        let pause = tokio::time::sleep(Duration::from_secs(1).max(last.elapsed * 9));
        if stop.run_until_cancelled(pause).await.is_none() {
            return Ok(());
        }
        last = match once(arguments, indexer, false, stop).await {
            Ok(report) => report,
            // Another process is writing. The next round finds the same changes.
            Err(error) if error.is_busy() => continue,
            Err(error) => return Err(error.into()),
        };
        let now = Reported::of(&last);
        if last.indexed + last.changed + last.removed > 0 || now != reported {
            if !arguments.database.is_json() {
                for refused in &last.failures {
                    let failure = (refused.path.clone(), refused.problem.to_string());
                    if !reported.failures.contains(&failure) {
                        print_failure(refused);
                    }
                }
            }
            print_report(arguments, &last)?;
        }
        reported = now;
    }
}

/// Failed and missing files of the last report, which are not printed again.
#[derive(PartialEq)]
struct Reported {
    failures: BTreeSet<(PathBuf, String)>,
    gone: Vec<PathBuf>,
}

impl Reported {
    fn of(report: &IndexReport) -> Self {
        let failures = report
            .failures
            .iter()
            .map(|refused| (refused.path.clone(), refused.problem.to_string()))
            .collect();
        Self { failures, gone: report.gone.clone() }
    }
}

/// Maximum number of failures that are printed as they occur; the summary counts all of them.
const MAX_FAILURES: usize = 50;
/// Maximum number of skipped files in folders that are printed as they occur. Files that were named
/// are all printed.
const MAX_SKIPS: usize = 5;
/// Maximum number of files that are printed because a part of them was not read.
const MAX_INCOMPLETE: usize = 20;

/// Indexes once. The first run of a command shows a progress bar and prints failures as they occur.
async fn once(
    arguments: &IndexArgs,
    indexer: &mut Indexer,
    is_first: bool,
    stop: &CancellationToken,
) -> Result<IndexReport, IndexError> {
    let mut progress = Progress::new(arguments, is_first);
    let report =
        indexer.run_until(&arguments.paths, |event| progress.show(event), stop.cancelled()).await;
    progress.bar.end();
    report
}

/// Shows the events of a run as they occur.
struct Progress {
    bar: Bar,
    /// Whether failed, skipped and removed files are printed.
    prints_files: bool,
    is_verbose: bool,
    /// Number of failures so far.
    failures: usize,
    /// Number of skipped files in folders so far.
    skips: usize,
    /// Number of files so far of which a part was not read.
    incomplete: usize,
}

impl Progress {
    fn new(arguments: &IndexArgs, is_first: bool) -> Self {
        Self {
            bar: Bar::new(is_first && io::stderr().is_terminal()),
            prints_files: is_first && !arguments.database.is_json(),
            is_verbose: arguments.verbose,
            failures: 0,
            skips: 0,
            incomplete: 0,
        }
    }

    fn show(&mut self, event: &FileEvent<'_>) {
        match event {
            FileEvent::Counted(files) => self.bar.counted(*files),
            FileEvent::Found => self.bar.found(),
            FileEvent::Listed => self.bar.listed(),
            FileEvent::Incomplete(file) if self.prints_files => self.show_incomplete(file),
            FileEvent::Done { path, is_named, outcome, .. } => {
                self.bar.done(path, outcome);
                if self.prints_files {
                    self.show_file(path, *is_named, outcome);
                }
            }
            _ => {}
        }
    }

    fn show_incomplete(&mut self, file: &IncompleteFile) {
        self.incomplete += 1;
        if self.is_verbose || self.incomplete <= MAX_INCOMPLETE {
            let losses = file.losses.join("; ");
            self.bar.print(&format!("warning: {}: {losses}", file.path.display()));
        } else if self.incomplete == MAX_INCOMPLETE + 1 {
            self.bar.print("further warnings are only counted; --verbose lists them all");
        }
    }

    fn show_file(&mut self, path: &Path, is_named: bool, outcome: &FileOutcome<'_>) {
        match outcome {
            FileOutcome::Refused(problem) if problem.is_failure() => {
                self.failures += 1;
                if self.failures <= MAX_FAILURES {
                    self.bar.print(&format!("error: {}", described(path, problem)));
                }
                if self.failures == MAX_FAILURES {
                    self.bar
                        .print("further errors are only counted; --json lists up to 1,000 of them");
                }
            }
            FileOutcome::Refused(problem) => {
                self.skips += usize::from(!is_named);
                if is_named || self.is_verbose || self.skips <= MAX_SKIPS {
                    self.bar.print(&format!("skipped: {}", described(path, problem)));
                } else if self.skips == MAX_SKIPS + 1 {
                    self.bar.print("more files are skipped; --verbose lists them all");
                }
            }
            FileOutcome::Removed if self.is_verbose => {
                self.bar.print(&format!("removed: {}", path.display()));
            }
            _ => {}
        }
    }
}

fn print_failure(refused: &Refused) {
    let line = format!("error: {}", described(&refused.path, &refused.problem));
    eprintln!("{}", printable_line(&line));
}

/// Returns the path of a file and the reason why it was not indexed.
fn described(path: &Path, problem: &FileProblem) -> String {
    format!("{}: {}", path.display(), reason(problem))
}

/// Returns the reason why a file was not indexed, with the setting that changes it.
fn reason(problem: &FileProblem) -> String {
    let cause = match problem {
        FileProblem::Kept(cause) => cause,
        cause => cause,
    };
    let setting = match cause {
        FileProblem::Extract(ExtractError::Limit { limit: "max_bytes", .. }) => "--max-file-size",
        cause if cause.code() == "time" => "knowledge.max_work_ms",
        _ => return problem.to_string(),
    };
    format!("{problem} ({setting})")
}

/// Formats a path on one line.
fn name(path: &Path) -> String {
    printable_line(&path.to_string_lossy())
}

/// A progress bar on the terminal. The number of files is known before it moves.
struct Bar {
    bar: ProgressBar,
    started: Instant,
    found: Cell<u64>,
}

impl Bar {
    fn new(is_shown: bool) -> Self {
        let bar = if is_shown {
            let bar = ProgressBar::new(0);
            let style = "{bar:30} {human_pos}/{human_len} files {elapsed} {wide_msg}";
            bar.set_style(
                ProgressStyle::with_template(style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        } else {
            ProgressBar::hidden()
        };
        Self { bar, started: Instant::now(), found: Cell::new(0) }
    }

    fn counted(&self, files: u64) {
        self.bar.set_length(files);
    }

    /// Counts a listed file. Files that were created after the count make the bar longer.
    fn found(&self) {
        self.found.set(self.found.get() + 1);
        if self.bar.length().is_none_or(|length| length < self.found.get()) {
            self.bar.set_length(self.found.get());
        }
    }

    fn listed(&self) {
        self.bar.tick();
    }

    fn done(&self, path: &Path, outcome: &FileOutcome<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        self.count(outcome);
        let rate = self.bar.position() as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.bar.set_message(format!("{rate:.0}/s {}", printable_line(&name)));
    }

    fn count(&self, outcome: &FileOutcome<'_>) {
        if !matches!(outcome, FileOutcome::Removed) {
            self.bar.inc(1);
        }
    }

    /// Prints a line above the bar.
    fn print(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{}", printable_line(line)));
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints the report of a run.
fn print_report(arguments: &IndexArgs, report: &IndexReport) -> Result<(), LibraryCommandError> {
    if arguments.database.is_json() {
        return print_json(&as_json(report, arguments));
    }
    print(&as_text(report, arguments))
}

fn as_text(report: &IndexReport, arguments: &IndexArgs) -> String {
    let would = if arguments.dry_run { "would be " } else { "" };
    let mut parts = vec![
        counted(report.indexed, &format!("{would}new")),
        counted(report.changed, &format!("{would}changed")),
        counted(report.unchanged, "unchanged"),
    ];
    let skipped: u64 = report.skipped.values().sum();
    for (number, what) in [
        (report.removed, format!("{would}removed")),
        (skipped, "skipped".to_owned()),
        (report.failed, "failed".to_owned()),
    ] {
        if number > 0 {
            parts.push(counted(number, &what));
        }
    }
    let seconds = report.elapsed.as_secs_f64();
    let files = report.files();
    let mut text = format!("{} file{}: {}\n", HumanCount(files), plural(files), parts.join(", "));
    let written = report.indexed + report.changed;
    if written > 0 {
        text.push_str(&format!(
            "  {} chunk{} of {} in {seconds:.1} s",
            HumanCount(report.chunks),
            plural(report.chunks),
            HumanBytes(report.bytes)
        ));
        // Rates of shorter runs say little.
        if seconds >= 1.0 {
            let files = HumanCount((written as f64 / seconds) as u64);
            let chunks = HumanCount((report.chunks as f64 / seconds) as u64);
            text.push_str(&format!(" (files per second: {files}, chunks: {chunks})"));
        }
        text.push('\n');
    }
    if skipped > 0 {
        let reasons = report
            .skipped
            .iter()
            .map(|(code, count)| format!("{} {}", HumanCount(*count), skip_reason(code, *count)));
        text.push_str(&format!("  skipped: {}\n", reasons.collect::<Vec<_>>().join(", ")));
    }
    if report.incomplete > 0 {
        let incomplete = report.incomplete;
        let would = if arguments.dry_run { " would be" } else { "" };
        text.push_str(&format!(
            "  incomplete: {} file{}{would} indexed without a part of what a reader sees\n",
            HumanCount(incomplete),
            plural(incomplete)
        ));
    }
    if report.left > 0 {
        let gone = match report.left {
            1 => "1 indexed file no longer exists; --prune removes it".to_owned(),
            left => {
                format!("{} indexed files no longer exist; --prune removes them", HumanCount(left))
            }
        };
        text.push_str(&format!("  {gone}\n"));
    }
    if report.excluded > 0 {
        let excluded = match report.excluded {
            1 => "1 indexed file is hidden or ignored now, and stays in the index".to_owned(),
            count => format!(
                "{} indexed files are hidden or ignored now, and stay in the index",
                HumanCount(count)
            ),
        };
        text.push_str(&format!("  {excluded}\n"));
    }
    text
}

fn counted(count: u64, outcome: &str) -> String {
    format!("{} {outcome}", HumanCount(count))
}

/// Returns the ending of a noun after a number.
fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns a skip reason, to be printed after its count.
fn skip_reason(code: &str, count: u64) -> &str {
    match code {
        "link" if count == 1 => "symbolic link",
        "link" => "symbolic links",
        "special" if count == 1 => "special file",
        "special" => "special files",
        "database" => "of the database itself",
        "no_text" if count == 1 => "empty file",
        "no_text" => "empty files",
        "binary" => "declared as text, but not text",
        "vanished" => "deleted meanwhile",
        "unsupported" => "of formats that are not read",
        other => other,
    }
}

fn as_json(report: &IndexReport, arguments: &IndexArgs) -> Value {
    let gone: Vec<String> = report.gone.iter().map(|path| file_uri(path)).collect();
    json!({
        "dryRun": arguments.dry_run,
        "files": report.files(),
        "indexed": report.indexed,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "chunks": report.chunks,
        "bytes": report.bytes,
        "failed": report.failed,
        "failures": refused_as_json(&report.failures),
        "skipped": report.skipped,
        "skips": refused_as_json(&report.skips),
        "incomplete": report.incomplete,
        "incompleteFiles": incomplete_as_json(&report.incomplete_files),
        "gone": gone,
        "excluded": report.excluded,
        "removed": report.removed,
        "left": report.left,
        "stopped": report.stopped,
        "seconds": report.elapsed.as_secs_f64(),
    })
}

fn refused_as_json(files: &[Refused]) -> Vec<Value> {
    files
        .iter()
        .map(|Refused { path, problem, .. }| {
            json!({
                "path": path.to_string_lossy(),
                "uri": file_uri(path),
                "code": problem.code(),
                "message": reason(problem),
            })
        })
        .collect()
}

fn incomplete_as_json(files: &[IncompleteFile]) -> Vec<Value> {
    files
        .iter()
        .map(|IncompleteFile { path, losses, .. }| {
            json!({ "path": path.to_string_lossy(), "uri": file_uri(path), "notRead": losses })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_has_its_length_before_it_moves() {
        let bar = Bar::new(false);
        bar.counted(3);
        for found in 0..3 {
            assert_eq!((bar.bar.length(), bar.bar.position()), (Some(3), found));
            bar.found();
            bar.count(&FileOutcome::Unchanged);
        }
        // A file that was created after the count.
        bar.found();
        bar.count(&FileOutcome::Indexed(1));
        assert_eq!((bar.bar.length(), bar.bar.position()), (Some(4), 4));
    }
}
