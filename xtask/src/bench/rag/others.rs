//! The programs that the benchmark compares with, from PyPI, with pinned versions.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{Failed, root};

/// A program that the benchmark compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// With our vectors, its own keyword index, and its own fusion (`RRFReranker`).
    LanceDb,
    /// An MCP server, with its own vectors.
    Grounded,
}

impl Peer {
    pub(super) const ALL: [Self; 2] = [Self::LanceDb, Self::Grounded];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LanceDb => "lancedb 0.40.0",
            Self::Grounded => "grounded-rag-mcp 0.1.0",
        }
    }

    /// Returns the program's name in `bench/peers/rag.py`.
    pub(super) fn script_name(self) -> &'static str {
        match self {
            Self::LanceDb => "lancedb",
            Self::Grounded => "grounded",
        }
    }

    /// Returns the largest number of chunks to measure. Above it one search takes seconds, or the
    /// database takes too long to build.
    pub(super) fn max_chunks(self) -> usize {
        match self {
            Self::LanceDb => 100_000,
            Self::Grounded => 10_000,
        }
    }

    pub(super) fn queries(self, chunks: usize) -> usize {
        match self {
            Self::LanceDb if chunks <= 10_000 => 200,
            Self::LanceDb => 100,
            Self::Grounded => 30,
        }
    }
}

pub(super) fn names() -> String {
    Peer::ALL.map(Peer::name).join(", ")
}

/// A Python environment in which the other programs are installed.
pub(super) struct Python {
    program: PathBuf,
}

impl Python {
    /// Installs the other programs into `target/bench-venv`, unless they are installed.
    pub(super) fn install() -> Result<Self, Failed> {
        let folder = root().join("target/bench-venv");
        let program = folder.join("bin/python");
        if !program.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        }
        let packages = Peer::ALL.map(|other| other.name().replace(' ', "=="));
        run(Command::new(&program)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(packages))?;
        Ok(Self { program })
    }

    /// Indexes the chunks. Returns [`None`] for a program that stores nothing.
    pub(super) fn index(
        &self,
        other: Peer,
        folder: &Path,
        database: &Path,
    ) -> Result<Option<String>, Failed> {
        match other {
            Peer::Grounded => Ok(None),
            Peer::LanceDb => self.script(other, "index", folder, database, &[]).map(Some),
        }
    }

    pub(super) fn search(
        &self,
        other: Peer,
        folder: &Path,
        database: &Path,
        queries: usize,
        limit: usize,
    ) -> Result<String, Failed> {
        // Grounded stores nothing, so one run of the script indexes and searches.
        let job = if other == Peer::Grounded { "both" } else { "search" };
        self.script(other, job, folder, database, &[queries, limit])
    }

    fn script(
        &self,
        other: Peer,
        job: &str,
        folder: &Path,
        database: &Path,
        numbers: &[usize],
    ) -> Result<String, Failed> {
        run(Command::new(&self.program)
            .arg(root().join("bench/peers/rag.py"))
            .args([other.script_name(), job])
            .args([folder, database])
            .args(numbers.iter().map(usize::to_string)))
    }
}

/// Returns the output of a command. Its standard error appears only in the error.
fn run(command: &mut Command) -> Result<String, Failed> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.trim().lines().last().unwrap_or_default();
        return Err(Failed::new(format!("{command:?}: {}: {last}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
