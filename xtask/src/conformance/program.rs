//! The programs that are tested: examples of `crates/protocol`.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{Failed, cargo, root};

/// Builds an example and tells where it is.
pub(super) fn build(example: &str) -> Result<PathBuf, Failed> {
    let output = Command::new(cargo())
        .args(["build", "--quiet", "--message-format=json"])
        .args([
            "--package",
            "marquetry-protocol",
            "--features",
            "oauth,skills",
            "--example",
            example,
        ])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| Failed::new(format!("the example {example} does not build")))
}

/// The server with the suite's fixtures, ended when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) url: String,
}

impl Server {
    pub(super) fn start(program: &Path) -> Result<Self, Failed> {
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        Ok(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
