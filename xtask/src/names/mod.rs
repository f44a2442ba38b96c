//! `cargo xtask names`: the public names of each crate, compared with the file `public-names.txt` beside its manifest.
//!
//! The names come from the pages that `cargo doc` writes, because rustdoc's JSON needs a nightly toolchain.

mod html;
mod pages;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
};

use crate::{Failed, Package, cargo_command, metadata, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask names                      fails when a crate's public names are not those of its public-names.txt
  MARQUETRY_UPDATE=1 cargo xtask names   writes these files

A line is a kind and a path: `struct client::Client`, `method client::Client::call_tool`, `impl client::Client: Clone`.
The names are those with all features.";

/// The variable that replaces the files with the present names.
const UPDATE: &str = "MARQUETRY_UPDATE";

const FILE: &str = "public-names.txt";

/// The same as the step `doc` runs, so that nothing is documented twice.
pub(crate) const DOC: &str = "doc --workspace --all-features --no-deps";

pub(crate) fn run() -> Result<ExitCode, Failed> {
    let documented = cargo_command()
        .args(DOC.split(' '))
        .env("RUSTDOCFLAGS", "-D warnings")
        .current_dir(root())
        .stderr(Stdio::inherit())
        .status()?;
    if !documented.success() {
        return Err(Failed::new("the documentation failed to build"));
    }
    let metadata = metadata()?;
    let updates = env::var_os(UPDATE).is_some_and(|value| value == "1");
    let (mut crates, mut names, mut changed) = (0, 0, Vec::new());
    for package in &metadata.packages {
        let Some(library) = library(package) else { continue };
        let found = pages::names(&metadata.target_directory.join("doc").join(library))?;
        (crates, names) = (crates + 1, names + found.len());
        let path = package.manifest_path.with_file_name(FILE);
        if updates {
            fs::write(&path, file(&package.name, &found))?;
            continue;
        }
        let known = read(&path)?;
        let lines = differences(&known, &found);
        if !lines.is_empty() {
            println!("\n{}:\n{}", shown(&path).display(), lines.join("\n"));
            changed.push(package.name.as_str());
        }
    }
    if crates == 0 {
        return Err(Failed::new("no library in crates/"));
    }
    if changed.is_empty() {
        println!("names: {names} public names in {crates} crates");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "\nFAILED: the public names of {} changed. If that is meant, run `{UPDATE}=1 cargo xtask names`, \
         look at the difference, and commit it",
        changed.join(", ")
    );
    Ok(ExitCode::FAILURE)
}

/// Returns the folder of the documentation of a package in `crates`, if it has a library.
fn library(package: &Package) -> Option<String> {
    let is_crate = package.manifest_path.starts_with(root().join("crates"));
    let target = package.targets.iter().find(|it| it.kind.iter().any(|kind| kind == "lib"))?;
    is_crate.then(|| target.name.replace('-', "_"))
}

/// Returns the content of a file of names.
fn file(package: &str, names: &[String]) -> String {
    let mut text = format!(
        "# Public names of {package} with all features. `{UPDATE}=1 cargo xtask names` writes this file.\n"
    );
    for name in names {
        text.push_str(name);
        text.push('\n');
    }
    text
}

/// Returns the names in a file; none if the file does not exist.
fn read(path: &Path) -> Result<Vec<String>, Failed> {
    match fs::read_to_string(path) {
        Ok(text) => {
            Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failed::new(format!("{}: {error}", path.display()))),
    }
}

/// Returns the removed and the added lines.
fn differences(known: &[String], found: &[String]) -> Vec<String> {
    let went = known.iter().filter(|it| !found.contains(it)).map(|it| format!("- {it}"));
    let came = found.iter().filter(|it| !known.contains(it)).map(|it| format!("+ {it}"));
    went.chain(came).collect()
}

fn shown(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown_by_line() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(differences(&names("a b c"), &names("a c d")), ["- b", "+ d"]);
        assert!(differences(&names("a b"), &names("a b")).is_empty());
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let names = ["fn a".to_owned(), "struct b::C".to_owned()];
        assert!(read(&path).unwrap().is_empty());
        fs::write(&path, file("x", &names)).unwrap();
        assert_eq!(read(&path).unwrap(), names);
    }
}
