//! `cargo xtask features`: each crate alone, without features, with the default ones, and with each
//! feature alone.
//!
//! `cargo hack clippy --each-feature` does the same, but it selects one package: then each crate
//! uses other features of `syn`, and macros and their users are compiled many times.

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Args;

use crate::{Failed, Package, cargo_command, packages, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask features               lint all crates
  cargo xtask features rag server    lint crates/rag and crates/server

Each crate is linted without features, with the default ones, and with each feature alone. Lints of rustc and clippy are errors.
Tests are not linted here: the step `clippy` lints them, with all features together.";

/// The package that keeps the features of derive macros and some libraries the same.
const HOLDER: &str = "derive-features";
/// The features of our crates that add candle, for which [`HOLDER`] has a feature of its own.
const WITH_CANDLE: &str = "transformer";

/// Options of `features`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Folders below crates/; all by default.
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
}

/// Features of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection<'a> {
    None,
    Defaults,
    One(&'a str),
}

impl Selection<'_> {
    /// Returns the arguments that select them.
    fn args(self, package: &str) -> Vec<String> {
        let mut args = vec![format!("--package={package}"), format!("--package={HOLDER}")];
        if self != Self::Defaults {
            args.push("--no-default-features".to_owned());
        }
        if let Self::One(feature) = self {
            args.push(format!("--features={package}/{feature}"));
            if feature == WITH_CANDLE {
                args.push(format!("--features={HOLDER}/candle"));
            }
        }
        args
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let packages = picked(packages()?, &options.crates)?;
    let mut count = 0;
    let mut failures = Vec::new();
    for package in &packages {
        for selection in selections(package) {
            let args = selection.args(&package.name);
            println!("$ cargo clippy {}", args.join(" "));
            let started = Instant::now();
            let status = cargo_command()
                .arg("clippy")
                .args(&args)
                .args(["--quiet", "--no-deps", "--", "-D", "warnings"])
                .current_dir(root())
                .status()?;
            println!("  {:.1} s", started.elapsed().as_secs_f64());
            count += 1;
            if !status.success() {
                failures.push(args.join(" "));
            }
        }
    }
    for failure in &failures {
        println!("FAILED: cargo clippy {failure}");
    }
    println!(
        "features: {count} selections in {} crates, {} failed",
        packages.len(),
        failures.len()
    );
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the packages in `crates` with these folders; all without folders.
fn picked(packages: Vec<Package>, folders: &[String]) -> Result<Vec<Package>, Failed> {
    let crates = root().join("crates");
    let mut picked: Vec<Package> =
        packages.into_iter().filter(|it| it.manifest_path.starts_with(&crates)).collect();
    if !folders.is_empty() {
        let manifests: Vec<PathBuf> =
            folders.iter().map(|folder| crates.join(folder).join("Cargo.toml")).collect();
        if let Some(unknown) =
            manifests.iter().find(|path| !picked.iter().any(|it| it.manifest_path == **path))
        {
            return Err(Failed::new(format!("no such crate: {}", unknown.display())));
        }
        picked.retain(|package| manifests.contains(&package.manifest_path));
    }
    if picked.is_empty() {
        Err(Failed::new("no crate in crates/"))
    } else {
        Ok(dependencies_first(picked))
    }
}

/// Sorts the packages so that each comes after those that it depends on.
///
/// A package that was compiled as the dependency of another, without lints, counts as fresh when it
/// is checked itself. Dependencies of tests do not count, since tests are not compiled here.
fn dependencies_first(mut waiting: Vec<Package>) -> Vec<Package> {
    let mut sorted = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        // Cargo refuses dependency cycles, so there is always a ready package. The default is never
        // used.
        let ready =
            waiting.iter().position(|package| is_ready(package, &waiting)).unwrap_or_default();
        sorted.push(waiting.remove(ready));
    }
    sorted
}

/// Returns whether the package depends on none of those that wait.
fn is_ready(package: &Package, waiting: &[Package]) -> bool {
    let mut needed = package.dependencies.iter().filter(|it| it.kind.is_none());
    !needed.any(|dependency| waiting.iter().any(|it| it.name == dependency.name))
}

/// Returns the selections of features to check. A feature that is the only default is checked once.
fn selections(package: &Package) -> Vec<Selection<'_>> {
    let defaults = package.features.get("default").map_or(&[][..], Vec::as_slice);
    let mut selections = vec![Selection::None];
    if !defaults.is_empty() {
        selections.push(Selection::Defaults);
    }
    for feature in package.features.keys() {
        if feature != "default" && *defaults != [feature.as_str()] {
            selections.push(Selection::One(feature));
        }
    }
    selections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dependency;

    fn package(features: &[(&str, &[&str])]) -> Package {
        let features = features.iter().map(|(name, implied)| {
            ((*name).to_owned(), implied.iter().map(|&it| it.to_owned()).collect())
        });
        Package {
            name: "p".to_owned(),
            manifest_path: root().join("crates/q/Cargo.toml"),
            dependencies: Vec::new(),
            features: features.collect(),
        }
    }

    #[test]
    fn selections_are_no_features_the_defaults_and_each_feature() {
        let features: &[(&str, &[&str])] =
            &[("a", &[]), ("b", &["a"]), ("default", &["a", "b"]), ("transformer", &[])];
        let package = package(features);
        let args: Vec<_> = selections(&package).iter().map(|it| it.args("p").join(" ")).collect();
        let both = "--package=p --package=derive-features";
        let candle = "--features=p/transformer --features=derive-features/candle";
        let want = [
            format!("{both} --no-default-features"),
            both.to_owned(),
            format!("{both} --no-default-features --features=p/a"),
            format!("{both} --no-default-features --features=p/b"),
            format!("{both} --no-default-features {candle}"),
        ];
        assert_eq!(args, want);
    }

    #[test]
    fn a_feature_that_is_the_only_default_is_checked_once() {
        let package = package(&[("a", &[]), ("default", &["a"])]);
        assert_eq!(selections(&package), [Selection::None, Selection::Defaults]);
    }

    #[test]
    fn a_crate_without_features_is_checked_once() {
        assert_eq!(selections(&package(&[("default", &[])])), [Selection::None]);
    }

    fn dependent(name: &str, needed: &[(&str, Option<&str>)]) -> Package {
        let dependencies = needed.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            kind: kind.map(str::to_owned),
        });
        Package { name: name.to_owned(), dependencies: dependencies.collect(), ..package(&[]) }
    }

    #[test]
    fn dependencies_come_first() {
        let sorted = dependencies_first(vec![
            dependent("a", &[("b", None), ("serde", None)]),
            dependent("b", &[("c", None), ("a", Some("dev"))]),
            dependent("c", &[]),
        ]);
        let names: Vec<_> = sorted.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
    }

    #[test]
    fn an_unknown_crate_is_an_error() {
        assert!(picked(vec![package(&[])], &["q".to_owned()]).is_ok());
        assert!(picked(vec![package(&[])], &["r".to_owned()]).is_err());
        assert!(picked(Vec::new(), &[]).is_err());
    }

    #[test]
    fn the_package_that_holds_features_exists() {
        assert!(packages().unwrap().iter().any(|it| it.name == HOLDER));
    }
}
