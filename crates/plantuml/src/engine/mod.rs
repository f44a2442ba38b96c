//! The real PlantUML on this machine: checks and draws diagrams, and nothing leaves the machine.
//!
//! [`Engine`] keeps a few processes and gives each one diagram after the other: the start of Java
//! costs seconds, a diagram less than 100 ms. Callers share the processes fairly: the next diagram
//! is one of the caller with the fewest in work, and one caller never uses all processes. Two
//! things keep a diagram from reading files, addresses and the environment:
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
//! use marquetry_plantuml::{Source, engine::{Caller, Engine, EngineOptions, Program}};
//!
//! # async fn draw() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineOptions::new(Program::Command("/usr/bin/plantuml".into())));
//! let drawn = engine.render(&Caller::Local, Source::new("Bob -> Alice : hello")?).await?;
//! assert!(drawn.svg.starts_with("<?xml"));
//! # Ok(())
//! # }
//! ```

mod links;
mod pool;
mod process;
mod rules;
mod sandbox;

use std::{
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use marquetry_protocol_callers::Caller;
use marquetry_protocol_callers::fair::{FairBounds, FairLimiter, Slot};
use tokio::time::timeout;

pub use self::rules::Forbidden;
use self::{
    pool::{Place, Pool},
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
    /// Time limit of one diagram, without its wait for others and the start of its process; 20 s by
    /// default.
    pub timeout: Duration,
    /// Longest wait of a diagram for others; 60 s by default.
    pub max_wait: Duration,
    /// Largest number of processes; 2 by default. All diagrams of one caller use at most one fewer,
    /// so that another caller need not wait for them. Callers on this machine without a token are
    /// one user, who may use all.
    pub processes: NonZeroUsize,
    /// The largest drawing, in bytes; 4 MiB by default.
    pub max_output_bytes: usize,
    /// The memory that Java may use for the objects of one process, in MiB; 512 by default.
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
            max_wait: Duration::from_mins(1),
            processes: NonZeroUsize::new(2).expect("it is not 0"),
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
    /// The picture, an SVG document. Its links are those of the diagram's author, without addresses
    /// that run a script.
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
    /// Other diagrams were drawn for too long.
    #[error(
        "the diagram got no turn within {} ms, since others were drawn; try again later, \
         or raise engine_max_wait_ms or engine_processes", max_wait.as_millis()
    )]
    Busy {
        /// The longest wait.
        max_wait: Duration,
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

/// PlantUML as processes of this machine, which are started when diagrams need them.
#[derive(Debug)]
pub struct Engine {
    starter: Arc<Starter>,
    /// The turns of the callers: one for each process.
    turns: FairLimiter,
    processes: Pool,
}

/// Starts processes with these options.
#[derive(Debug)]
struct Starter {
    options: EngineOptions,
}

/// Time after which a diagram counts as slow. A diagram waits as long for a busy process before it
/// starts another one, since a start takes longer than most diagrams. At a slow diagram, a process
/// for other callers is started, which would have to wait for its start.
const SLOW: Duration = Duration::from_millis(250);

impl Engine {
    /// Creates an engine. Its first process starts with the first diagram.
    #[must_use]
    pub fn new(options: EngineOptions) -> Self {
        let processes = options.processes.get();
        let turns = FairLimiter::new(FairBounds {
            what: "diagrams are drawn",
            total_setting: "engine_processes",
            per_caller_setting: "engine_processes",
            total: processes,
            per_caller: (processes - 1).max(1),
            // Each waiting diagram is a request of its caller, and those are limited.
            queued: usize::MAX,
            wait: options.max_wait,
        })
        .with_queue_per_caller(usize::MAX);
        let processes = Pool::new(processes);
        Self { starter: Arc::new(Starter { options }), turns, processes }
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.starter.options
    }

    /// Draws a diagram of a caller. Text without `@startuml` gets it. Diagrams wait for each other,
    /// fairly between callers.
    ///
    /// # Errors
    /// Returns an error if the diagram is forbidden, if PlantUML fails, or if the time is over.
    pub async fn render(
        &self,
        caller: &Caller,
        source: Source<'_>,
    ) -> Result<Drawing, EngineError> {
        let diagram = rules::checked(source.as_str())?;
        let max_wait = self.options().max_wait;
        let turn = self.turns.enter(caller, 1).await;
        let slot = turn.map_err(|_| EngineError::Busy { max_wait })?;
        let (place, idle) = self.place_and_process().await;
        let turn = Turn { starter: self.starter.clone(), held: Some((slot, place)) };
        // If this future is dropped, the process is dropped and ends, because it may still write an
        // answer.
        let drawn = match idle {
            // The process may have ended since the last diagram. Then another one is started, once.
            Some(process) => match self.draw(process, caller, &diagram.text).await {
                Err(EngineError::Ended) => self.start_and_draw(caller, &diagram.text).await,
                drawn => drawn,
            },
            None => self.start_and_draw(caller, &diagram.text).await,
        };
        let (process, reply) = match drawn {
            Ok(drawn) => drawn,
            Err(error) => {
                if matches!(error, EngineError::Process(_) | EngineError::NoSandbox { .. }) {
                    turn.end();
                }
                return Err(error);
            }
        };
        turn.keep(process);
        match reply {
            Reply::Svg(svg) => Ok(Drawing { svg: links::without_unsafe_links(&svg).into_owned() }),
            Reply::Error { line, message } => {
                Err(EngineError::Syntax { line: line + diagram.first_line, message })
            }
        }
    }

    /// Ends the processes after their diagrams. The next diagram starts another one.
    pub async fn stop(&self) {
        self.processes.clear().await;
    }

    /// Waits for a place, and for a process unless the caller has to start one in the place.
    async fn place_and_process(&self) -> (Place, Option<Process>) {
        let place = self.processes.place().await;
        let idle = place.idle(SLOW).await;
        if idle.is_some() || place.is_alone() {
            return (place, idle);
        }
        // A slow diagram may end before the new process is ready.
        self.start_in_background(place);
        let place = self.processes.place().await;
        let idle = place.idle(Duration::ZERO).await;
        (place, idle)
    }

    async fn start_and_draw(
        &self,
        caller: &Caller,
        diagram: &str,
    ) -> Result<(Process, Reply), EngineError> {
        self.draw(self.starter.start_in_time().await?, caller, diagram).await
    }

    /// Draws within the time limit, and starts a process for others if it takes long.
    async fn draw(
        &self,
        mut process: Process,
        caller: &Caller,
        diagram: &str,
    ) -> Result<(Process, Reply), EngineError> {
        let limit = self.options().timeout;
        let drawn = {
            let drawing = timeout(limit, process.draw(diagram));
            tokio::pin!(drawing);
            if let Ok(drawn) = timeout(SLOW, &mut drawing).await {
                drawn
            } else {
                // Without tokens there is one user, and a process takes 100 MiB.
                if matches!(caller, Caller::Principal(_))
                    && let Some(place) = self.processes.empty_place()
                {
                    self.start_in_background(place);
                }
                drawing.await
            }
        };
        let drawn = drawn.map_err(|_| EngineError::Timeout { limit })?;
        Ok((process, drawn.map_err(|error| self.starter.error(error))?))
    }

    /// Starts a process in the background, which is then idle.
    fn start_in_background(&self, place: Place) {
        let starter = self.starter.clone();
        tokio::spawn(async move {
            // The diagram that needs a process next tells its caller of the error.
            if let Ok(process) = starter.start_in_time().await {
                place.keep(process);
            }
        });
    }
}

/// The turn of a diagram, and its place among the processes.
///
/// If the diagram ends its process, by its time or because its caller has gone, the turn lasts
/// until another process has started. Otherwise the caller's next diagram would take the idle
/// process of others, and these would wait for the start.
struct Turn {
    starter: Arc<Starter>,
    held: Option<(Slot, Place)>,
}

impl Turn {
    /// Ends the turn, and keeps the process for the next diagram.
    fn keep(mut self, process: Process) {
        if let Some((_slot, place)) = self.held.take() {
            place.keep(process);
        }
    }

    /// Ends the turn without a process, since none can be started.
    fn end(mut self) {
        self.held = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((slot, place)) = self.held.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let starter = self.starter.clone();
        runtime.spawn(async move {
            let _slot = slot;
            if let Ok(process) = starter.start_in_time().await {
                place.keep(process);
            }
        });
    }
}

impl Starter {
    async fn start_in_time(&self) -> Result<Process, EngineError> {
        let started = timeout(self.options.start_timeout, self.start()).await;
        started.unwrap_or_else(|_| Err(self.no_answer()))
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
