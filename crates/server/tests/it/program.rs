//! The real program as a server, with folders of its own.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::{Arc, Mutex},
};

use marquetry_protocol::client::{Client, ClientOptions, HttpTarget, RevisionChoice};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::support::{until, within};

const PROGRAM: &str = env!("CARGO_BIN_EXE_marquetry");

/// A running `marquetry serve`, whose files are in a folder of its own.
pub(crate) struct Program {
    folder: tempfile::TempDir,
    child: Child,
    /// The printed URL of `/mcp`.
    pub(crate) url: String,
    log: Arc<Mutex<String>>,
}

impl Program {
    /// Starts it with this configuration.
    pub(crate) async fn start(toml: &str) -> Self {
        Self::start_with(toml, |_| {}).await
    }

    /// Starts it with this configuration, after `prepare` has written other files into its folder.
    pub(crate) async fn start_with(toml: &str, prepare: impl FnOnce(&Path)) -> Self {
        Self::launch(toml, prepare, &[]).await
    }

    /// Starts it with this configuration and these variables in its environment.
    pub(crate) async fn start_in(toml: &str, environment: &[(&str, &str)]) -> Self {
        Self::launch(toml, |_| {}, environment).await
    }

    async fn launch(toml: &str, prepare: impl FnOnce(&Path), environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path());
        std::fs::write(folder.path().join("marquetry.toml"), toml).unwrap();
        let mut command = command(folder.path());
        command.envs(environment.iter().copied());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(folder.path().join("marquetry.toml"));
        let mut child =
            command.stderr(Stdio::piped()).stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let url = loop {
            let line = within(lines.next_line()).await.unwrap().expect("it starts");
            log.lock().unwrap().push_str(&format!("{line}\n"));
            if let Some((_, url)) = line.split_once(" listens on ") {
                break url.to_owned();
            }
        };
        let lines_of_log = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                lines_of_log.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { folder, child, url, log }
    }

    /// Returns a path in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces its configuration as an editor does.
    pub(crate) fn write(&self, toml: &str) {
        let new = self.path("new.toml");
        std::fs::write(&new, toml).unwrap();
        std::fs::rename(new, self.path("marquetry.toml")).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a text in its log.
    pub(crate) async fn logs(&self, text: &str) {
        until(text, async || self.log().contains(text)).await;
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.pid().to_string()).status().await;
        assert!(sent.unwrap().success());
    }

    /// Runs another command of the program with the same folders.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        within(command(self.folder.path()).args(arguments).output()).await.unwrap()
    }

    /// Runs `marquetry reload`. Returns whether it succeeded, and what it printed.
    pub(crate) async fn reload(&self) -> (bool, String) {
        let output = self.run(&["reload"]).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    pub(crate) async fn agent(&self, revision: RevisionChoice) -> Client {
        let target = HttpTarget { url: self.url.clone(), ..HttpTarget::default() };
        let options = ClientOptions { revision, ..ClientOptions::default() };
        within(Client::http(target, options)).await.unwrap()
    }

    /// Returns the processes that it has started, and those that these have started.
    pub(crate) fn descendants(&self) -> Vec<u32> {
        let mut parents = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
            let parent: u32 = rest.split(' ').nth(1).unwrap().parse().unwrap();
            parents.push((pid, parent));
        }
        let mut found = vec![self.pid()];
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            found.extend(parents.iter().filter(|(_, it)| *it == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        found.split_off(1)
    }

    /// Ends it by SIGTERM, and returns its log.
    pub(crate) async fn stop(mut self) -> String {
        self.signal("-TERM").await;
        assert!(within(self.child.wait()).await.unwrap().success());
        self.log()
    }
}

/// Returns the program with folders below `home`.
fn command(home: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    for name in ["MARQUETRY_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"] {
        command.env_remove(name);
    }
    let folder = |name: &str| home.join(name);
    command
        .env("HOME", home)
        .env("XDG_STATE_HOME", folder("state"))
        .env("XDG_DATA_HOME", folder("data"))
        .current_dir(home);
    command
}
