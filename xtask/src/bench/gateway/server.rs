//! The measured gateways: builds, starts and stops them.

use std::{
    io::{BufRead as _, BufReader, Lines},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::{
    peer::{build, peer_arguments},
    start::listening,
};
use crate::{Failed, root};

/// A measured gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Marquetry with its default settings, which store artifacts in memory.
    Marquetry,
    /// Marquetry that stores artifacts in a directory.
    Directory,
    /// Marquetry that captures no answers, which is the hop alone.
    WithoutCapture,
    /// Marquetry that neither captures answers nor has a console.
    WithoutConsole,
    /// `bench/peers/gateway forward`.
    Floor,
    McpProxy,
    Supergateway,
    FastMcp,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::Marquetry,
        Self::Directory,
        Self::WithoutCapture,
        Self::WithoutConsole,
        Self::Floor,
        Self::McpProxy,
        Self::Supergateway,
        Self::FastMcp,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Marquetry => "marquetry",
            Self::Directory => "marquetry, directory",
            Self::WithoutCapture => "marquetry, no capture",
            Self::WithoutConsole => "marquetry, no capture, no console",
            Self::Floor => "floor",
            Self::McpProxy => "mcp-proxy 6.7.19",
            Self::Supergateway => "supergateway 4.0.0",
            Self::FastMcp => "fastmcp 4.2.3",
        }
    }

    /// Returns whether it comes from npm or PyPI.
    pub(super) fn is_peer(self) -> bool {
        matches!(self, Self::McpProxy | Self::Supergateway | Self::FastMcp)
    }

    fn is_marquetry(self) -> bool {
        matches!(
            self,
            Self::Marquetry | Self::Directory | Self::WithoutCapture | Self::WithoutConsole
        )
    }
}

/// The built programs.
#[derive(Debug)]
pub(super) struct Programs {
    marquetry: PathBuf,
    /// `bench/peers/gateway`: the upstream and the floor.
    peer_gateway: PathBuf,
    /// The folder with the packages from npm and PyPI.
    packages: PathBuf,
}

impl Programs {
    pub(super) fn build(with_peers: bool) -> Result<Self, Failed> {
        let ours = ["--package=marquetry", "--bin=marquetry"].map(str::to_owned);
        let packages = root().join("bench/peers/gateway");
        if with_peers {
            install(&packages)?;
        }
        Ok(Self {
            marquetry: build("marquetry", &ours)?,
            peer_gateway: build("bench/peers/gateway", &peer_arguments("gateway"))?,
            packages,
        })
    }

    fn upstream(&self) -> Value {
        json!({ "command": self.peer_gateway, "args": ["upstream"] })
    }
}

/// Installs the peers of npm and PyPI.
fn install(packages: &Path) -> Result<(), Failed> {
    let npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];
    if !packages.join("node_modules").exists() {
        succeed(Command::new("npm").args(npm).arg("--loglevel=error").current_dir(packages))?;
    }
    if !packages.join(".venv").exists() {
        succeed(Command::new("python3").args(["-m", "venv", ".venv"]).current_dir(packages))?;
        let pip = ["install", "--quiet", "--requirement", "requirements.txt"];
        succeed(Command::new(packages.join(".venv/bin/pip")).args(pip).current_dir(packages))?;
    }
    Ok(())
}

fn succeed(command: &mut Command) -> Result<(), Failed> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed::new(format!("{command:?}: {status}"))),
        Err(error) => Err(Failed::new(format!("{command:?}: {error}"))),
    }
}

/// A running gateway with one upstream. Dropping it sends SIGTERM, so that it ends its upstream.
pub(super) struct RunningServer {
    pub(super) kind: Kind,
    pub(super) url: String,
    child: Child,
    /// Its configuration and its artifacts.
    _folder: TempDir,
}

impl RunningServer {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Starts the gateway. A peer may need more time until it answers.
    pub(super) fn start(kind: Kind, programs: &Programs) -> Result<Self, Failed> {
        let folder = TempDir::with_prefix("marquetry-gateway-")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = command(kind, programs, folder.path(), port)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match kind {
            Kind::Floor => _ = command.stdout(Stdio::piped()),
            _ if kind.is_marquetry() => _ = command.stderr(Stdio::piped()),
            _ => {}
        }
        let mut child =
            command.spawn().map_err(|error| Failed::new(format!("{}: {error}", kind.name())))?;
        let url = match (child.stdout.take(), child.stderr.take()) {
            (Some(stdout), _) => {
                let mut url = String::new();
                BufReader::new(stdout).read_line(&mut url)?;
                url.trim().to_owned()
            }
            (_, Some(stderr)) => announced(BufReader::new(stderr).lines())?,
            _ => format!("http://127.0.0.1:{port}/mcp"),
        };
        Ok(Self { kind, url, child, _folder: folder })
    }
}

/// Returns the address that our server logs.
fn announced(mut lines: Lines<BufReader<ChildStderr>>) -> Result<String, Failed> {
    loop {
        let line = lines.next().ok_or_else(|| Failed::new("the server ended"))??;
        if let Some(address) = listening(&line) {
            // Later lines must not fill the pipe.
            thread::spawn(move || lines.for_each(drop));
            return Ok(format!("http://{address}/mcp"));
        }
    }
}

fn command(kind: Kind, programs: &Programs, folder: &Path, port: u16) -> Result<Command, Failed> {
    let packages = &programs.packages;
    let upstream = format!("{} upstream", programs.peer_gateway.display());
    let port = port.to_string();
    let mut command;
    match kind {
        Kind::Marquetry | Kind::Directory | Kind::WithoutCapture | Kind::WithoutConsole => {
            let mut payload = programs.upstream();
            if matches!(kind, Kind::WithoutCapture | Kind::WithoutConsole) {
                payload["capture"] = json!(false);
            }
            let mut artifacts = json!({ "savings_database": folder.join("savings.db") });
            if kind == Kind::Directory {
                artifacts["directory"] = json!(folder.join("artifacts"));
            }
            let config = json!({
                "artifacts": artifacts,
                "knowledge": { "database": folder.join("knowledge.db") },
                "console": { "enabled": kind != Kind::WithoutConsole },
                "mcp_servers": { "payload": payload },
            });
            let text = toml::to_string(&config).map_err(|error| Failed::new(error.to_string()))?;
            let path = folder.join("marquetry.toml");
            std::fs::write(&path, text)?;
            command = Command::new(&programs.marquetry);
            command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
            command.arg("--config").arg(path);
        }
        Kind::Floor => {
            command = Command::new(&programs.peer_gateway);
            command.arg("forward").arg(&programs.peer_gateway).arg("upstream");
        }
        Kind::McpProxy => {
            command = Command::new("node");
            command.arg(packages.join("node_modules/.bin/mcp-proxy"));
            command.args(["--server", "stream", "--host", "127.0.0.1", "--port", &port, "--"]);
            command.arg(&programs.peer_gateway).arg("upstream");
        }
        Kind::Supergateway => {
            command = Command::new("node");
            command.arg(packages.join("node_modules/.bin/supergateway"));
            command.args(["--stdio", &upstream, "--outputTransport", "streamableHttp"]);
            command.args(["--stateful", "--logLevel", "none", "--port", &port]);
        }
        Kind::FastMcp => {
            let path = folder.join("mcp.json");
            let config = json!({ "mcpServers": { "payload": programs.upstream() } });
            std::fs::write(&path, config.to_string())?;
            command = Command::new(packages.join(".venv/bin/fastmcp"));
            command.arg("run").arg(path).args(["--transport", "http", "--port", &port]);
            command.args(["--no-banner", "--log-level", "ERROR"]);
        }
    }
    Ok(command)
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        _ = Command::new("kill").arg(self.child.id().to_string()).status();
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
