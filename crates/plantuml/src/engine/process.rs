//! A process of PlantUML, which draws one diagram after the other.

use std::{io, process::Stdio};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{
    EngineOptions, Program, random_hex,
    sandbox::{Sandbox, SecurityManager},
};

/// A running PlantUML. A drop ends the process and its children.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// The line at the end of each answer. It is random, so that no diagram can contain it.
    delimiter: String,
    max_output_bytes: usize,
    sandbox: Sandbox,
}

/// The reply of PlantUML.
pub(super) enum Reply {
    Svg(String),
    Error {
        /// Counted from 0 at `@startuml`.
        line: usize,
        message: String,
    },
}

pub(super) enum DrawError {
    /// The process has ended, or sends something that is not a valid answer.
    Ended,
    TooLarge,
    /// The process reads files for a diagram.
    ReadsFiles,
}

impl From<io::Error> for DrawError {
    fn from(_: io::Error) -> Self {
        Self::Ended
    }
}

impl Process {
    pub(super) fn start(options: &EngineOptions, manager: SecurityManager) -> io::Result<Self> {
        let sandbox = Sandbox::new(options)?;
        let mut command = match &options.program {
            Program::Command(path) => Command::new(path),
            Program::Jar(path) => {
                let mut command = Command::new("java");
                command.arg("-jar").arg(path);
                command
            }
        };
        let delimiter = random_hex()?;
        let work = sandbox.work();
        command
            .args(["-tsvg", "-pipe", "-pipenostderr", "-nometadata", "-charset", "UTF-8"])
            .args(["-pipedelimitor", &delimiter])
            .env_clear()
            // PlantUML's start script finds Java and Graphviz on the `PATH`.
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", &work)
            .env("JAVA_TOOL_OPTIONS", sandbox.java_options(manager, options.max_memory_mib))
            .env("PLANTUML_SECURITY_PROFILE", "SANDBOX")
            // Graphviz up to version 7 takes it for a web server then, and reads no pictures.
            .env("SERVER_NAME", "marquetry")
            .current_dir(work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        // In a process group, so that Graphviz, which PlantUML starts, ends with it.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| {
            let program = command.as_std().get_program().display();
            io::Error::new(error.kind(), format!("{program} cannot be started: {error}"))
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the process has no pipes"));
        };
        let max_output_bytes = options.max_output_bytes;
        Ok(Self { child, input, output, delimiter, max_output_bytes, sandbox })
    }

    /// Waits until the process answers, and finds out whether its sandbox holds.
    pub(super) async fn ready(&mut self) -> Result<(), DrawError> {
        let reply = self.draw(&self.sandbox.probe()).await?;
        let (Reply::Svg(answer) | Reply::Error { message: answer, .. }) = &reply;
        if self.sandbox.has_leaked(answer) { Err(DrawError::ReadsFiles) } else { Ok(()) }
    }

    /// Draws a diagram with exactly one `@start…` and one `@end…`, each on a separate line.
    pub(super) async fn draw(&mut self, diagram: &str) -> Result<Reply, DrawError> {
        self.input.write_all(diagram.as_bytes()).await?;
        self.input.flush().await?;
        let end = format!("{}\n", self.delimiter);
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            if answer.len() > self.max_output_bytes.saturating_add(end.len()) {
                return Err(DrawError::TooLarge);
            }
            if self.output.read_buf(&mut answer).await? == 0 {
                return Err(DrawError::Ended);
            }
        }
        answer.truncate(answer.len() - end.len());
        let answer = String::from_utf8(answer).map_err(|_| DrawError::Ended)?;
        let answer = answer.trim_end_matches(['\n', '\r']);
        let Some(error) = answer.strip_prefix("ERROR") else {
            return if answer.is_empty() {
                Err(DrawError::Ended)
            } else {
                Ok(Reply::Svg(answer.to_owned()))
            };
        };
        let mut lines = error.lines().skip(1);
        let line = lines.next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
        Ok(Reply::Error { line, message: lines.collect::<Vec<_>>().join(" ") })
    }
}

#[cfg(unix)]
impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // The process may have ended already.
            _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}
