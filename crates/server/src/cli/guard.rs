//! `marquetry guard`: stands between this server and a child process, and sees to it that nothing outlives the server.
//!
//! A process that is killed with SIGKILL cannot end what it has started, and a polite end of input is not understood by everybody. So each upstream
//! is started by a small process of its own. It waits for two ends, that of the program and that of the server, and brings about what is left of
//! the other side. What the program starts is adopted by it (`PR_SET_CHILD_SUBREAPER`), even in a session of its own, so that nothing is missed.
//!
//! What it cannot do: where the guard itself is killed, its process group goes with it, but not what has left that group; and where server and
//! guard are killed at the same moment, a program is left that has lost its input.

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

/// Runs the program until it or the server ends. The exit code is the program's, as a shell would tell it.
pub(super) fn guard(arguments: &GuardArgs) -> Result<u8, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::new)?;
    let code = runtime.block_on(stand(arguments));
    end_all();
    code
}

async fn stand(arguments: &GuardArgs) -> Result<u8, Failure> {
    let Some((program, rest)) = arguments.command.split_first() else {
        return Err(Failure::new("nothing to start"));
    };
    set_child_subreaper(Some(getpid())).map_err(Failure::new)?;
    let server = Pid::from_raw(arguments.server).ok_or_else(|| Failure::new("no such server"))?;
    let handle = pidfd_open(server, PidfdFlags::empty()).map_err(Failure::new)?;
    // The number may have passed to somebody else before the handle was open, but then the server is our parent no more.
    if getppid() != Some(server) {
        return Err(Failure::new("the server has ended"));
    }
    let server_end = end_of(handle);
    // The server signals the whole process group; these are for the program. A handler, unlike "ignore", is not inherited.
    let for_the_program = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let _handlers: Vec<_> =
        for_the_program.map(signal).into_iter().collect::<Result<_, _>>().map_err(Failure::new)?;

    let mut command = Command::new(program);
    command.args(rest);
    let mut child = command.spawn().map_err(|error| Failure {
        code: if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
        message: format!("cannot start '{}': {error}", program.display()),
    })?;
    let_go_of_pipes().map_err(Failure::new)?;

    tokio::select! {
        status = child.wait() => {
            use std::os::unix::process::ExitStatusExt as _;
            let status = status.map_err(Failure::new)?;
            let code = status.code().or_else(|| Some(128 + status.signal()?));
            Ok(code.and_then(|code| code.try_into().ok()).unwrap_or(1))
        }
        _ = server_end => {
            // The program's input has ended with the server: the polite way to ask.
            ask_to_end(&mut child, Duration::from_millis(arguments.grace_ms)).await;
            Err(Failure::new("the server has ended"))
        }
    }
}

/// When the process of the handle has ended. A thread waits for it: the runtime's own way to wait for a handle is not safe code.
fn end_of(process: OwnedFd) -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        while let Err(Errno::INTR) = poll(&mut [PollFd::new(&process, PollFlags::IN)], None) {}
        _ = ended.send(());
    });
    end
}

/// Its input has ended; it has the grace to end by itself, and again after SIGTERM.
async fn ask_to_end(child: &mut Child, grace: Duration) {
    if tokio::time::timeout(grace, child.wait()).await.is_ok() {
        return;
    }
    if let Some(id) = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
        _ = kill_process(id, Signal::TERM);
    }
    _ = tokio::time::timeout(grace, child.wait()).await;
}

/// Input and output belong to the program alone: whether one of them is closed must be seen by the server.
fn let_go_of_pipes() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Kills what is left. The children of who dies become ours, so this ends when there is nobody.
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
