//! The programs of the workspace, built once and run by many steps.
//!
//! Cargo locks the build directory while it compiles. Steps that run programs start them without
//! cargo, so that they do not wait for the steps that compile.

use std::{
    collections::HashMap,
    env,
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Mutex,
};

use serde::Deserialize;

use super::line::CommandLine;
use crate::{BUILT, Failed, cargo_command, packages, root};

/// All targets of the workspace with all features. Every other step that builds selects the same,
/// even for one program or test: with `--package` cargo would choose fewer features for
/// dependencies, and build them again.
const BUILD: &str = "build --workspace --all-features --all-targets";

/// The environment variable with the program that cargo runs instead of rustc for the crates of the
/// workspace.
///
/// `.ci/run` sets it to `clippy-driver`, which compiles as rustc does and lints at the same time.
/// `cargo clippy` would check all crates and their dependencies once more.
pub(super) const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Returns whether builds lint, since clippy compiles the workspace.
pub(super) fn builds_lint() -> bool {
    env::var_os(WRAPPER)
        .is_some_and(|it| Path::new(&it).file_stem() == Some("clippy-driver".as_ref()))
}

/// The output of [`BUILD`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BuildOutput {
    tests: Vec<TestProgram>,
    /// Warnings of the compiler, and of clippy if it compiles. Cargo repeats those of crates that
    /// it does not compile again.
    warnings: Vec<String>,
    /// The folder of the programs; examples are in its folder `examples`.
    folder: PathBuf,
}

/// The tests of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestProgram {
    package: String,
    /// The folder of the package, in which cargo runs its tests.
    folder: PathBuf,
    file: PathBuf,
}

/// Builds at most once, and remembers the outcome.
#[derive(Debug, Default)]
pub(super) struct Builder(Mutex<Option<Result<BuildOutput, String>>>);

impl Builder {
    /// Returns the programs, built at the first call. `to` receives cargo's output.
    pub(super) fn get(&self, to: &mut impl Write) -> Result<BuildOutput, Failed> {
        let mut built = self.0.lock().expect("no holder panics");
        built
            .get_or_insert_with(|| build(to).map_err(|failed| failed.to_string()))
            .clone()
            .map_err(Failed::new)
    }
}

impl BuildOutput {
    /// Returns the tests of all packages that `picks` accepts, in a fixed order.
    pub(super) fn tests(&self, picks: impl Fn(&str) -> bool) -> Result<Vec<CommandLine>, Failed> {
        let mut lines = Vec::new();
        for test in self.tests.iter().filter(|it| picks(&it.package)) {
            let line =
                CommandLine { folder: test.folder.clone(), ..self.line(test.file.clone(), "") };
            lines.push(line.with_env("CARGO_MANIFEST_DIR", &test.folder));
        }
        // A step must not pass without running anything.
        if lines.is_empty() { Err(Failed::new("no test was built")) } else { Ok(lines) }
    }

    /// Returns the folder of the built programs and of everything that was compiled for them.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the warnings of the build.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns a command with the folder of the built programs in a variable, so that it need not
    /// call cargo for them.
    pub(super) fn line(&self, program: impl Into<OsString>, args: &str) -> CommandLine {
        CommandLine::new(program, args).with_env(BUILT, &self.folder)
    }

    /// Returns a task of this program that uses the built programs.
    pub(super) fn xtask(&self, args: &str) -> Result<CommandLine, Failed> {
        Ok(CommandLine::xtask(args)?.with_env(BUILT, &self.folder))
    }
}

/// The parts of a message of cargo that are used here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

fn build(to: &mut impl Write) -> Result<BuildOutput, Failed> {
    let mut command = cargo_command();
    command.args(BUILD.split(' ')).arg("--message-format=json");
    command.current_dir(root()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    writeln!(to, "$ cargo {BUILD}")?;
    let output = command.output()?;
    let messages = messages(&String::from_utf8_lossy(&output.stdout))?;
    for diagnostic in messages.iter().filter_map(|it| it.message.as_ref()) {
        writeln!(to, "{}", diagnostic.rendered.as_deref().unwrap_or_default())?;
    }
    if !output.status.success() {
        return Err(Failed::new("the workspace failed to build"));
    }
    let names: HashMap<PathBuf, String> =
        packages()?.into_iter().map(|it| (it.manifest_path, it.name)).collect();
    let built = read(messages, &names)?;
    writeln!(to, "{} test programs are built", built.tests.len())?;
    Ok(built)
}

/// Parses the messages of cargo.
fn messages(text: &str) -> Result<Vec<Message>, Failed> {
    let mut messages = Vec::new();
    for line in text.lines() {
        messages.push(serde_json::from_str(line).map_err(|error| {
            Failed::new(format!("failed to parse a message of cargo: {error}: {line}"))
        })?);
    }
    Ok(messages)
}

/// Finds what was built.
fn read(messages: Vec<Message>, names: &HashMap<PathBuf, String>) -> Result<BuildOutput, Failed> {
    let mut built = BuildOutput::default();
    for message in messages {
        if let Some(Diagnostic { level, rendered: Some(text) }) = message.message
            && level == "warning"
            && !built.warnings.contains(&text)
        {
            built.warnings.push(text);
        }
        let (Some(manifest), Some(target), Some(profile), Some(file)) =
            (message.manifest_path, message.target, message.profile, message.executable)
        else {
            continue;
        };
        let Some(package) = names.get(&manifest).filter(|_| message.reason == "compiler-artifact")
        else {
            continue;
        };
        if profile.test {
            let folder = manifest.parent().unwrap_or(Path::new("/")).to_owned();
            built.tests.push(TestProgram { package: package.clone(), folder, file });
        } else if target.kind == ["bin"] && target.name == "marquetry" {
            file.parent().unwrap_or(Path::new("/")).clone_into(&mut built.folder);
        }
    }
    if built.folder == PathBuf::new() {
        return Err(Failed::new("cargo did not name the program `marquetry`"));
    }
    // Cargo lists them in the order in which they were finished.
    built.tests.sort_by(|a, b| (&a.package, &a.file).cmp(&(&b.package, &b.file)));
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"compiler-artifact","manifest_path":"/w/b/Cargo.toml","target":{"name":"it","kind":["test"]},"profile":{"test":true},"executable":"/t/deps/it-1"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a","kind":["lib"]},"profile":{"test":true},"executable":"/t/deps/a-1"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"marquetry","kind":["bin"]},"profile":{"test":false},"executable":"/t/marquetry"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a","kind":["lib"]},"profile":{"test":false},"executable":null}
{"reason":"compiler-message","manifest_path":"/w/a/Cargo.toml","message":{"level":"warning","rendered":"unused\n"}}
{"reason":"compiler-message","manifest_path":"/w/a/Cargo.toml","message":{"level":"warning","rendered":"unused\n"}}
{"reason":"compiler-message","manifest_path":"/w/a/Cargo.toml","message":{"level":"note","rendered":"some note\n"}}
{"reason":"build-finished","success":true}"#;

    fn read(text: &str) -> Result<BuildOutput, Failed> {
        super::read(messages(text)?, &names())
    }

    fn names() -> HashMap<PathBuf, String> {
        ["a", "b"].map(|name| (format!("/w/{name}/Cargo.toml").into(), name.to_owned())).into()
    }

    #[test]
    fn tests_run_in_their_package_and_find_the_programs() {
        let built = read(MESSAGES).unwrap();
        let lines = built.tests(|_| true).unwrap();
        let shown: Vec<_> = lines.iter().map(|it| (it.to_string(), it.folder.clone())).collect();
        assert_eq!(
            shown,
            [
                ("MARQUETRY_BUILT='/t' CARGO_MANIFEST_DIR='/w/a' a-1 ".to_owned(), "/w/a".into()),
                ("MARQUETRY_BUILT='/t' CARGO_MANIFEST_DIR='/w/b' it-1 ".to_owned(), "/w/b".into()),
            ]
        );
        assert_eq!(built.tests(|package| package == "b").unwrap().len(), 1);
    }

    #[test]
    fn a_warning_counts_once() {
        // The library and its tests are compiled from the same file.
        assert_eq!(read(MESSAGES).unwrap().warnings(), ["unused\n"]);
    }

    #[test]
    fn a_step_without_tests_fails() {
        let built = read(MESSAGES).unwrap();
        assert!(built.tests(|package| package == "c").is_err());
    }

    #[test]
    fn a_build_without_the_program_is_an_error() {
        let messages: Vec<&str> = MESSAGES.lines().filter(|it| !it.contains("[\"bin\"]")).collect();
        assert!(read(&messages.join("\n")).is_err());
    }
}
