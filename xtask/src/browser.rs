//! `cargo xtask browser`: the tests of the console and of Views in Chromium.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use clap::Args;

use crate::{BUILT, Failed, build_shared, root};

pub(crate) const EXAMPLES: &str = "\
Examples:
  cargo xtask browser                 run all tests
  cargo xtask browser attacks views-  run the files with one of these parts in their names
  cargo xtask browser --jobs 1        run one file after the other

Missing Node packages are installed from their lockfiles. If they cannot be installed or Chromium is missing, the tests
are skipped with a message; with CI=true the task fails.";

/// Options of `browser`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs the files whose name contains one of these parts.
    part: Vec<String>,
    /// Number of files that run at the same time.
    #[arg(long, value_name = "NUMBER")]
    jobs: Option<usize>,
}

/// The files of Chromium that tests/browser/support.mjs knows, in the same order.
const BROWSERS: [&str; 4] = [
    "/usr/bin/chromium-headless-shell",
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];

/// The folders, each with a separate lockfile.
const FOLDERS: [&str; 2] = ["tests/browser", "tests/browser/apps-conformance"];

/// The file that measures the budgets of the page. It runs after the tests, since they would use
/// the time that it measures.
const BUDGETS: &str = "bench-console.mjs";

/// Time limit after which a hanging test fails, in milliseconds. Node.js also applies it to each
/// test file; many tests have a shorter limit.
const TEST_LIMIT: &str = "--test-timeout=600000";

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    if let Err(failed) = find_browser().and_then(|()| install()) {
        if env::var("CI").is_ok_and(|value| value == "true") {
            return Err(failed);
        }
        eprintln!("SKIPPED (1): tests in a browser: {failed}");
        return Ok(ExitCode::SUCCESS);
    }
    let program = build_shared("--bin", "marquetry")?;
    let folder = program.parent().map(Path::to_owned).unwrap_or_default();
    let mut files = test_files()?;
    if !options.part.is_empty() {
        files.retain(|file| options.part.iter().any(|part| file.contains(part.as_str())));
    }
    let measures = options.part.is_empty() || options.part.iter().any(|it| BUDGETS.contains(it));
    if files.is_empty() && !measures {
        return Err(Failed::new("no file name in tests/browser contains one of these parts"));
    }
    // A test waits for the browser and the server more than it computes.
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let jobs = options.jobs.unwrap_or(2 * cores).clamp(1, 8);
    let mut ok = true;
    if !files.is_empty() {
        let tests = node(&folder)
            .args(["--test", &format!("--test-concurrency={jobs}"), TEST_LIMIT])
            .args(&files)
            .status()?;
        ok &= tests.success();
    }
    if measures {
        ok &= node(&folder).args([BUDGETS, "--times", "4"]).status()?.success();
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a command of Node.js in the folder of the tests.
fn node(built: &Path) -> Command {
    let mut command = Command::new("node");
    command.current_dir(root().join(FOLDERS[0])).env(BUILT, built);
    command
}

fn find_browser() -> Result<(), Failed> {
    let is_installed = match env::var_os("CHROMIUM") {
        Some(named) => Path::new(&named).is_file(),
        None => BROWSERS.iter().any(|it| Path::new(it).is_file()),
    };
    if is_installed {
        return Ok(());
    }
    Err(Failed::new(
        "Chromium is missing: apt-get install chromium-headless-shell, or name its program in the variable CHROMIUM",
    ))
}

/// Installs the Node packages of each folder, unless those that its lockfile names are installed.
pub(crate) fn install() -> Result<(), Failed> {
    if FOLDERS.iter().all(|folder| is_installed(&root().join(folder))) {
        return Ok(());
    }
    let script = root().join(FOLDERS[0]).join("install");
    let status = Command::new(&script)
        .status()
        .map_err(|error| Failed::new(format!("failed to start {}: {error}", script.display())))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failed::new(format!("{} failed: see its output above", script.display())))
    }
}

/// Returns whether the packages of the folder's lockfile are installed. The script leaves a copy of
/// the lockfile beside the packages.
fn is_installed(folder: &Path) -> bool {
    let wanted = fs::read(folder.join("package-lock.json"));
    let found = fs::read(folder.join("node_modules/.installed-lock.json"));
    matches!((wanted, found), (Ok(wanted), Ok(found)) if wanted == found)
}

/// Returns the test files, the largest first: they take longest.
fn test_files() -> Result<Vec<String>, Failed> {
    let mut found: Vec<(u64, String)> = Vec::new();
    let base = root().join(FOLDERS[0]);
    for folder in FOLDERS.map(|it| root().join(it)) {
        for entry in fs::read_dir(&folder)? {
            let path: PathBuf = entry?.path();
            if path.to_string_lossy().ends_with(".test.mjs") {
                let size = fs::metadata(&path)?.len();
                let name = path.strip_prefix(&base).unwrap_or(&path);
                found.push((size, name.to_string_lossy().into_owned()));
            }
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_folders_have_tests() {
        let files = test_files().unwrap();
        for name in ["console-pages.test.mjs", "apps-conformance/apps-conformance.test.mjs"] {
            assert!(files.iter().any(|it| it == name), "{name} in {files:?}");
        }
    }

    #[test]
    fn packages_of_another_lockfile_are_not_installed() {
        let folder = env::temp_dir().join(format!("xtask-browser-{}", std::process::id()));
        fs::create_dir_all(folder.join("node_modules")).unwrap();
        fs::write(folder.join("package-lock.json"), "new").unwrap();
        assert!(!is_installed(&folder));
        fs::write(folder.join("node_modules/.installed-lock.json"), "old").unwrap();
        assert!(!is_installed(&folder));
        fs::write(folder.join("node_modules/.installed-lock.json"), "new").unwrap();
        assert!(is_installed(&folder));
        fs::remove_dir_all(folder).unwrap();
    }
}
