//! The programs that the tests start.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The folder of the clients and of `install`.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns whether everything that a test needs is installed. Prints what is missing, and fails
/// with `CI=true`.
pub(crate) fn have(needs: &[Need]) -> bool {
    let missing: Vec<String> =
        needs.iter().filter(|need| !need.is_there()).map(Need::name).collect();
    if missing.is_empty() {
        return true;
    }
    let what = missing.join(", ");
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "missing: {what}");
    // Written directly, as the test harness hides the output of a passing test.
    let line = format!("SKIPPED (1): {what} not found; run tests/interop/install\n");
    _ = std::io::stderr().write_all(line.as_bytes());
    false
}

pub(crate) enum Need {
    /// A program in `PATH`.
    Program(&'static str),
    /// A file that `install` fetches.
    Installed(&'static str),
}

impl Need {
    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => std::env::var_os("PATH").is_some_and(|path| {
                std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
            }),
            Self::Installed(path) => here().join(path).exists(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Program(name) | Self::Installed(name) => (*name).to_owned(),
        }
    }
}

/// Returns the path of the binary, which is built once.
pub(crate) fn marquetry() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // `cargo xtask ci` has built it, and sets the variable to its folder.
        if let Some(built) = std::env::var_os("MARQUETRY_BUILT") {
            let program = PathBuf::from(built).join("marquetry");
            assert!(program.is_file(), "MARQUETRY_BUILT is set, but there is no {program:?}");
            return program;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        // The build script of ring runs again when these change, and everything that depends on
        // ring would be built again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        let built = command
            // The same selection as for the tests, so that nothing is built twice.
            .args(["build", "--quiet", "--workspace", "--all-features", "--bin", "marquetry"])
            .arg("--message-format=json")
            .current_dir(here())
            .stderr(Stdio::inherit())
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "the binary does not build");
        let messages = String::from_utf8(built.stdout).expect("cargo writes UTF-8");
        let executable = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find_map(|message| message["executable"].as_str().map(PathBuf::from));
        executable.expect("cargo names the binary")
    })
}

/// `marquetry serve` on a free port, ended by SIGTERM when dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = Command::new(marquetry())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let start = line.find("http://127.0.0.1:")?;
                let rest = &line[start..];
                Some(rest[..rest.find("/mcp")? + "/mcp".len()].to_owned())
            })
            .expect("the server says where it listens");
        // Output that is not read would block the server.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| eprintln!("{line}"));
        });
        Self { child, url }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to exit, and waits for that. Returns true if it exits by itself, with exit
    /// code 0.
    pub(crate) fn stop(&mut self) -> bool {
        signal("TERM", self.child.id());
        let end = Instant::now() + Duration::from_secs(15);
        while Instant::now() < end {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        _ = self.child.kill();
        _ = self.child.wait();
        false
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

/// Sends a signal to a process that a test has started.
pub(crate) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success(), "no process {pid}");
}
