//! The real PlantUML on this machine: checks and draws diagrams, and nothing leaves the machine.
//!
//! [`Engine`] keeps one process and gives it one diagram after the other: the start of Java costs
//! seconds, a diagram less than 100 ms. Two things keep a diagram from reading files, addresses and
//! the environment:
//!
//! - A diagram whose text says that it reads is refused, with its line, before the process sees it
//!   ([`Forbidden`]).
//! - The process is in a sandbox, since a diagram can hide what it reads behind variables: it has
//!   an empty working directory, an environment of its own, and a security manager of Java that
//!   allows no connection and only the files of Java, PlantUML and Graphviz. Java 24 and later have
//!   no security manager; PlantUML's own sandbox, which versions since 1.2020.11 have, does the
//!   same there. A process that reads a file nevertheless is not used ([`EngineError::NoSandbox`]).
//!
//! ```no_run
//! use marquetry_plantuml::{Source, engine::{Engine, EngineOptions, Program}};
//!
//! # async fn draw() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineOptions::new(Program::Command("/usr/bin/plantuml".into())));
//! let drawn = engine.render(Source::new("Bob -> Alice : hello")?).await?;
//! assert!(drawn.svg.starts_with("<?xml"));
//! # Ok(())
//! # }
//! ```

mod process;
mod rules;
mod sandbox;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{sync::Mutex, time::timeout};

pub use self::rules::Forbidden;
use self::{
    process::{Process, Reply},
    sandbox::SecurityManager,
};
use crate::Source;

/// The command that starts PlantUML, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The program.
    pub program: Program,
    /// Time limit of the start of the process; 30 s by default.
    pub start_timeout: Duration,
    /// Time limit of one diagram, including its wait for other diagrams; 20 s by default.
    pub timeout: Duration,
    /// The largest drawing, in bytes; 4 MiB by default.
    pub max_output_bytes: usize,
    /// The memory that Java may use for its objects, in MiB; 512 by default.
    pub max_memory_mib: u32,
}

impl EngineOptions {
    /// Options with this program and defaults for the rest.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            start_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(20),
            max_output_bytes: 4 << 20,
            max_memory_mib: 512,
        }
    }
}

/// The program that draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A command with the command line of PlantUML, as packages of distributions install it.
    Command(PathBuf),
    /// A jar, run by `java` on the `PATH`.
    Jar(PathBuf),
}

/// A drawn diagram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drawing {
    /// The picture, an SVG document. Its links are those of the diagram's author.
    pub svg: String,
}

/// Why a diagram was not drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The diagram contains something that is forbidden.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// PlantUML does not understand the diagram.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line of the source, counted from 1.
        line: usize,
        /// Message of PlantUML.
        message: String,
    },
    /// The drawing took too long. The process was ended; the next diagram starts another one.
    #[error("the diagram was not drawn within {} ms", limit.as_millis())]
    Timeout {
        /// The limit.
        limit: Duration,
    },
    /// The drawing is too large. The process was ended; the next diagram starts another one.
    #[error("the drawing is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// PlantUML ended instead of an answer. Older versions do so when a diagram reads what the
    /// sandbox refuses.
    #[error(
        "PlantUML ended without a picture; it does so when a diagram reads a file or an address, which is refused"
    )]
    Ended,
    /// The program reads files for a diagram, so it is not used.
    #[error(
        "{} is not used, since it lets diagrams read files of this machine: \
         use PlantUML 1.2020.11 or later, or a Java before version 24", program.display()
    )]
    NoSandbox {
        /// The program or jar.
        program: PathBuf,
    },
    /// PlantUML cannot be started.
    #[error("PlantUML cannot be used: {0}")]
    Process(#[from] io::Error),
}

/// PlantUML as a process of this machine, which is started at the first diagram.
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    /// The process; `None` before the first diagram and after a failed one. A call that draws takes
    /// the process out. If the call is cancelled, the process is dropped and ends, because it may
    /// still write an answer.
    process: Mutex<Option<Process>>,
}

impl Engine {
    /// Creates an engine. Its process starts with the first diagram.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        Self { options, process: Mutex::new(None) }
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Draws a diagram. Text without `@startuml` gets it. Diagrams wait for each other.
    ///
    /// # Errors
    /// Returns an error if the diagram is forbidden, if PlantUML fails, or if the time is over.
    pub async fn render(&self, source: Source<'_>) -> Result<Drawing, EngineError> {
        let diagram = rules::checked(source.as_str())?;
        let limit = self.options.timeout;
        let drawn = timeout(limit, async {
            let mut slot = self.process.lock().await;
            let reply = match slot.take() {
                // The process may have ended since the last diagram. Then another one is started,
                // once.
                Some(mut process) => match process.draw(&diagram.text).await {
                    Ok(reply) => Ok((process, reply)),
                    Err(process::DrawError::Ended) => self.start_and_draw(&diagram.text).await,
                    Err(error) => Err(self.error(error)),
                },
                None => self.start_and_draw(&diagram.text).await,
            };
            let (process, reply) = reply?;
            *slot = Some(process);
            Ok(reply)
        });
        match drawn.await.unwrap_or(Err(EngineError::Timeout { limit }))? {
            Reply::Svg(svg) => Ok(Drawing { svg }),
            Reply::Error { line, message } => {
                Err(EngineError::Syntax { line: line + diagram.first_line, message })
            }
        }
    }

    /// Ends the process. The next diagram starts another one.
    pub async fn stop(&self) {
        self.process.lock().await.take();
    }

    async fn start_and_draw(&self, diagram: &str) -> Result<(Process, Reply), EngineError> {
        let limit = self.options.start_timeout;
        let started = timeout(limit, self.start()).await;
        let mut process = started.unwrap_or_else(|_| Err(self.no_answer()))?;
        let reply = process.draw(diagram).await.map_err(|error| self.error(error))?;
        Ok((process, reply))
    }

    /// Starts a process that reads nothing.
    ///
    /// A process that ends at once may be Java 24 or later, which has no security manager, or a
    /// start that failed by chance. So where a process without a security manager reads files, one
    /// with it is tried again.
    async fn start(&self) -> Result<Process, EngineError> {
        use SecurityManager::{Off, On};
        let mut reads_files = false;
        for manager in [On, Off, On, On] {
            let mut process = Process::start(&self.options, manager)?;
            match process.ready().await {
                Ok(()) => return Ok(process),
                Err(process::DrawError::Ended) => {}
                Err(process::DrawError::ReadsFiles) if manager == Off => reads_files = true,
                Err(error) => return Err(self.error(error)),
            }
            if manager == Off && !reads_files {
                break;
            }
        }
        Err(if reads_files { self.error(process::DrawError::ReadsFiles) } else { self.no_answer() })
    }

    fn error(&self, error: process::DrawError) -> EngineError {
        match error {
            process::DrawError::TooLarge => {
                EngineError::TooLarge { limit: self.options.max_output_bytes }
            }
            process::DrawError::Ended => EngineError::Ended,
            process::DrawError::ReadsFiles => {
                EngineError::NoSandbox { program: self.program().to_owned() }
            }
        }
    }

    fn no_answer(&self) -> EngineError {
        let message = format!("{} ended without an answer", self.program().display());
        EngineError::Process(io::Error::other(message))
    }

    fn program(&self) -> &Path {
        let (Program::Command(path) | Program::Jar(path)) = &self.options.program;
        path
    }
}

/// Text that no diagram can know.
fn random_hex() -> io::Result<String> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(secret)))
}
