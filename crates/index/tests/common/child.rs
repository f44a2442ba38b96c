//! Another process, with this same test binary, that writes until it is killed. It exits with the
//! process that started it.

use std::{
    ffi::OsStr,
    io::Read as _,
    process::{Command, Stdio},
};

/// Killed when dropped.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Runs one test, for which the environment has that value.
    pub(crate) fn start(test: &str, variable: &str, value: impl AsRef<OsStr>) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(variable, value)
            // Closed when this process ends, however it does: see `end_with_parent`.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    /// Kills it in the middle of its work, which it has not ended by itself.
    pub(crate) fn kill(mut self) {
        let ended = self.0.try_wait().unwrap();
        assert!(ended.is_none(), "the child ended before it was killed: {ended:?}");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends the child when its standard input is closed.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
}
