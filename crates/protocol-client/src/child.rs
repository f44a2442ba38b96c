//! Servers as child processes.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use marquetry_protocol_wire::line::{Line, read_line};
use tokio::{
    io::{AsyncRead, BufReader},
    process::{Child, Command},
    sync::Notify,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    error::ClientError, events::CloseReason, options::ClientOptions, pipe::PipeLink, shared::Shared,
};

/// A command that starts a server.
#[derive(Clone)]
pub struct StdioCommand {
    /// The program: a path, or a name to look up in `PATH`.
    pub program: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables, set on top of what is inherited.
    pub env: BTreeMap<String, String>,
    /// Whether the child inherits the environment; true by default.
    pub inherit_env: bool,
    /// Working directory; by default that of this process.
    pub cwd: Option<PathBuf>,
    /// The destination of its standard error.
    pub stderr: Stderr,
    /// Time that the child has to exit after its input was closed, and again after SIGTERM, before
    /// it is killed: 2 s.
    pub stop_grace: Duration,
    /// Tracks running children, including those whose start was cancelled: a program that must
    /// leave no child behind waits for it.
    pub children: Option<TaskTracker>,
}

/// The destination of a child's standard error.
#[derive(Clone, Default)]
pub enum Stderr {
    /// The standard error of this process.
    #[default]
    Inherit,
    /// Discarded.
    Discard,
    /// Each line of at most 8 KiB is passed to a function; for a longer line, a note about it.
    Lines(Arc<dyn Fn(&str) + Send + Sync>),
}

/// Omits possible secrets: arguments and the values of variables.
impl fmt::Debug for StdioCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("inherit_env", &self.inherit_env)
            .field("cwd", &self.cwd)
            .field("stderr", &self.stderr)
            .field("stop_grace", &self.stop_grace)
            .finish_non_exhaustive()
    }
}

impl StdioCommand {
    /// Creates a command with a program and its arguments.
    #[must_use]
    pub fn new(
        program: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            inherit_env: true,
            cwd: None,
            stderr: Stderr::Inherit,
            stop_grace: Duration::from_secs(2),
            children: None,
        }
    }

    /// Starts the program through a guard, which ends everything that the program has started when
    /// the program or this process ends, for any reason. The guard is run as `guard --server PID
    /// --grace-ms N -- PROGRAM ARGUMENT…`; the program `marquetry` is one. Set [`Self::stop_grace`]
    /// before.
    ///
    /// Without a guard, the program of a killed process ends only if it notices that its input has
    /// ended.
    #[must_use]
    pub fn through_guard(mut self, guard: &Path) -> Self {
        let head = [
            "guard".to_owned(),
            "--server".to_owned(),
            std::process::id().to_string(),
            "--grace-ms".to_owned(),
            self.stop_grace.as_millis().to_string(),
            "--".to_owned(),
            std::mem::replace(&mut self.program, guard.to_string_lossy().into_owned()),
        ];
        self.args.splice(0..0, head);
        self
    }
}

impl std::fmt::Debug for Stderr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inherit => "Inherit",
            Self::Discard => "Discard",
            Self::Lines(_) => "Lines",
        })
    }
}

/// Starts the program, and a task that waits for its end.
pub(super) fn start(given: StdioCommand, options: &ClientOptions) -> Result<PipeLink, ClientError> {
    let mut command = Command::new(&given.program);
    command.args(&given.args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    if !given.inherit_env {
        command.env_clear();
    }
    command.envs(&given.env);
    if let Some(cwd) = &given.cwd {
        command.current_dir(cwd);
    }
    command.stderr(match given.stderr {
        Stderr::Inherit => Stdio::inherit(),
        Stderr::Discard => Stdio::null(),
        Stderr::Lines(_) => Stdio::piped(),
    });
    // In its own process group: a signal to the group reaches everything that the program has
    // started, and Ctrl-C in the terminal does not.
    #[cfg(unix)]
    command.process_group(0);

    let mut child = command.spawn().map_err(|error| not_started(&given.program, error))?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        let error = std::io::Error::other("its standard input and output are not ours");
        return Err(not_started(&given.program, error));
    };
    if let (Stderr::Lines(sink), Some(stderr)) = (given.stderr, child.stderr.take()) {
        tokio::spawn(forward_lines(stderr, sink));
    }

    let shared = Arc::new(Shared::new(options));
    let stop = CancellationToken::new();
    let gone = Arc::new(Notify::new());
    let attendance = attend(child, given.stop_grace, stop.clone(), shared.clone(), gone.clone());
    match &given.children {
        Some(children) => children.spawn(attendance),
        None => tokio::spawn(attendance),
    };
    Ok(PipeLink::over(stdout, stdin, shared, options, stop, gone, EXIT_WAIT))
}

fn not_started(program: &str, error: std::io::Error) -> ClientError {
    ClientError::io(format!("cannot start '{program}'"), error)
}

/// Time from the end of a child's output to its exit, for an error with its exit status.
const EXIT_WAIT: Duration = Duration::from_millis(500);

/// Waits for the end of the child, or stops it; then stops everything that it has started.
async fn attend(
    mut child: Child,
    grace: Duration,
    stop: CancellationToken,
    shared: Arc<Shared>,
    gone: Arc<Notify>,
) {
    let group = child.id();
    tokio::select! {
        status = child.wait() => {
            let reason = match status {
                Ok(status) => CloseReason::Exited {
                    code: status.code(),
                    how: format!("server process has ended ({})", described(status)),
                },
                Err(error) => CloseReason::Ended(format!("server process is lost: {error}")),
            };
            // Its last answers may still be in the pipe.
            tokio::time::sleep(Duration::from_millis(50)).await;
            shared.end(reason);
        }
        () = async { tokio::select! { () = stop.cancelled() => {} () = shared.ended().cancelled() => {} } } => {
            // The writer closes the child's input at the same time, which asks it to exit.
            if tokio::time::timeout(grace, child.wait()).await.is_err() {
                signal(group, Signal::Terminate);
                if tokio::time::timeout(grace, child.wait()).await.is_err() {
                    // Includes processes that have left the group, as long as their ancestors are
                    // known.
                    let descendants = descendants(group);
                    signal(group, Signal::Kill);
                    _ = child.kill().await;
                    kill_each(&descendants);
                }
            }
        }
    }
    signal(group, Signal::Kill);
    gone.notify_one();
}

/// Describes an exit status. Shells, and the guard, exit with 128 and the signal that has ended
/// their program.
fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code @ 129..=159) => format!("{status}, as after signal {}", code - 128),
        _ => status.to_string(),
    }
}

enum Signal {
    Terminate,
    Kill,
}

#[cfg(unix)]
fn signal(group: Option<u32>, signal: Signal) {
    use rustix::process::{Pid, Signal as UnixSignal, kill_process_group};
    let signal = match signal {
        Signal::Terminate => UnixSignal::TERM,
        Signal::Kill => UnixSignal::KILL,
    };
    if let Some(group) = group.and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
        // Fails if the group has no process left.
        _ = kill_process_group(group, signal);
    }
}

/// Returns all descendants of a process.
#[cfg(target_os = "linux")]
fn descendants(process: Option<u32>) -> Vec<u32> {
    let mut found = Vec::from_iter(process);
    let mut at = 0;
    while let Some(process) = found.get(at) {
        let threads = std::fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        at += 1;
    }
    found.split_off(usize::from(process.is_some()))
}

#[cfg(not(target_os = "linux"))]
fn descendants(_process: Option<u32>) -> Vec<u32> {
    Vec::new()
}

#[cfg(unix)]
fn kill_each(processes: &[u32]) {
    use rustix::process::{Pid, Signal, kill_process};
    for id in processes.iter().filter_map(|&id| Pid::from_raw(id.try_into().ok()?)) {
        // Fails if the process has exited.
        _ = kill_process(id, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_each(_processes: &[u32]) {}

#[cfg(not(unix))]
fn signal(_group: Option<u32>, _signal: Signal) {}

async fn forward_lines(reader: impl AsyncRead + Unpin, sink: Arc<dyn Fn(&str) + Send + Sync>) {
    const MAX: usize = 8 << 10;
    let mut reader = BufReader::new(reader);
    let mut buffer = Vec::new();
    loop {
        match read_line(&mut reader, &mut buffer, MAX).await {
            Ok(Line::Whole) => sink(String::from_utf8_lossy(&buffer).trim_end()),
            Ok(Line::Blank) => {}
            Ok(Line::TooLong) => sink("(a line of more than 8 KiB)"),
            Ok(Line::End) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_receives_its_parent_and_its_command() {
        let command = StdioCommand::new("sh", ["-c", "true"]).through_guard(Path::new("/guard"));
        assert_eq!(command.program, "/guard");
        let server = std::process::id().to_string();
        assert_eq!(
            command.args,
            ["guard", "--server", &server, "--grace-ms", "2000", "--", "sh", "-c", "true"]
        );
    }
}
