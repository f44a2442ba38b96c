//! The writer's thread: takes events from the queue, and adds their lines to the file.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Instant, SystemTime},
};

use crate::{
    AuditError,
    chain::{ChainEnd, LineHash, OwnEvent},
    file::{self, LogFile},
    queue::{Waiting, Work},
    shared::Shared,
    tail::Tail,
};

/// Lines that are written together, in bytes. Each write is one call of the system.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// The writer.
pub(crate) struct Writer {
    path: PathBuf,
    shared: Arc<Shared>,
    /// The last line that was written.
    end: ChainEnd,
    /// `None` after a failure.
    file: Option<LogFile>,
    /// Events that are not in the log, and that no line counts yet.
    uncounted: Uncounted,
    /// Held until the log is closed.
    _lock: File,
}

/// Events that are missing in the log.
#[derive(Default)]
struct Uncounted {
    /// Dropped because the queue was full.
    dropped: u64,
    /// Lost because they could not be written.
    lost: u64,
    /// The first problem since the log worked.
    problem: Option<String>,
}

impl Writer {
    /// Opens the file and writes the first line.
    pub(crate) fn open(path: &Path, shared: Arc<Shared>) -> Result<Self, AuditError> {
        let lock = file::lock(path)?;
        let found = LogFile::open(path);
        let (file, tail) = found.map_err(|error| AuditError::open(path, &error))?;
        let mut tail = tail.ok_or_else(|| AuditError::NotALog { path: path.to_owned() })?;
        if file.len() == 0
            && let Some(rotated) =
                file::end_of_rotated(path).map_err(|error| AuditError::open(path, &error))?
        {
            // The line that ended there was never completed, and the new file begins with a line.
            tail = Tail { is_ended: true, ..rotated };
        }
        let mut writer = Self {
            path: path.to_owned(),
            shared,
            end: tail.end.unwrap_or(ChainEnd::START),
            file: Some(file),
            uncounted: Uncounted::default(),
            _lock: lock,
        };
        let opened = OwnEvent { pid: Some(std::process::id()), ..OwnEvent::new("log_opened") };
        let written = writer.write(|end, lines| {
            repair(&tail, end, lines);
            add_now(&opened, end, lines);
        });
        written.map_err(|error| AuditError::open(path, &error))?;
        Ok(writer)
    }

    /// Runs until the log is closed.
    pub(crate) fn run(mut self) {
        loop {
            let retry = self.file.is_none().then_some(self.shared.options.retry);
            let Work { events, dropped, reopen, close } = self.shared.queue.take(retry);
            self.uncounted.dropped += dropped;
            if reopen {
                // The next lines go to the file that has the name then.
                self.file = None;
            }
            self.write_events(events);
            if close {
                self.close();
                return;
            }
        }
    }

    /// Writes events, in as few calls of the system as possible.
    fn write_events(&mut self, mut events: VecDeque<Waiting>) {
        loop {
            let mut batch = Vec::new();
            let mut bytes = 0;
            let room = self.batch_bytes();
            while let Some(next) = events.front()
                && (batch.is_empty() || bytes + next.event.len() <= room)
            {
                bytes += next.event.len() + 160;
                batch.extend(events.pop_front());
            }
            let outcome = self.write_batch(&batch);
            if let Err(error) = &outcome {
                self.uncounted.lost += batch.len() as u64;
                self.failed(error, batch.len() as u64);
            }
            let told = outcome.map_err(|error| error.to_string());
            for waiting in batch {
                if let Some(written) = waiting.written {
                    // The caller may have gone.
                    _ = written.send(told.clone());
                }
            }
            if events.is_empty() {
                return;
            }
        }
    }

    /// Returns the size of a batch: a batch is never divided between two files.
    fn batch_bytes(&self) -> usize {
        let file = self.shared.options.max_file_bytes.unwrap_or(u64::MAX);
        MAX_BATCH_BYTES.min(usize::try_from(file).unwrap_or(usize::MAX))
    }

    /// Writes a batch of events, and before it a line for those that are missing. Without events it
    /// only opens the file again if it is not open.
    fn write_batch(&mut self, batch: &[Waiting]) -> io::Result<()> {
        if self.file.as_ref().is_some_and(LogFile::is_removed) {
            self.file = None;
        }
        let torn = if self.file.is_none() { Some(self.open_again()?) } else { None };
        let Uncounted { dropped, lost, problem } = &self.uncounted;
        let missing = (dropped + lost > 0 || problem.is_some()).then(|| OwnEvent {
            dropped: Some(*dropped),
            lost: Some(*lost),
            problem: problem.clone(),
            ..OwnEvent::new("log_incomplete")
        });
        if batch.is_empty() && missing.is_none() && torn.is_none() {
            return Ok(());
        }
        self.write(|end, lines| {
            if let Some(tail) = &torn {
                repair(tail, end, lines);
            }
            if let Some(missing) = &missing {
                add_now(missing, end, lines);
            }
            for waiting in batch {
                end.add(&waiting.time, &waiting.event, lines);
            }
        })?;
        self.uncounted = Uncounted::default();
        Ok(())
    }

    /// Opens the file again, after a failure or because another program has renamed it.
    fn open_again(&mut self) -> io::Result<Tail> {
        let (file, tail) = LogFile::open(&self.path)?;
        let Some(tail) = tail else {
            return Err(io::Error::other("the file was replaced by one that is not an audit log"));
        };
        // Some lines of a batch can be whole although writing it failed. An end with a smaller
        // number, or another hash, is the work of another program: `verify` shall find it.
        if let Some(end) = tail.end.filter(|end| end.seq > self.end.seq) {
            self.end = end;
        }
        self.file = Some(file);
        Ok(tail)
    }

    /// Adds lines to the file, which is rotated before if they do not fit. After a failure, the
    /// chain ends where it ended before.
    fn write(&mut self, add: impl FnOnce(&mut ChainEnd, &mut Vec<u8>)) -> io::Result<()> {
        let mut lines = Vec::new();
        let mut end = self.end;
        add(&mut end, &mut lines);
        if lines.is_empty() {
            return Ok(());
        }
        self.shared.status().writing_since = Some(Instant::now());
        let written = self.write_lines(&lines);
        let mut status = self.shared.status();
        status.writing_since = None;
        match &written {
            Ok(()) => {
                status.lines += end.seq - self.end.seq;
                status.last = Some((end.seq, end.hash));
                status.problem = None;
                self.end = end;
            }
            Err(_) => self.file = None,
        }
        written
    }

    fn write_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let options = &self.shared.options;
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("the file is not open"));
        };
        let is_full = options
            .max_file_bytes
            .is_some_and(|max| file.len() > 0 && file.len() + lines.len() as u64 > max);
        // A repair begins by ending the file's last line.
        if is_full && !lines.starts_with(b"\n") {
            // A file that another program has renamed is not renamed again.
            if file.is_at(&self.path) {
                file::rotate(&self.path, options.max_files)?;
                self.shared.status().rotations += 1;
            }
            *file = LogFile::open(&self.path)?.0;
        }
        file.write(lines, options.sync)
    }

    /// Reports a failure to callers and to the next line.
    fn failed(&mut self, error: &io::Error, lost: u64) {
        self.file = None;
        let problem = error.to_string();
        let mut status = self.shared.status();
        status.lost += lost;
        status.problem = Some(problem.clone());
        self.uncounted.problem.get_or_insert(problem);
    }

    fn close(&mut self) {
        let closed = OwnEvent::new("log_closed");
        if self.file.is_some() {
            _ = self.write(|end, lines| add_now(&closed, end, lines));
        }
    }
}

/// Ends an incomplete line, and adds a line with the number and the hash of its bytes.
fn repair(tail: &Tail, end: &mut ChainEnd, lines: &mut Vec<u8>) {
    let mut torn = tail.torn.clone();
    if !tail.is_ended {
        lines.push(b'\n');
        torn.push(b'\n');
    }
    if tail.torn.is_empty() {
        return;
    }
    let event = OwnEvent {
        torn_bytes: Some(torn.len() as u64),
        torn_sha256: Some(LineHash::of(&torn).to_string()),
        ..OwnEvent::new("log_torn")
    };
    add_now(&event, end, lines);
}

fn add_now(event: &OwnEvent, end: &mut ChainEnd, lines: &mut Vec<u8>) {
    let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    let event = serde_json::to_vec(event).expect("texts and numbers serialise");
    end.add(&time, &event, lines);
}
