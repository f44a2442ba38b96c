//! `marquetry guard`: supervises the program of an upstream, so that no process outlives the
//! server.
//!
//! A server that is killed with SIGKILL cannot end its children, and not every program ends when
//! its input ends. Therefore the server starts each upstream through a guard. When the program or
//! the server ends, the guard ends all processes that remain. As subreaper
//! (`PR_SET_CHILD_SUBREAPER`) it adopts everything that the program starts, other sessions
//! included.
//!
//! Limits: if the guard itself is killed, its process group is killed, but not processes that have
//! left the group. If server and guard are killed at the same moment, the program survives with its
//! input closed.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open,
        set_child_subreaper, waitpid,
    },
};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use super::{Failure, GuardArgs, children};

/// Runs the program until it or the server ends. Returns the exit code of the program, as a shell
/// does.
pub(super) fn guard(arguments: &GuardArgs) -> Result<u8, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    let code = runtime.block_on(supervise(arguments));
    end_all();
    code
}

async fn supervise(arguments: &GuardArgs) -> Result<u8, Failure> {
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::new("the command line names no program"));
    };
    set_child_subreaper(Some(getpid())).map_err(Failure::new)?;
    let server = Pid::from_raw(arguments.server)
        .ok_or_else(|| Failure::new("--server: expected the id of a process"))?;
    let handle = pidfd_open(server, PidfdFlags::empty()).map_err(Failure::new)?;
    // The id may have been reused before the handle was opened; then the server is not our parent
    // any more.
    if getppid() != Some(server) {
        return Err(Failure::new("the server has ended"));
    }
    let server_end = end_of(handle);
    // The server signals the whole process group, but only the program should end. Children inherit
    // ignored signals, but no handlers.
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let _handlers: Vec<_> =
        signals.into_iter().map(signal).collect::<Result<_, _>>().map_err(Failure::new)?;

    let mut command = Command::new(program);
    command.args(rest);
    let mut child = command.spawn().map_err(|error| Failure {
        code: if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
        message: format!("failed to start '{}': {error}", program.display()),
    })?;
    close_pipes().map_err(Failure::new)?;

    tokio::select! {
        status = child.wait() => {
            use std::os::unix::process::ExitStatusExt as _;
            let status = status.map_err(Failure::new)?;
            let code = status.code().or_else(|| Some(128 + status.signal()?));
            Ok(code.and_then(|code| code.try_into().ok()).unwrap_or(1))
        }
        _ = server_end => {
            // The input of the program has ended with the server.
            terminate(&mut child, Duration::from_millis(arguments.grace_ms)).await;
            Err(Failure::new("the server has ended"))
        }
    }
}

/// Completes when the process of the handle has ended. A thread waits: Tokio can wait for a handle
/// only with unsafe code.
fn end_of(process: OwnedFd) -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        while let Err(Errno::INTR) = poll(&mut [PollFd::new(&process, PollFlags::IN)], None) {}
        _ = ended.send(());
    });
    end
}

/// Ends a program whose input was closed: waits for the grace, sends SIGTERM, and waits again.
async fn terminate(child: &mut Child, grace: Duration) {
    if tokio::time::timeout(grace, child.wait()).await.is_ok() {
        return;
    }
    if let Some(id) = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
        _ = kill_process(id, Signal::TERM);
    }
    _ = tokio::time::timeout(grace, child.wait()).await;
}

/// Closes input and output of the guard, so that the server notices when the program closes its
/// own.
fn close_pipes() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Kills all remaining processes. Children of a killed process become ours, so this repeats until
/// none is left.
fn end_all() {
    loop {
        for child in children::of(getpid()) {
            _ = kill_process(child, Signal::KILL);
        }
        if waitpid(None, WaitOptions::empty()).is_err() {
            return;
        }
    }
}
