//! The suite: installs it, lists its scenarios, and runs them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use super::{
    Side,
    outcome::{Check, Outcome},
    program::Server,
};
use crate::Failed;

/// The suite, and the version of Node.js that it needs: older ones lack functions that it calls.
const PACKAGES: [&str; 2] = ["node@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12"];

/// The revisions for which the suite has scenarios.
pub(super) const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The installed suite.
pub(super) struct Suite {
    directory: PathBuf,
}

/// A scenario to run.
pub(super) struct PlannedScenario {
    pub(super) name: String,
    /// Why the suite does not score it: its own reason, or `extension`.
    pub(super) unscored: Option<String>,
}

/// The program that a scenario tests.
pub(super) enum Subject {
    Server(Server),
    /// A client's command.
    Client(String),
}

/// Requirements of the suite for one revision.
#[derive(Default, Deserialize)]
struct Requirements {
    #[serde(default)]
    not_scored: Vec<NotScored>,
}

#[derive(Deserialize)]
struct NotScored {
    scenario: String,
    leg: String,
    reason: String,
}

impl Suite {
    /// Installs the suite into `directory`, unless it is there already.
    pub(super) fn install(directory: &Path) -> Result<Self, Failed> {
        let suite = Self { directory: directory.to_owned() };
        let wanted = PACKAGES.join("\n");
        let stamp = directory.join("installed");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(suite);
        }
        fs::create_dir_all(directory)?;
        let status = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"])
            .arg("--prefix")
            .arg(directory)
            .args(PACKAGES)
            .status()?;
        if !status.success() {
            return Err(Failed::new("npm failed to install the conformance suite"));
        }
        fs::write(stamp, wanted)?;
        Ok(suite)
    }

    fn package(&self) -> PathBuf {
        self.directory.join("node_modules/@modelcontextprotocol/conformance")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.directory.join("node_modules/.bin/node"));
        command.arg(self.package().join("dist/index.js")).current_dir(&self.directory);
        // A run starts Node.js about a hundred times; most of a start is the compilation of the
        // same scripts.
        command.env("NODE_COMPILE_CACHE", self.directory.join("compile-cache"));
        command
    }

    /// Returns the scenarios of one revision: those that apply to it, and those of the extensions
    /// that the suite reports with it. Extensions that it reports with no revision run with the
    /// newest.
    pub(super) fn plan(&self, side: Side, revision: &str) -> Result<Vec<PlannedScenario>, Failed> {
        let mut unscored: BTreeMap<&str, Vec<NotScored>> = BTreeMap::new();
        for revision in REVISIONS {
            let path = self.package().join(format!("requirements/{revision}.yaml"));
            // Older revisions have no such file.
            let Ok(text) = fs::read_to_string(path) else { continue };
            let requirements: Requirements =
                serde_yaml::from_str(&text).map_err(|error| Failed::new(error.to_string()))?;
            let mut entries = requirements.not_scored;
            entries.retain(|entry| entry.leg == side.as_str());
            unscored.insert(revision, entries);
        }
        let output = self.command().args(["list", &format!("--{}", side.as_str())]).output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(Failed::new(format!("the suite failed to list its scenarios: {error}")));
        }
        let list = String::from_utf8_lossy(&output.stdout).into_owned();
        let scenarios = list.lines().filter_map(|line| {
            let (name, tags) = line.trim_start().strip_prefix("- ")?.split_once(" [")?;
            Some((name, tags.strip_suffix(']')?))
        });
        let planned = scenarios.filter_map(|(name, tags)| {
            let unscored_here = reason_not_to_score(&unscored, revision, name);
            let runs = match tags {
                "extension"
                    if REVISIONS
                        .iter()
                        .any(|other| reason_not_to_score(&unscored, other, name).is_some()) =>
                {
                    unscored_here.is_some()
                }
                "extension" => REVISIONS.last() == Some(&revision),
                revisions => revisions.split(',').any(|other| other == revision),
            };
            let unscored = match tags {
                "extension" => unscored_here.or(Some("extension".to_owned())),
                _ => unscored_here,
            };
            runs.then(|| PlannedScenario { name: name.to_owned(), unscored })
        });
        Ok(planned.collect())
    }

    /// Runs the server scenarios of one revision in one process, and returns the outcomes of the
    /// planned ones. The suite leaves out extensions this way; the caller runs them alone.
    ///
    /// The suite takes half a second to start, which is longer than most scenarios take.
    pub(super) fn run_server_scenarios(
        &self,
        url: &str,
        plan: &[PlannedScenario],
        revision: &str,
        results: &Path,
    ) -> Result<Vec<Outcome>, Failed> {
        let directory = results.join(format!("server-{revision}"));
        fs::create_dir_all(&directory)?;
        let output = self
            .command()
            .args(["server", "--url", url, "--suite", "all", "--spec-version", revision])
            .arg("--output-dir")
            .arg(&directory)
            .stdin(Stdio::null())
            .output()?;
        let log = [&output.stdout[..], &output.stderr].concat();
        fs::write(directory.join("log.txt"), &log)?;
        let mut outcomes = Vec::new();
        for planned in plan {
            let Some(checks) = checks_of(&directory, &planned.name)? else { continue };
            outcomes.push(Outcome {
                name: planned.name.clone(),
                unscored: planned.unscored.clone(),
                checks,
                // The suite has one exit status for all scenarios, and takes it from the checks.
                suite_succeeded: true,
                log: String::from_utf8_lossy(&log).into_owned(),
            });
        }
        Ok(outcomes)
    }

    /// Runs one scenario.
    pub(super) fn run(
        &self,
        subject: &Subject,
        planned: &PlannedScenario,
        revision: &str,
        results: &Path,
    ) -> Result<Outcome, Failed> {
        let name = &planned.name;
        let (side, option, value) = match subject {
            Subject::Server(server) => (Side::Server, "--url", &server.url),
            Subject::Client(command) => (Side::Client, "--command", command),
        };
        let directory =
            results.join(format!("{}-{revision}-{}", side.as_str(), name.replace('/', "-")));
        fs::create_dir_all(&directory)?;
        let output = self
            .command()
            .args([side.as_str(), option, value])
            .args(["--scenario", name, "--spec-version", revision, "--force", "--output-dir"])
            .arg(&directory)
            .stdin(Stdio::null())
            .output()?;
        let log = [&output.stdout[..], &output.stderr].concat();
        fs::write(directory.join("log.txt"), &log)?;
        let checks = match find(&directory, "checks.json")? {
            Some(path) => read_checks(&path)?,
            None => Vec::new(),
        };
        Ok(Outcome {
            name: name.clone(),
            unscored: planned.unscored.clone(),
            checks,
            suite_succeeded: output.status.success(),
            log: String::from_utf8_lossy(&log).into_owned(),
        })
    }
}

/// Returns the suite's reason not to score a scenario of a revision.
fn reason_not_to_score(
    unscored: &BTreeMap<&str, Vec<NotScored>>,
    revision: &str,
    scenario: &str,
) -> Option<String> {
    let entries = unscored.get(revision)?;
    Some(entries.iter().find(|entry| entry.scenario == scenario)?.reason.clone())
}

/// Returns the checks of one server scenario from the results of a run of many, whose folders have
/// the scenario's name and a time.
fn checks_of(directory: &Path, scenario: &str) -> Result<Option<Vec<Check>>, Failed> {
    let start = format!("server-{scenario}-");
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let time = name.to_str().and_then(|it| it.strip_prefix(&start));
        // Another scenario's name may begin with this one's.
        if time.is_some_and(|it| it.starts_with(|first: char| first.is_ascii_digit())) {
            let path = find(&entry.path(), "checks.json")?;
            return path.map(|it| read_checks(&it)).transpose();
        }
    }
    Ok(None)
}

fn read_checks(path: &Path) -> Result<Vec<Check>, Failed> {
    serde_json::from_slice(&fs::read(path)?)
        .map_err(|error| Failed::new(format!("invalid checks in {}: {error}", path.display())))
}

/// Returns the file `name` below `directory`; the suite puts a time into the path.
fn find(directory: &Path, name: &str) -> Result<Option<PathBuf>, Failed> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name)? {
                return Ok(Some(found));
            }
        } else if path.file_name().is_some_and(|found| found == name) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
