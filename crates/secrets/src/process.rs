//! Runs a program for its output, within limits of time and size.

use std::{
    io::{self, Read as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Why a program gave no output.
#[derive(Debug)]
pub(crate) enum ProcessError {
    NotStarted(io::Error),
    Failed(ExitStatus),
    TooSlow,
    TooLong,
}

/// Returns the standard output of a program, which ends with everything that it has started.
pub(crate) fn output(
    program: &str,
    arguments: &[String],
    max_bytes: u64,
    time: Duration,
) -> Result<Vec<u8>, ProcessError> {
    let deadline = Instant::now() + time;
    let mut command = Command::new(program);
    // Standard error may hold the secret, or a part of it.
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    in_its_own_group(&mut command);
    let child = command.spawn().map_err(ProcessError::NotStarted)?;
    let mut running = Running { child, is_over: false };
    let Some(stdout) = running.child.stdout.take() else {
        return Err(ProcessError::NotStarted(io::ErrorKind::BrokenPipe.into()));
    };
    let (sender, received) = mpsc::channel();
    // A read cannot be interrupted. It ends when the group is killed.
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(max_bytes + 1).read_to_end(&mut bytes);
        // The receiver is gone after the deadline.
        _ = sender.send(read.map(|_| bytes));
    });
    let left = deadline.saturating_duration_since(Instant::now());
    let bytes = match received.recv_timeout(left) {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(ProcessError::NotStarted(error)),
        Err(_) => return Err(ProcessError::TooSlow),
    };
    if bytes.len() as u64 > max_bytes {
        return Err(ProcessError::TooLong);
    }
    match running.wait_until(deadline) {
        Some(status) if status.success() => Ok(bytes),
        Some(status) => Err(ProcessError::Failed(status)),
        None => Err(ProcessError::TooSlow),
    }
}

/// A program, which is killed with its group when it is dropped.
struct Running {
    child: Child,
    is_over: bool,
}

impl Running {
    /// Waits until the program ends. `None` after the deadline.
    fn wait_until(&mut self, deadline: Instant) -> Option<ExitStatus> {
        const PAUSE: Duration = Duration::from_millis(5);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.is_over = true;
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its group may outlive it.
        kill_group(&self.child);
        if !self.is_over {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

#[cfg(unix)]
fn in_its_own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn in_its_own_group(_command: &mut Command) {}

#[cfg(unix)]
fn kill_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // The group is gone in most cases.
        _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_child: &Child) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str, time: Duration) -> Result<Vec<u8>, ProcessError> {
        output("sh", &["-c".to_owned(), script.to_owned()], 100, time)
    }

    #[test]
    fn a_slow_program_ends_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! > {}; wait", pid.display());
        let began = Instant::now();
        let outcome = shell(&script, Duration::from_millis(300));
        assert!(matches!(outcome, Err(ProcessError::TooSlow)), "{outcome:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
        check_gone(&pid);
    }

    #[test]
    fn a_child_that_keeps_the_output_open_ends_too() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! > {}; echo value", pid.display());
        let outcome = shell(&script, Duration::from_millis(300));
        assert!(matches!(outcome, Err(ProcessError::TooSlow)), "{outcome:?}");
        check_gone(&pid);
    }

    /// Checks that the process whose id a file has is no longer running.
    #[track_caller]
    fn check_gone(file: &std::path::Path) {
        let pid = std::fs::read_to_string(file).unwrap();
        let stat = std::path::PathBuf::from(format!("/proc/{}/stat", pid.trim()));
        let deadline = Instant::now() + Duration::from_secs(5);
        // A killed child stays as a zombie until its parent waits for it.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < deadline, "process {pid} is still running");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn endless_output_is_cut() {
        let outcome = output("yes", &[], 100, Duration::from_secs(5));
        assert!(matches!(outcome, Err(ProcessError::TooLong)), "{outcome:?}");
    }

    #[test]
    fn nothing_is_read_from_standard_input() {
        let output = shell("cat; echo end", Duration::from_secs(5)).unwrap();
        assert_eq!(output, b"end\n");
    }
}
