//! `cargo xtask coverage`: the lines of each crate that its tests run.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use clap::Args;
use serde_json::Value;

use crate::{Failed, cargo_command, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask coverage                            measure all crates that have an aim
  cargo xtask coverage context-blocks plantuml    measure these crates
  cargo xtask coverage --files extract            also print the lines that no test runs

Needs llvm-profdata and llvm-cov of rustc's version of LLVM: `rustup component add llvm-tools`, or a package of the
system such as llvm-22. Lines of unit tests, conformance suites and fuzz targets do not count. Documentation tests,
scenarios and programs that are killed are not measured.";

/// Options of `coverage`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Folders below crates/; all crates with an aim by default.
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
    /// Prints each file with the numbers of the lines that no test runs.
    #[arg(long)]
    files: bool,
}

/// A crate, with the percentage of its lines that tests must run.
struct Aim {
    name: &'static str,
    percent: usize,
    /// Crates whose tests count, by their folders.
    tests: &'static [&'static str],
}

const fn aim(name: &'static str, percent: usize, tests: &'static [&'static str]) -> Aim {
    Aim { name, percent, tests }
}

/// The crates that implement the seeds: parsers and codecs with 90 %, the others with 80 %. The
/// crates of the protocol have the tests that need both sides in `protocol`; tools are also tested
/// through the server, in the same process.
const AIMS: &[Aim] = &[
    aim("context-blocks", 90, &["context-blocks"]),
    aim("plantuml", 90, &["plantuml"]),
    aim("extract", 90, &["extract"]),
    aim("protocol-wire", 90, &["protocol-wire", "protocol-server", "protocol-client", "protocol"]),
    aim("protocol-callers", 80, &["protocol-callers", "protocol-server", "protocol"]),
    aim("protocol-server", 80, &["protocol-server", "protocol"]),
    aim("protocol-client", 80, &["protocol-client", "protocol"]),
    aim("apps-ext", 80, &["apps-ext"]),
    aim("artifacts", 80, &["artifacts"]),
    aim("artifact-tools", 80, &["artifact-tools", "server"]),
    aim("embed", 80, &["embed"]),
    aim("index", 80, &["index"]),
    aim("records", 80, &["records"]),
    aim("rag", 80, &["rag"]),
    aim("knowledge", 80, &["knowledge", "server"]),
    aim("llm", 80, &["llm"]),
    aim("judge", 80, &["judge"]),
    aim("scenarios", 80, &["scenarios"]),
    aim("test-server", 80, &["test-server"]),
    aim("test-command", 80, &["test-command"]),
    aim("server", 80, &["server"]),
];

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    if let Some(name) =
        options.crates.iter().find(|name| !AIMS.iter().any(|it| it.name == name.as_str()))
    {
        let names: Vec<&str> = AIMS.iter().map(|it| it.name).collect();
        return Err(Failed::new(format!(
            "crate `{name}` has no aim; the crates with one are {}",
            names.join(", ")
        )));
    }
    let aims: Vec<&Aim> = AIMS
        .iter()
        .filter(|it| options.crates.is_empty() || options.crates.iter().any(|name| name == it.name))
        .collect();
    let folder = root().join("target/coverage");
    fs::create_dir_all(&folder)?;
    let tools = Tools::find()?;
    let tested: BTreeSet<&str> = aims.iter().flat_map(|it| it.tests).copied().collect();
    let mut programs = build(&folder)?;
    let mut runs = BTreeMap::new();
    for name in tested {
        let programs = programs.remove(name).unwrap_or_default();
        runs.insert(name, TestRun::of(name, programs, &folder)?);
    }
    println!("\n{:16} {:>7} {:>7} {:>6} {:>5}", "crate", "lines", "run", "%", "aim");
    let mut all_reached = true;
    for aim in aims {
        let runs: Vec<&TestRun> = aim.tests.iter().map(|name| &runs[name]).collect();
        let files = without_test_code(parse_lcov(&tools.lcov(aim.name, &runs, &folder)?))?;
        let total = Count::sum(files.values());
        all_reached &= total.reaches(aim.percent);
        let verdict = if total.reaches(aim.percent) { "" } else { "  BELOW" };
        let Count { lines, run } = total;
        let percent = total.percent();
        println!("{:16} {lines:>7} {run:>7} {percent:>6.1} {:>5}{verdict}", aim.name, aim.percent);
        if options.files {
            print_files(&files);
        }
    }
    Ok(if all_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_files(files: &BTreeMap<PathBuf, Lines>) {
    for (path, lines) in files {
        let missed: Vec<String> = lines
            .iter()
            .filter(|(_, hits)| **hits == 0)
            .map(|(line, _)| line.to_string())
            .collect();
        if !missed.is_empty() {
            let path = path.strip_prefix(root()).unwrap_or(path);
            println!(
                "    {}: {} of {}: {}",
                path.display(),
                missed.len(),
                lines.len(),
                missed.join(" ")
            );
        }
    }
}

/// The programs of LLVM.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    /// Finds the programs beside rustc, then in `PATH`.
    fn find() -> Result<Self, Failed> {
        let version = rustc(&["-vV"])?;
        let llvm = field(&version, "LLVM version:").split('.').next().unwrap_or_default();
        let beside_rustc = Path::new(&rustc(&["--print", "sysroot"])?)
            .join("lib/rustlib")
            .join(field(&version, "host:"))
            .join("bin");
        Ok(Self {
            profdata: find_tool("llvm-profdata", llvm, &beside_rustc)?,
            cov: find_tool("llvm-cov", llvm, &beside_rustc)?,
        })
    }

    /// Returns the counts of a crate's lines in the format of lcov.
    fn lcov(&self, name: &str, runs: &[&TestRun], folder: &Path) -> Result<String, Failed> {
        let merged = folder.join(format!("{name}.profdata"));
        let mut merge = Command::new(&self.profdata);
        merge.args(["merge", "--sparse", "--failure-mode=all", "-o"]).arg(&merged);
        for run in runs {
            merge.args(&run.profiles);
        }
        succeed(&mut merge)?;
        let mut export = Command::new(&self.cov);
        export.args(["export", "--format=lcov", "--instr-profile"]).arg(&merged);
        // The first program has no option; without it, llvm-cov takes the folder for one.
        let mut programs = runs.iter().flat_map(|run| &run.programs);
        export.args(programs.next());
        for program in programs {
            export.arg("--object").arg(program);
        }
        export.arg("--sources").arg(root().join("crates").join(name).join("src"));
        let output = export.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(Failed::new(format!("llvm-cov failed on {name}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn rustc(args: &[&str]) -> Result<String, Failed> {
    let output = Command::new("rustc").args(args).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns a field of `rustc -vV`.
fn field<'a>(version: &'a str, name: &str) -> &'a str {
    version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}

/// Finds a program of an LLVM version in a folder, or with the version in its name in `PATH`.
fn find_tool(name: &str, llvm: &str, folder: &Path) -> Result<PathBuf, Failed> {
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|it| it.join(format!("{name}-{llvm}")));
    std::iter::once(folder.join(name)).chain(in_path).find(|it| it.is_file()).ok_or_else(|| {
        Failed::new(format!(
            "no {name} of LLVM {llvm}: rustup component add llvm-tools, or install the package llvm-{llvm}"
        ))
    })
}

/// The tests of a crate that have run.
struct TestRun {
    programs: Vec<PathBuf>,
    profiles: Vec<PathBuf>,
}

impl TestRun {
    /// Runs the test programs of a crate.
    fn of(name: &str, programs: Vec<PathBuf>, folder: &Path) -> Result<Self, Failed> {
        let profiles = folder.join("profiles").join(name);
        if profiles.exists() {
            fs::remove_dir_all(&profiles)?;
        }
        println!("running the tests of {name}");
        for program in &programs {
            let mut command = Command::new(program);
            command
                .arg("--quiet")
                .current_dir(root().join("crates").join(name))
                .env("CARGO_MANIFEST_DIR", root().join("crates").join(name))
                // Processes of one program share at most four files.
                .env("LLVM_PROFILE_FILE", profiles.join("%4m.profraw"));
            succeed(&mut command)?;
        }
        let profiles = fs::read_dir(profiles)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_, std::io::Error>>()?;
        Ok(Self { programs, profiles })
    }
}

/// Builds the tests of all crates with counters, and returns the test programs by their crate's
/// folder. One build of the whole workspace compiles each dependency once; a build for each crate
/// compiles those again whose features differ.
fn build(folder: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>, Failed> {
    let output = cargo_command()
        .args(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(folder)
        .current_dir(root())
        // Only crates of the workspace are instrumented; their dependencies are neither measured
        // nor slower.
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper(folder)?)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(Failed::new("the tests failed to build"));
    }
    Ok(programs(&String::from_utf8_lossy(&output.stdout)))
}

/// Writes the program that cargo calls instead of rustc for crates of the workspace.
fn wrapper(folder: &Path) -> Result<PathBuf, Failed> {
    let path = folder.join("rustc");
    let script = "#!/bin/sh\nexec \"$@\" -C instrument-coverage\n";
    // Cargo builds everything again when the file is newer.
    if !fs::read_to_string(&path).is_ok_and(|found| found == script) {
        fs::write(&path, script)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(path)
}

/// Returns the test programs in the messages of cargo, by the folder of their crate.
fn programs(messages: &str) -> BTreeMap<String, Vec<PathBuf>> {
    let mut programs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for message in messages.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
        let manifest = message["manifest_path"].as_str().map(Path::new);
        let folder = manifest.and_then(Path::parent).and_then(Path::file_name);
        let is_test = message["profile"]["test"] == true;
        if let (true, Some(program), Some(folder)) =
            (is_test, message["executable"].as_str(), folder)
        {
            let folder = folder.to_string_lossy().into_owned();
            programs.entry(folder).or_default().push(program.into());
        }
    }
    programs
}

fn succeed(command: &mut Command) -> Result<(), Failed> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(Failed::new(format!("{} failed", command.get_program().display())))
}

/// How often each line of a file was run, by its number. Lines without code are missing.
type Lines = BTreeMap<usize, u64>;

/// Parses the format of lcov: `SF:` begins a file, `DA:` counts a line.
fn parse_lcov(text: &str) -> BTreeMap<PathBuf, Lines> {
    let mut files: BTreeMap<PathBuf, Lines> = BTreeMap::new();
    let mut file = PathBuf::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = PathBuf::from(path);
        } else if let Some((number, hits)) =
            line.strip_prefix("DA:").and_then(|it| it.split_once(','))
            && let (Ok(number), Ok(hits)) = (number.parse(), hits.parse::<u64>())
        {
            // A generic function is listed once for each of its types.
            *files.entry(file.clone()).or_default().entry(number).or_default() += hits;
        }
    }
    files
}

/// Names of files of unit tests, of conformance suites and of fuzz targets.
const TEST_FILES: [&str; 3] = ["conformance.rs", "fuzz.rs", "tests.rs"];

/// Removes the lines of unit tests, conformance suites and fuzz targets, which tests always run.
fn without_test_code(files: BTreeMap<PathBuf, Lines>) -> Result<BTreeMap<PathBuf, Lines>, Failed> {
    let mut rest = BTreeMap::new();
    for (path, mut lines) in files {
        let is_test_file =
            path.file_name().is_some_and(|name| TEST_FILES.iter().any(|file| name == *file));
        if is_test_file || path.iter().any(|part| part == "tests") {
            continue;
        }
        let end = first_test_line(&fs::read_to_string(&path)?);
        lines.retain(|number, _| *number < end);
        rest.insert(path, lines);
    }
    Ok(rest)
}

/// Returns the number of the line that begins the unit tests of a file, which are its last module.
fn first_test_line(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().collect();
    lines
        .windows(2)
        .position(|pair| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        })
        .map_or(usize::MAX, |index| index + 1)
}

/// Lines of code, and those that tests have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    lines: usize,
    run: usize,
}

impl Count {
    fn sum<'a>(files: impl IntoIterator<Item = &'a Lines>) -> Self {
        files.into_iter().fold(Self::default(), |sum, lines| Self {
            lines: sum.lines + lines.len(),
            run: sum.run + lines.values().filter(|hits| **hits > 0).count(),
        })
    }

    /// Returns whether at least this percentage of the lines was run; a crate without lines reaches
    /// none.
    const fn reaches(self, percent: usize) -> bool {
        self.lines > 0 && self.run * 100 >= self.lines * percent
    }

    fn percent(self) -> f64 {
        100.0 * self.run as f64 / self.lines.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_line_are_added() {
        let text = "SF:/a.rs\nFN:1,a\nDA:1,3\nDA:2,0\nend_of_record\nSF:/b.rs\nDA:7,0\nend_of_record\nSF:/a.rs\nDA:2,1\nDA:3,0\n";
        let files = parse_lcov(text);
        assert_eq!(files[Path::new("/a.rs")], Lines::from([(1, 3), (2, 1), (3, 0)]));
        assert_eq!(Count::sum(files.values()), Count { lines: 4, run: 2 });
    }

    #[test]
    fn an_aim_is_reached_by_its_percentage_exactly() {
        assert!(Count { lines: 10, run: 8 }.reaches(80));
        assert!(!Count { lines: 1000, run: 799 }.reaches(80));
        assert!(!Count::default().reaches(80));
    }

    #[test]
    fn lines_of_unit_tests_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rs");
        let source =
            "#[cfg(test)]\nuse a;\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        fs::write(&path, source).unwrap();
        let lines = Lines::from([(3, 1), (6, 1)]);
        let tests = folder.path().join("tests/b.rs");
        let files = [(path.clone(), lines.clone()), (tests, lines)].into();
        let rest = without_test_code(files).unwrap();
        assert_eq!(rest, [(path, Lines::from([(3, 1)]))].into());
    }

    #[test]
    fn conformance_suites_and_fuzz_targets_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fuzzy.rs");
        fs::write(&path, "fn a() {}\n").unwrap();
        let lines = Lines::from([(1, 1)]);
        let mut files = BTreeMap::from([(path.clone(), lines.clone())]);
        for name in ["fuzz.rs", "conformance.rs", "store/conformance.rs", "a/b/fuzz.rs"] {
            files.insert(folder.path().join(name), lines.clone());
        }
        assert_eq!(without_test_code(files).unwrap(), [(path, lines)].into());
    }

    #[test]
    fn programs_are_those_that_cargo_names() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
noise
{"manifest_path":"/w/crates/a/Cargo.toml","profile":{"test":true},"executable":"/t/a-1"}
{"manifest_path":"/w/crates/a/Cargo.toml","profile":{"test":false},"executable":"/t/program"}
"#;
        let want = [("a".to_owned(), vec![PathBuf::from("/t/a-1")])];
        assert_eq!(programs(messages), want.into());
    }

    #[test]
    fn crates_with_an_aim_exist_once() {
        let names: BTreeSet<&str> = AIMS.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), AIMS.len());
        for name in AIMS.iter().flat_map(|it| it.tests.iter().chain([&it.name])) {
            assert!(root().join("crates").join(name).is_dir(), "no crate {name}");
        }
    }
}
