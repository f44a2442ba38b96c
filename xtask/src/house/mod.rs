//! `cargo xtask house`: prints the crates with their lines, edges and cycles of modules, and
//! compares them with `ARCHITECTURE.md`.

mod comments;
mod edges;
mod modules;
mod paths;
mod readme;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    process::ExitCode,
};

use self::modules::{Cycle, Modules};
use crate::{Failed, Package, packages, root};

pub(crate) const EXAMPLES: &str = "\
Rules:
- A crate depends on exactly the crates that the block of edges in ARCHITECTURE.md lists for it.
- Its source (src, with the unit tests) has at most 12,000 lines.
- Modules of the same parent have no dependency cycle.
- Its README.md is its documentation and has an example in Rust.
- Its comments have at most 100 columns, except for examples, tables and addresses.";

/// Maximum lines of source of a crate.
const MAX_LINES: usize = 12_000;

/// A crate with the facts for the checks.
struct Crate {
    name: String,
    lines: usize,
    /// The crates of this workspace that it depends on, without dev-dependencies.
    edges: BTreeSet<String>,
    cycles: Vec<Cycle>,
    /// The problem with its README, if there is one.
    readme: Option<String>,
    /// The places of comment lines that are too long.
    long_comments: Vec<String>,
}

impl Crate {
    /// Returns the number of modules in cycles.
    fn cyclic_modules(&self) -> usize {
        self.cycles.iter().map(|cycle| cycle.modules.len()).sum()
    }
}

pub(crate) fn run() -> Result<ExitCode, Failed> {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let crates = crates_of(&ruled_packages()?)?;
    print_table(&crates);
    let problems = problems(&crates, &document);
    for one in &crates {
        for cycle in &one.cycles {
            let modules = cycle.modules.join(", ");
            println!("\ncycle in {}: {modules}\n{}", one.name, cycle.witnesses());
        }
    }
    for problem in &problems {
        println!("FAILED: {problem}");
    }
    println!("\nhouse: {} crates, {} problems", crates.len(), problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_table(crates: &[Crate]) {
    println!("{:16} {:>7} {:>8}  depends on", "crate", "lines", "cyclic");
    for one in crates {
        let edges: Vec<&str> = one.edges.iter().map(String::as_str).collect();
        println!(
            "{:16} {:>7} {:>8}  {}",
            one.name,
            one.lines,
            one.cyclic_modules(),
            edges.join(", ")
        );
    }
    let sum: usize = crates.iter().map(|one| one.lines).sum();
    println!("{:16} {sum:>7}  (cyclic: number of modules in cycles)", "together");
}

/// Returns the violations of the rules.
fn problems(crates: &[Crate], document: &str) -> Vec<String> {
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
        let name = &one.name;
        if one.lines > MAX_LINES {
            problems.push(format!(
                "{name} has {} lines of source; the limit is {MAX_LINES}",
                one.lines
            ));
        }
        if !one.cycles.is_empty() {
            problems.push(format!("{name} has {} modules in cycles", one.cyclic_modules()));
        }
        if let Some(problem) = &one.readme {
            problems.push(format!("{name} has {problem}"));
        }
        for place in &one.long_comments {
            let max = comments::MAX_COLUMNS;
            problems.push(format!("{place} has a comment line of more than {max} columns"));
        }
    }
    problems
}

/// Returns the packages to which the rules apply: the crates, and xtask.
fn ruled_packages() -> Result<Vec<Package>, Failed> {
    let mut packages = packages()?;
    packages.retain(|package| {
        let folder = package.manifest_path.parent();
        folder.is_some_and(|it| it.starts_with(root().join("crates")) || it == root().join("xtask"))
    });
    Ok(packages)
}

fn crates_of(packages: &[Package]) -> Result<Vec<Crate>, Failed> {
    let names: BTreeMap<&str, String> =
        packages.iter().map(|package| (package.name.as_str(), folder_name(package))).collect();
    let mut crates = Vec::new();
    for package in packages {
        let source = package.manifest_path.with_file_name("src");
        let modules = Modules::read(&source)?;
        crates.push(Crate {
            name: folder_name(package),
            lines: lines(&source)?,
            edges: package
                .dependencies
                .iter()
                .filter(|it| it.kind.as_deref() != Some("dev"))
                .filter_map(|it| names.get(it.name.as_str()).cloned())
                .collect(),
            cycles: modules.cycles(),
            readme: match package.manifest_path.parent() {
                Some(folder) => readme::problem(folder)?,
                None => None,
            },
            long_comments: match package.manifest_path.parent() {
                Some(folder) => comments::long_lines(folder)?,
                None => Vec::new(),
            },
        });
    }
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(crates)
}

/// Returns the name of a crate, which is that of its folder: `marquetry-rag` is `rag`, and the
/// binary's crate is `server`.
fn folder_name(package: &Package) -> String {
    let folder = package.manifest_path.parent().and_then(Path::file_name);
    folder.map_or_else(|| package.name.clone(), |it| it.to_string_lossy().into_owned())
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

    fn made_up(name: &str, lines: usize, edges: &[&str], cyclic: usize) -> Crate {
        let modules = (0..cyclic).map(|number| format!("m{number}")).collect();
        let cycle = Cycle { modules, edges: Vec::new() };
        Crate {
            name: name.to_owned(),
            lines,
            edges: edges.iter().map(|&it| it.to_owned()).collect(),
            cycles: if cyclic == 0 { Vec::new() } else { vec![cycle] },
            readme: None,
            long_comments: Vec::new(),
        }
    }

    #[track_caller]
    fn check(crates: &[Crate], block: &str, want: &[&str]) {
        let document = format!("# House\n\n```edges\n{block}\n```\n");
        assert_eq!(problems(crates, &document), want);
    }

    #[test]
    fn crates_that_follow_the_rules_have_no_problem() {
        let crates = [
            made_up("a", MAX_LINES, &["b", "c"], 0),
            made_up("b", 1, &[], 0),
            made_up("c", 1, &["b"], 0),
        ];
        check(&crates, "a -> b\na -> c\nc -> b", &[]);
    }

    #[test]
    fn unlisted_and_stale_edges_are_found() {
        let crates = [made_up("a", 1, &["b"], 0), made_up("b", 1, &[], 0)];
        check(
            &crates,
            "",
            &["a depends on b, and the block of edges in ARCHITECTURE.md does not list `a -> b`"],
        );
        check(
            &crates,
            "a -> b\nb -> a",
            &["the block of edges in ARCHITECTURE.md lists `b -> a`, and b does not depend on a"],
        );
        let no_block = problems(&crates, "# House\n");
        assert_eq!(no_block, ["ARCHITECTURE.md has no block of edges, which begins with ```edges"]);
    }

    #[test]
    fn large_crates_and_cycles_are_found() {
        let crates = [made_up("a", MAX_LINES + 1, &[], 2)];
        check(
            &crates,
            "",
            &["a has 12001 lines of source; the limit is 12000", "a has 2 modules in cycles"],
        );
    }

    #[test]
    fn a_bad_readme_is_found() {
        let without = Crate { readme: Some("no README.md".to_owned()), ..made_up("a", 1, &[], 0) };
        check(&[without], "", &["a has no README.md"]);
    }
}
