//! A command line of a step.

#[cfg(unix)]
use std::os::unix::process::CommandExt as _;
use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt,
    io::{self, BufRead as _, BufReader, IsTerminal as _, Read, Write},
    ops::AddAssign,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

#[cfg(target_os = "linux")]
use crate::proc_stat::cpu_time_with_children;
use crate::{Failed, cargo, forget_package, root};

/// A command line with its environment variables and its folder.
#[derive(Clone, Debug)]
pub(super) struct CommandLine {
    pub(super) program: OsString,
    pub(super) args: Vec<String>,
    /// Environment variables to set; those without a value are removed.
    pub(super) env: Vec<(&'static str, Option<OsString>)>,
    pub(super) folder: PathBuf,
    /// The program is killed after this time. Without a limit, one test that hangs would hide the
    /// outcome of all steps.
    pub(super) limit: Option<Duration>,
}

impl CommandLine {
    pub(super) fn new(program: impl Into<OsString>, args: &str) -> Self {
        Self {
            program: program.into(),
            args: args.split_whitespace().map(str::to_owned).collect(),
            env: Vec::new(),
            folder: root(),
            limit: None,
        }
    }

    pub(super) fn cargo(args: &str) -> Self {
        Self::new(cargo(), args)
    }

    /// Runs a task of this program. A step that builds may have replaced its file; Linux then
    /// reports the path as deleted.
    pub(super) fn xtask(args: &str) -> Result<Self, Failed> {
        let program = std::env::current_exe()?.into_os_string();
        let program = match program.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
            Some(path) => path.into(),
            None => program,
        };
        Ok(Self::new(program, args))
    }

    pub(super) fn with_env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, Some(value.into())));
        self
    }

    pub(super) fn without_env(mut self, name: &'static str) -> Self {
        self.env.push((name, None));
        self
    }

    /// Runs the command and copies its standard output and error to `to`, line by line and in their
    /// order.
    pub(super) fn run(&self, to: &mut (impl Write + Send)) -> io::Result<CommandResult> {
        let mut command = Command::new(&self.program);
        if self.program == cargo() {
            forget_package(&mut command);
        }
        command.args(&self.args).current_dir(&self.folder);
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if io::stdout().is_terminal() {
            // Its output is a pipe to us, not a terminal.
            command.env("CARGO_TERM_COLOR", "always");
        }
        #[cfg(unix)]
        if self.limit.is_some() {
            // A separate process group, so that its child processes can be killed with it.
            command.process_group(0);
        }
        let (output, input) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
        let mut child = command.spawn()?;
        // The command holds our ends of the pipe; while it does, the reader waits for more.
        drop(command);
        let pid = child.id();
        let (ended, end) = mpsc::channel::<()>();
        let mut ran = thread::scope(|scope| {
            let reader = scope.spawn(|| copy_lines(output, &mut *to));
            let watch = self.limit.map(|limit| {
                scope.spawn(move || {
                    let is_late = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                    if is_late {
                        kill_group(pid);
                    }
                    is_late
                })
            });
            let cpu = cpu_time_at_end(pid);
            let is_success = child.wait()?.success();
            drop(ended);
            let is_late = watch.is_some_and(|it| it.join().unwrap_or_default());
            let copied = reader.join().unwrap_or_default();
            Ok::<_, io::Error>(CommandResult {
                is_success,
                is_late,
                counts: Counts { cpu, skipped_tests: copied.skipped_tests },
                last_lines: copied.last_lines,
            })
        })?;
        if ran.is_late
            && let Some(limit) = self.limit
        {
            ran.is_success = false;
            let killed = format!(
                "FAILED: {self} did not end within {} s, and was killed\n",
                limit.as_secs()
            );
            to.write_all(killed.as_bytes())?;
            ran.last_lines += &killed;
        }
        Ok(ran)
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.env.iter().filter_map(|(name, it)| Some((name, it.as_ref()?))) {
            write!(f, "{name}='{}' ", value.to_string_lossy())?;
        }
        let program = Path::new(&self.program).file_stem().unwrap_or(&self.program);
        write!(f, "{} {}", program.to_string_lossy(), self.args.join(" "))
    }
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandResult {
    pub(super) is_success: bool,
    /// It did not end within its limit.
    pub(super) is_late: bool,
    pub(super) counts: Counts,
    /// The end of its output, where tests name what failed.
    pub(super) last_lines: String,
}

/// Sums over the commands of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// CPU time, with that of child processes that their parents have waited for. Only measured on
    /// Linux; zero elsewhere.
    pub(super) cpu: Duration,
    /// Number of tests that reported that they were skipped, because a program is not installed.
    pub(super) skipped_tests: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.skipped_tests += other.skipped_tests;
    }
}

/// Waits for the end of a child process without removing it, and returns its CPU time.
#[cfg(target_os = "linux")]
fn cpu_time_at_end(pid: u32) -> Duration {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Duration::ZERO };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(id), options).is_err_and(|it| it == rustix::io::Errno::INTR) {}
    cpu_time_with_children(pid).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
const fn cpu_time_at_end(_pid: u32) -> Duration {
    Duration::ZERO
}

/// Kills a program and the children that stayed in its group.
fn kill_group(pid: u32) {
    #[cfg(target_os = "linux")]
    if let Some(group) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // It fails if the program has ended meanwhile.
        _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(target_os = "linux"))]
    {
        _ = Command::new("kill").args(["-9", &format!("-{pid}")]).status();
    }
}

/// The number of lines at the end of an output that are kept, and of bytes of each of them.
const LAST_LINES: usize = 60;
const LAST_LINE_BYTES: usize = 1_000;

/// What was seen in the lines of an output.
#[derive(Debug, Default)]
struct Copied {
    /// The number of lines that report a skipped test.
    skipped_tests: usize,
    last_lines: String,
}

/// Copies lines as they are, and keeps the last ones.
fn copy_lines(from: impl Read, to: &mut impl Write) -> Copied {
    let mut skipped_tests = 0;
    let mut last = VecDeque::with_capacity(LAST_LINES);
    for mut line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        skipped_tests += usize::from(line.starts_with(b"SKIPPED"));
        line.push(b'\n');
        // The command must not stop if the reader of our output has gone.
        let _ = to.write_all(&line);
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        if line.len() > LAST_LINE_BYTES {
            line.truncate(LAST_LINE_BYTES);
            line.extend_from_slice(" …\n".as_bytes());
        }
        last.push_back(line);
    }
    let last_lines = String::from_utf8_lossy(&last.make_contiguous().concat()).into_owned();
    Copied { skipped_tests, last_lines }
}

/// Returns whether a program is in `PATH`.
pub(super) fn is_installed(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&path).any(|folder| folder.join(&file).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted() {
        let mut copy = Vec::new();
        let text = &b"SKIPPED: a\nother\n SKIPPED\nSKIPPED (1): b"[..];
        assert_eq!(copy_lines(text, &mut copy).skipped_tests, 2);
        assert_eq!(copy, b"SKIPPED: a\nother\n SKIPPED\nSKIPPED (1): b\n");
    }

    #[test]
    fn the_end_of_an_output_is_kept() {
        let mut text: String = (0..100).map(|number| format!("{number}\n")).collect();
        text += &"x".repeat(5_000);
        let mut copy = Vec::new();
        let last = copy_lines(text.as_bytes(), &mut copy).last_lines;
        assert!(last.starts_with("41\n42\n") && last.ends_with("x …\n"), "{last}");
        assert_eq!(last.lines().last().unwrap().len(), LAST_LINE_BYTES + " …".len());
        assert_eq!(copy.len(), text.len() + 1);
    }

    #[test]
    fn commands_read_as_typed() {
        let line = CommandLine::cargo("doc --no-deps").with_env("A", "b c");
        assert_eq!(line.to_string(), "A='b c' cargo doc --no-deps");
    }

    #[cfg(unix)]
    #[test]
    fn output_and_errors_arrive_in_order() {
        let script = "echo a; echo SKIPPED: b >&2; echo c; exit 3";
        let mut line = CommandLine::new("sh", "-c");
        line.args.push(script.to_owned());
        let mut copy = Vec::new();
        let ran = line.run(&mut copy).unwrap();
        assert_eq!(copy, b"a\nSKIPPED: b\nc\n");
        assert_eq!((ran.is_success, ran.is_late, ran.counts.skipped_tests), (false, false, 1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cpu_time_includes_child_processes() {
        let mut line = CommandLine::new("sh", "-c");
        let work = "i=0; while [ $i -lt 1000000 ]; do i=$((i + 1)); done";
        line.args.push(format!("sh -c '{work}'; true"));
        let ran = line.run(&mut Vec::new()).unwrap();
        assert!(ran.counts.cpu >= Duration::from_millis(50), "{ran:?}");
        line.args[1] = "sleep 0.3".to_owned();
        let ran = line.run(&mut Vec::new()).unwrap();
        assert!(ran.counts.cpu < Duration::from_millis(50), "{ran:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let mut line = CommandLine::new("sh", "-c");
        line.args.push("echo a; sleep 100 & sleep 100".to_owned());
        line.limit = Some(Duration::from_millis(300));
        let mut copy = Vec::new();
        let ran = line.run(&mut copy).unwrap();
        assert_eq!((ran.is_success, ran.is_late, ran.counts.skipped_tests), (false, true, 0));
        let copy = String::from_utf8(copy).unwrap();
        assert!(copy.starts_with("a\nFAILED: sh -c echo a;"), "{copy}");
        assert!(copy.ends_with("did not end within 0 s, and was killed\n"), "{copy}");
    }
}
