//! `cargo xtask seeds`: prints each id of the seeds with its tests, and fails if an id has none.

mod claim;
mod javascript;
mod rust;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde::Deserialize;

use self::claim::{Claim, NOT_ABOVE_A_TEST, is_claim};
use crate::{Failed, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask seeds              list each id with its tests
  cargo xtask seeds --problems   list only the problems, and count the ids

A test carries an id by a comment line directly above it: `/// seed: ID` above a function with #[test] in Rust,
`// seed: ID` above `test(` or `it(` in JavaScript. A check of a conformance suite carries it like a test. A
scenario carries it by its key `seed`. Text after the id begins with a comma. tests/seeds.tsv lists the ids.";

/// The list of ids, each with the name of its test in the seed.
const LIST: &str = "tests/seeds.tsv";

/// The folder with the scenarios.
const SCENARIOS: &str = "tests/scenarios";

/// Folders without sources of this project.
const FOREIGN: &[&str] = &[".git", ".venv", "book", "corpus", "node_modules", "target"];

/// Options of `seeds`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Prints only the problems and the count.
    #[arg(long)]
    problems: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let list = fs::read_to_string(root().join(LIST))?;
    let ids = read_list(&list)?;
    let report = Report::new(&ids, &sources(&root())?);
    if !options.problems {
        for (id, tests) in ids.iter().zip(&report.tests) {
            println!("{}", format!("{}  {}", id.id, id.name).trim_end());
            for test in tests {
                println!("    {test}");
            }
        }
        println!();
    }
    for problem in &report.problems {
        println!("FAILED: {problem}");
    }
    let covered = report.tests.iter().filter(|tests| !tests.is_empty()).count();
    let tests: usize = report.tests.iter().map(Vec::len).sum();
    println!(
        "seeds: {covered} of {} ids have a test; {tests} tests; {} problems",
        ids.len(),
        report.problems.len()
    );
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An id, with the name of its test in the seed.
#[derive(Debug, PartialEq, Eq)]
struct Id<'a> {
    id: &'a str,
    name: &'a str,
}

/// Parses the list of ids: an id and a name a line, with a tab between them.
fn read_list(text: &str) -> Result<Vec<Id<'_>>, Failed> {
    let mut ids: Vec<Id<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((id, name)) = line.split_once('\t') else {
            return Err(Failed::new(format!("{LIST}:{number}: no tab after the id")));
        };
        if ids.iter().any(|other| other.id == id) {
            return Err(Failed::new(format!("{LIST}:{number}: duplicate id {id}")));
        }
        ids.push(Id { id, name });
    }
    Ok(ids)
}

/// A file that may have tests.
struct Source {
    /// Its path below the root, with `/` between folders.
    path: String,
    text: String,
}

/// Reads all files below a folder in which an id may stand.
fn sources(root: &Path) -> io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            let file_name = entry.file_name();
            let name = file_name.to_string_lossy();
            if kind.is_dir() && !FOREIGN.contains(&&*name) {
                folders.push(path);
            } else if kind.is_file() && Language::of(&name).is_some() {
                sources.push(Source {
                    text: fs::read_to_string(root.join(&path))?,
                    path: path.to_string_lossy().replace('\\', "/"),
                });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

/// The language of a file, which decides where an id may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Rust,
    JavaScript,
    Yaml,
    /// A language whose files have no tests with ids.
    Other,
}

impl Language {
    fn of(file: &str) -> Option<Self> {
        match file.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "js" | "mjs" | "cjs" | "ts" | "mts" => Some(Self::JavaScript),
            "yaml" | "yml" => Some(Self::Yaml),
            "py" | "sh" | "java" | "go" | "html" | "css" => Some(Self::Other),
            _ => None,
        }
    }
}

/// The tests of each id, and the problems.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    /// For each id of the list, its tests: position and name.
    tests: Vec<Vec<String>>,
    problems: Vec<String>,
}

impl Report {
    fn new(ids: &[Id<'_>], sources: &[Source]) -> Self {
        let mut report = Self { tests: vec![Vec::new(); ids.len()], problems: Vec::new() };
        for source in sources {
            for claim in claims(source, sources) {
                report.add(ids, source, claim);
            }
        }
        for (id, tests) in ids.iter().zip(&report.tests) {
            if tests.is_empty() {
                let name = if id.name.is_empty() { "" } else { &format!(" ({})", id.name) };
                report.problems.push(format!("no test carries the id {}{name}", id.id));
            }
        }
        report
    }

    fn add(&mut self, ids: &[Id<'_>], source: &Source, claim: Claim) {
        let position = format!("{}:{}", source.path, claim.line);
        let listed = ids.iter().position(|id| {
            claim.text.strip_prefix(id.id).is_some_and(|rest| {
                // Text after the id says what the test adds to others of this id.
                rest.is_empty() || rest.starts_with(", ")
            })
        });
        match (listed, claim.test) {
            (None, _) => {
                self.problems.push(format!("{position}: {LIST} has no id `{}`", claim.text));
            }
            (Some(_), Err(problem)) => {
                self.problems.push(format!("{position}: {}: {problem}", claim.text));
            }
            (Some(listed), Ok(test)) => self.tests[listed].push(format!("{position}  {test}")),
        }
    }
}

/// Returns the ids that stand in a file.
fn claims(source: &Source, all: &[Source]) -> Vec<Claim> {
    let language = Language::of(&source.path).unwrap_or(Language::Other);
    match language {
        Language::Rust => {
            let is_suite = source.path.ends_with("/conformance.rs");
            let has_caller = is_suite && calls_suite(&source.path, all);
            rust::claims(&source.text, has_caller)
        }
        Language::JavaScript => javascript::claims(&source.text),
        Language::Yaml | Language::Other => {
            let mut claims = claim::in_comments(&source.text, |_| Err(NOT_ABOVE_A_TEST.to_owned()));
            if language == Language::Yaml {
                claims.extend(scenario_claim(source));
            }
            claims
        }
    }
}

/// Returns whether another file of the same crate calls `conformance::check`.
fn calls_suite(suite: &str, all: &[Source]) -> bool {
    let folder = suite.split_inclusive('/').take(2).collect::<String>();
    all.iter().filter(|it| it.path.starts_with(&folder) && it.path != suite).any(|it| {
        it.text.lines().any(|line| {
            !line.trim_start().starts_with("//") && line.contains("conformance::check(")
        })
    })
}

/// The keys of a scenario that this task needs.
#[derive(Deserialize)]
struct Scenario {
    id: Option<String>,
    seed: Option<String>,
}

/// Returns the id that a YAML file has as its key `seed`.
fn scenario_claim(source: &Source) -> Option<Claim> {
    // Other YAML files belong to other programs, which report their errors.
    let scenario: Scenario = serde_yaml::from_str(&source.text).ok()?;
    let seed = scenario.seed.filter(|seed| is_claim(&format!("# seed: {seed}")))?;
    let line = source.text.lines().position(|line| line.starts_with("seed:"))? + 1;
    let is_scenario = source.path.starts_with(&format!("{SCENARIOS}/"));
    let test = match scenario.id {
        Some(id) if is_scenario => Ok(id),
        _ => Err(format!("the file is not a scenario of {SCENARIOS}")),
    };
    Some(Claim { line, text: seed, test })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns the report on files, in whose text `@` stands for the word that begins an id.
    /// Otherwise the task would take the tests of this module for tests with ids.
    fn report(files: &[(&str, &str)]) -> Report {
        let ids = read_list("000/1\tone\n000/2\t\n003/A.js.a b\t").unwrap();
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source {
                path: (*path).to_owned(),
                text: text.replace('@', "seed:"),
            })
            .collect();
        Report::new(&ids, &sources)
    }

    /// Checks the problems of a file; those of ids without tests are left out.
    #[track_caller]
    fn check(path: &str, text: &str, want: &[&str]) {
        let mut problems = report(&[(path, text)]).problems;
        problems.retain(|it| !it.starts_with("no test carries"));
        assert_eq!(problems, want);
    }

    #[test]
    fn the_list_has_all_ids() {
        let text = fs::read_to_string(root().join(LIST)).unwrap();
        let mut counts = BTreeMap::new();
        for id in read_list(&text).unwrap() {
            *counts.entry(id.id[..3].to_owned()).or_insert(0) += 1;
        }
        let want = [("000", 25), ("001", 45), ("002", 8), ("003", 164), ("004", 26)];
        assert_eq!(counts, want.map(|(seed, count)| (seed.to_owned(), count)).into());
    }

    #[test]
    fn a_list_with_a_repeated_id_is_refused() {
        let error = read_list("000/1\ta\n000/1\tb").unwrap_err();
        assert_eq!(error.to_string(), "tests/seeds.tsv:2: duplicate id 000/1");
        let error = read_list("000/1").unwrap_err();
        assert_eq!(error.to_string(), "tests/seeds.tsv:1: no tab after the id");
    }

    #[test]
    fn tests_of_three_languages_carry_ids() {
        let report = report(&[
            ("a.rs", "/// @ 000/1\n#[test]\nfn one() {}\n"),
            ("b.mjs", "// @ 003/A.js.a b\ntest(\"parses\", () => {});\n"),
            ("tests/scenarios/c.yaml", "id: c\ntitle: t\n@ 000/2   # section\n"),
            ("tests/scenarios/d.yaml", "id: d\ntitle: t\n@ 000/1\n"),
        ]);
        assert_eq!(report.problems, [""; 0]);
        assert_eq!(
            report.tests,
            [
                vec!["a.rs:1  one", "tests/scenarios/d.yaml:3  d"],
                vec!["tests/scenarios/c.yaml:3  c"],
                vec!["b.mjs:1  parses"],
            ]
        );
    }

    #[test]
    fn an_id_without_a_test_is_a_problem() {
        let report = report(&[("a.rs", "/// @ 000/2\n#[test]\nfn two() {}\n")]);
        assert_eq!(
            report.problems,
            ["no test carries the id 000/1 (one)", "no test carries the id 003/A.js.a b"]
        );
    }

    #[test]
    fn unknown_ids_are_problems() {
        let text = "/// @ 000/11\n#[test]\nfn one() {}\n";
        check("a.rs", text, &["a.rs:1: tests/seeds.tsv has no id `000/11`"]);
        let text = "/// @ 000/1 and more\n#[test]\nfn one() {}\n";
        check("a.rs", text, &["a.rs:1: tests/seeds.tsv has no id `000/1 and more`"]);
        check("a.rs", "/// @ 000/1, for a resource\n#[test]\nfn one() {}\n", &[]);
        let text = "id: a\n@ 000/3\n";
        let want = "tests/scenarios/a.yaml:2: tests/seeds.tsv has no id `000/3`";
        check("tests/scenarios/a.yaml", text, &[want]);
    }

    #[test]
    fn ids_elsewhere_are_problems() {
        let problem = "000/1: the id is not directly above a test";
        check("a.py", "# @ 000/1\ndef test():\n", &[&format!("a.py:1: {problem}")]);
        let path = "tests/scenarios/a.yaml";
        check(path, "id: a\n# @ 000/1\n", &[&format!("{path}:2: {problem}")]);
        let want = "ci/a.yaml:2: 000/1: the file is not a scenario of tests/scenarios";
        check("ci/a.yaml", "id: a\n@ 000/1\n", &[want]);
        check("ci/a.yaml", "seed: 7\n", &[]);
    }

    #[test]
    fn a_check_of_a_suite_that_a_test_calls_carries_ids() {
        let suite = "pub async fn check() {\n    one(&make()).await;\n}\n\n/// @ 000/1\nasync fn one() {}\n\n/// @ 000/2\nasync fn two() {}\n";
        let caller = ("crates/a/src/memory.rs", "    conformance::check(make).await;\n");
        let with_caller = report(&[("crates/a/src/conformance.rs", suite), caller]);
        assert_eq!(with_caller.tests[0], ["crates/a/src/conformance.rs:5  one"]);
        assert_eq!(
            with_caller.problems[0],
            "crates/a/src/conformance.rs:8: 000/2: the function `two` is not a test"
        );
        let other = ("crates/b/src/memory.rs", caller.1);
        let without_caller = report(&[("crates/a/src/conformance.rs", suite), other]);
        assert_eq!(
            without_caller.problems[0],
            "crates/a/src/conformance.rs:5: 000/1: the function `one` is not a test"
        );
    }
}
