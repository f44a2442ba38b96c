//! `cargo xtask house`: prints the crates with their lines, edges and circles of modules, and
//! compares them with `ARCHITECTURE.md`.

mod edges;
mod exceptions;
mod modules;
mod paths;
mod readme;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    process::ExitCode,
};

use clap::Args;

use self::{
    exceptions::Exceptions,
    modules::{Circle, Modules},
};
use crate::{Dependency, Failed, Package, packages, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask house                the table, and what is wrong
  cargo xtask house --circles      each circle with the paths that close it, exceptions too

A crate may depend on the crates that the block of edges in ARCHITECTURE.md lists for it, and the block lists no other edge.
Its source (src, with the unit tests) has at most 12,000 lines. Two modules that lie side by side do not name each other,
neither directly nor through others. Its README.md is its documentation and has an example in Rust. Exceptions are in xtask/src/house/exceptions.rs.";

/// Maximum lines of source of a crate.
const MAX_LINES: usize = 12_000;

/// Options of `house`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Prints each circle with the paths that form it, including those of crates with exceptions.
    #[arg(long)]
    circles: bool,
}

/// A crate with the facts for the checks.
struct Crate {
    name: String,
    lines: usize,
    /// The crates of this workspace that it depends on, without dev-dependencies.
    edges: BTreeSet<String>,
    circles: Vec<Circle>,
    /// The problem with its README, if there is one.
    readme: Option<String>,
}

impl Crate {
    /// Returns the number of modules in circles.
    fn circular_modules(&self) -> usize {
        self.circles.iter().map(|circle| circle.modules.len()).sum()
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let crates = crates_of(&ruled_packages()?)?;
    print_table(&crates);
    let problems = problems(&crates, &document, exceptions::KNOWN);
    for one in &crates {
        for circle in &one.circles {
            let is_excepted = exceptions::KNOWN
                .iter()
                .any(|(name, it)| *name == one.name && it.circular_modules > 0);
            if options.circles || !is_excepted {
                println!(
                    "\ncircle in {}: {}\n{}",
                    one.name,
                    circle.modules.join(", "),
                    circle.witnesses()
                );
            }
        }
    }
    for problem in &problems {
        println!("FAILED: {problem}");
    }
    println!("\nhouse: {} crates, {} problems", crates.len(), problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_table(crates: &[Crate]) {
    println!("{:16} {:>7} {:>8}  depends on", "crate", "lines", "circular");
    for one in crates {
        let edges: Vec<&str> = one.edges.iter().map(String::as_str).collect();
        println!(
            "{:16} {:>7} {:>8}  {}",
            one.name,
            one.lines,
            one.circular_modules(),
            edges.join(", ")
        );
    }
    let sum: usize = crates.iter().map(|one| one.lines).sum();
    println!("{:16} {sum:>7}  (circular: modules that lie in a circle)", "together");
}

/// Returns the violations of the rules.
fn problems(crates: &[Crate], document: &str, known: &[(&str, Exceptions)]) -> Vec<String> {
    let mut problems = Vec::new();
    match edges::parse(document) {
        Ok(listed) => {
            let actual: BTreeMap<&str, &BTreeSet<String>> =
                crates.iter().map(|one| (one.name.as_str(), &one.edges)).collect();
            problems.extend(edges::compare(&actual, &listed));
        }
        Err(problem) => problems.push(problem),
    }
    for one in crates {
        let excepted = known.iter().find(|(name, _)| *name == one.name);
        let excepted = excepted.map(|(_, it)| *it).unwrap_or_default();
        problems.extend(exceptions::judge(
            &one.name,
            "lines of source",
            one.lines,
            MAX_LINES,
            excepted.lines,
        ));
        problems.extend(exceptions::judge(
            &one.name,
            "modules in circles",
            one.circular_modules(),
            0,
            excepted.circular_modules,
        ));
        match &one.readme {
            Some(problem) if !excepted.readme => {
                problems.push(format!("{} has {problem}", one.name));
            }
            None if excepted.readme => problems.push(format!(
                "{} has a good README.md: take its exception off exceptions.rs",
                one.name
            )),
            _ => {}
        }
    }
    let names: BTreeSet<&str> = crates.iter().map(|one| one.name.as_str()).collect();
    let gone = known.iter().filter(|(name, _)| !names.contains(name));
    problems.extend(
        gone.map(|(name, _)| format!("exceptions.rs lists the crate {name}, which does not exist")),
    );
    problems
}

/// Returns the packages under the rules: the crates, and xtask.
fn ruled_packages() -> Result<Vec<Package>, Failed> {
    let mut packages = packages()?;
    packages.retain(|package| {
        let folder = package.manifest_path.parent();
        folder.is_some_and(|it| it.starts_with(root().join("crates")) || it == root().join("xtask"))
    });
    Ok(packages)
}

fn crates_of(packages: &[Package]) -> Result<Vec<Crate>, Failed> {
    // Crates are named by their folders: `marquetry-rag` is `rag`, and the binary's crate is
    // `server`.
    let folder = |package: &Package| {
        let folder = package.manifest_path.parent().and_then(Path::file_name);
        folder.map_or_else(|| package.name.clone(), |it| it.to_string_lossy().into_owned())
    };
    let names: BTreeMap<&str, String> =
        packages.iter().map(|package| (package.name.as_str(), folder(package))).collect();
    let mut crates = Vec::new();
    for package in packages {
        let source = package.manifest_path.with_file_name("src");
        let is_for_tests = |it: &&Dependency| it.kind.as_deref() == Some("dev");
        let modules = Modules::read(&source)?;
        crates.push(Crate {
            name: folder(package),
            lines: lines(&source)?,
            edges: package
                .dependencies
                .iter()
                .filter(|it| !is_for_tests(it))
                .filter_map(|it| names.get(it.name.as_str()).cloned())
                .collect(),
            circles: modules.circles(),
            readme: match package.manifest_path.parent() {
                Some(folder) => readme::problem(folder)?,
                None => None,
            },
        });
    }
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

/// Counts the lines of all Rust files below a folder.
fn lines(folder: &Path) -> io::Result<usize> {
    let mut sum = 0;
    for file in modules::rust_files(folder)? {
        sum += fs::read_to_string(file)?.lines().count();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(name: &str, lines: usize, edges: &[&str], circular: usize) -> Crate {
        let modules = (0..circular).map(|number| format!("m{number}")).collect();
        let circle = Circle { modules, edges: Vec::new() };
        Crate {
            name: name.to_owned(),
            lines,
            edges: edges.iter().map(|&it| it.to_owned()).collect(),
            circles: if circular == 0 { Vec::new() } else { vec![circle] },
            readme: None,
        }
    }

    #[track_caller]
    fn check(crates: &[Crate], block: &str, known: &[(&str, Exceptions)], want: &[&str]) {
        let document = format!("# House\n\n```edges\n{block}\n```\n");
        assert_eq!(problems(crates, &document, known), want);
    }

    #[test]
    fn a_sound_house_has_no_problem() {
        let crates = [
            made_up("a", MAX_LINES, &["b", "c"], 0),
            made_up("b", 1, &[], 0),
            made_up("c", 1, &["b"], 0),
        ];
        check(&crates, "a -> b\na -> c\nc -> b", &[], &[]);
    }

    #[test]
    fn unlisted_and_stale_edges_are_found() {
        let crates = [made_up("a", 1, &["b"], 0), made_up("b", 1, &[], 0)];
        check(
            &crates,
            "",
            &[],
            &["a depends on b, and the block of edges in ARCHITECTURE.md does not list `a -> b`"],
        );
        check(
            &crates,
            "a -> b\nb -> a",
            &[],
            &["the block of edges in ARCHITECTURE.md lists `b -> a`, and b does not depend on a"],
        );
        let no_block = problems(&crates, "# House\n", &[]);
        assert_eq!(no_block, ["ARCHITECTURE.md has no block of edges, which begins with ```edges"]);
    }

    #[test]
    fn large_crates_and_circles_are_found_unless_excepted() {
        let crates = [made_up("a", MAX_LINES + 1, &[], 2)];
        check(
            &crates,
            "",
            &[],
            &[
                "a has 12001 lines of source; the limit is 12000",
                "a has 2 modules in circles; the limit is 0",
            ],
        );
        let excepted = Exceptions { lines: MAX_LINES + 1, circular_modules: 2, readme: false };
        check(&crates, "", &[("a", excepted)], &[]);
        check(
            &crates,
            "",
            &[("a", Exceptions { circular_modules: 1, ..excepted })],
            &["a has 2 modules in circles; exceptions.rs allows 1 for it"],
        );
    }

    #[test]
    fn an_exception_that_is_not_needed_is_found() {
        let excepted = Exceptions { lines: 20_000, circular_modules: 3, readme: false };
        check(
            &[made_up("a", 5, &[], 0)],
            "",
            &[("a", excepted), ("b", excepted)],
            &[
                "a has 5 lines of source: take its exception off exceptions.rs",
                "a has 0 modules in circles: take its exception off exceptions.rs",
                "exceptions.rs lists the crate b, which does not exist",
            ],
        );
    }

    #[test]
    fn a_bad_readme_is_found_unless_excepted() {
        let without = Crate { readme: Some("no README.md".to_owned()), ..made_up("a", 1, &[], 0) };
        let excepted = Exceptions { readme: true, ..Exceptions::default() };
        check(&[without], "", &[], &["a has no README.md"]);
        let without = Crate { readme: Some("no README.md".to_owned()), ..made_up("a", 1, &[], 0) };
        check(&[without], "", &[("a", excepted)], &[]);
        check(
            &[made_up("a", 1, &[], 0)],
            "",
            &[("a", excepted)],
            &["a has a good README.md: take its exception off exceptions.rs"],
        );
    }
}
