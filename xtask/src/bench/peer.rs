//! The measured programs: builds, starts and stops them.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::{Failed, cargo_command, executable, root};

/// A measured program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Marquetry,
    Rmcp,
    Floor,
}

impl Peer {
    pub(super) const ALL: [Self; 3] = [Self::Marquetry, Self::Rmcp, Self::Floor];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Marquetry => "marquetry",
            Self::Rmcp => "rmcp 3.9.0",
            Self::Floor => "floor",
        }
    }

    fn build_arguments(self) -> Vec<String> {
        match self {
            Self::Marquetry => {
                ["--package=marquetry-protocol", "--example=echo"].map(str::to_owned).to_vec()
            }
            Self::Rmcp => peer_arguments("rmcp"),
            Self::Floor => peer_arguments("floor"),
        }
    }
}

/// Returns the arguments that build a peer, which is outside of the workspace with its own lock
/// file.
pub(super) fn peer_arguments(folder: &str) -> Vec<String> {
    let manifest = root().join("bench/peers").join(folder).join("Cargo.toml");
    let target = root().join("target/bench-peers");
    vec![
        format!("--manifest-path={}", manifest.display()),
        format!("--target-dir={}", target.display()),
        "--locked".to_owned(),
    ]
}

/// Builds one program with cargo, and returns its path.
pub(super) fn build(name: &str, arguments: &[String]) -> Result<PathBuf, Failed> {
    let output = cargo_command()
        .args(["build", "--release", "--quiet", "--message-format=json"])
        .args(arguments)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()?;
    executable(&output.stdout, |_| true)
        .ok_or_else(|| Failed::new(format!("{name} failed to build")))
}

/// A peer's built program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) peer: Peer,
    path: PathBuf,
}

impl Program {
    pub(super) fn build(peer: Peer) -> Result<Self, Failed> {
        let path = build(peer.name(), &peer.build_arguments())?;
        Ok(Self { peer, path })
    }

    /// Starts it with pipes for standard input and output.
    pub(super) fn start_on_pipes(&self) -> Result<RunningProgram, Failed> {
        let mut command = Command::new(&self.path);
        command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(RunningProgram { child: command.spawn()? })
    }

    /// Starts it in one of its HTTP modes; returns its URL, too.
    pub(super) fn start_http(&self, mode: &str) -> Result<(RunningProgram, String), Failed> {
        let mut running = RunningProgram {
            child: Command::new(&self.path).arg(mode).stdout(Stdio::piped()).spawn()?,
        };
        let mut url = String::new();
        if let Some(stdout) = running.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        if url.trim().is_empty() {
            return Err(Failed::new(format!("{} did not print its address", self.peer.name())));
        }
        Ok((running, url.trim().to_owned()))
    }
}

/// A running program, killed when dropped.
#[derive(Debug)]
pub(super) struct RunningProgram {
    pub(super) child: Child,
}

impl RunningProgram {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
