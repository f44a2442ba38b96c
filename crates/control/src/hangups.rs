//! SIGHUP: a request to reload, or the end of a terminal.

use std::io;

/// SIGHUP, which a service manager sends for a reload, and the system when a terminal is closed.
#[cfg(unix)]
#[derive(Debug)]
pub struct Hangups {
    signal: tokio::signal::unix::Signal,
    /// Whether the process was started in a terminal.
    had_terminal: bool,
}

#[cfg(unix)]
impl Hangups {
    /// Keeps SIGHUP from ending the process from now on. Needs a runtime of Tokio.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal cannot be received.
    pub fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let signal = signal(SignalKind::hangup())?;
        Ok(Self { signal, had_terminal: has_terminal() })
    }

    /// Waits for the next request to reload. If the terminal of the process was closed, the process
    /// gets SIGTERM instead.
    pub async fn next(&mut self) {
        use rustix::process::{Signal, getpid, kill_process};
        while self.signal.recv().await.is_some() {
            if !self.had_terminal || has_terminal() {
                return;
            }
            _ = kill_process(getpid(), Signal::TERM);
        }
        std::future::pending::<()>().await;
    }
}

/// Returns whether a standard stream is a terminal. One that was closed no longer is.
#[cfg(unix)]
fn has_terminal() -> bool {
    use std::io::{IsTerminal as _, stderr, stdin};
    stdin().is_terminal() || stderr().is_terminal()
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
#[derive(Debug)]
pub struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    /// Does nothing.
    ///
    /// # Errors
    ///
    /// Returns no error.
    pub fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never completes.
    pub async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
