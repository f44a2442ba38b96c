//! One trial: starts client, server and upstream, kills one of them, and checks what the others do.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use clap::Args;
use marquetry_protocol::{
    client::{CallOptions, Client, HttpTarget},
    types::CallToolParams,
};
use marquetry_scenarios::{Revision, Transport, agent_options};
use rustix::process::{Pid, getpid};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

use super::{
    ancestry::{adopt_orphans, children, descendants, kill, wait_for_descendants},
    caller::{Caller, ClientEvent, TestedServer},
    event_log::EventLog,
    plan::{Plan, Victim},
    world::{SHAKEN, STEADY, ServerProcess, World},
};
use crate::Failed;

/// Time limit for processes that must end: twice the grace period of an upstream, and room for a
/// busy machine.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a request whose peer was killed, and for the restart of an upstream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// Time limit for the start of a process.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of `kill-trial`, which `kills` starts.
#[derive(Args, Debug)]
pub(crate) struct TrialOptions {
    #[arg(long)]
    binary: PathBuf,
    /// Starts a detached process, so that the trial must fail.
    #[arg(long)]
    sabotage: bool,
    /// The plan as JSON.
    plan: String,
}

/// The line that a trial prints when a call was in flight at the kill.
pub(super) const PENDING: &str = "a call was in flight";

struct Trial<'a> {
    plan: &'a Plan,
    world: World,
    started: Instant,
    served: Option<ServerProcess>,
    url: Option<String>,
    caller: Option<(Child, EventLog)>,
}

/// Runs one trial in this process, which must do nothing else.
pub(crate) async fn run(options: &TrialOptions) -> Result<(), Failed> {
    let plan: Plan =
        serde_json::from_str(&options.plan).map_err(|error| Failed::new(error.to_string()))?;
    adopt_orphans()?;
    if options.sabotage {
        Command::new("sh").args(["-c", "setsid sleep 1000 & true"]).status().await?;
    }
    let mut trial = Trial {
        plan: &plan,
        world: World::new(&plan)?,
        started: Instant::now(),
        served: None,
        url: None,
        caller: None,
    };
    let outcome = trial.run(&options.binary).await;
    // Processes that remain after a failure must not outlive the trial.
    let cleared =
        wait_for_descendants(if outcome.is_ok() { EXIT_TIMEOUT } else { Duration::ZERO }).await;
    if outcome.map_err(Failed::new)? {
        println!("{PENDING}");
    }
    cleared.map_err(Failed::new)
}

impl Trial<'_> {
    /// Returns whether a call was in flight at the kill.
    async fn run(&mut self, binary: &Path) -> Result<bool, String> {
        self.start(binary).await.map_err(|error| error.to_string())?;
        sleep_until(self.moment()).await;
        let victims = self.victims().await?;
        let pending = self.has_pending_call();
        for victim in victims {
            kill(victim)?;
        }
        let killed = Instant::now();
        match self.plan.victim {
            Victim::Client => self.check_after_client().await,
            Victim::Server => self.check_after_server(pending, killed).await,
            Victim::Upstream | Victim::Guard => self.check_after_upstream(pending, killed).await,
            Victim::ClientAndServer => {
                self.wait_for_caller().await?;
                self.wait_for_server().await
            }
        }?;
        Ok(pending)
    }

    fn moment(&self) -> Instant {
        self.started + Duration::from_millis(self.plan.moment_ms)
    }

    /// Starts the client, and before it the server unless the client starts it. A server that exits
    /// before it listens has no client.
    async fn start(&mut self, binary: &Path) -> std::io::Result<()> {
        let config = self.world.config();
        let server = if self.plan.transport == Transport::Http {
            let mut served = ServerProcess::start(binary, &config)?;
            let dies = matches!(self.plan.victim, Victim::Server | Victim::ClientAndServer);
            let until = if dies { self.moment() } else { self.started + START_TIMEOUT };
            self.url = timeout_at(until, served.url()).await.ok().flatten();
            self.served = Some(served);
            match &self.url {
                Some(url) => TestedServer::Url(url.clone()),
                None if dies => return Ok(()),
                None => return Err(std::io::Error::other("the server did not listen")),
            }
        } else {
            let line = [
                binary.as_os_str(),
                "stdio".as_ref(),
                "--log".as_ref(),
                "error".as_ref(),
                "--config".as_ref(),
                config.as_os_str(),
            ];
            TestedServer::Command(line.map(|it| it.to_string_lossy().into_owned()).to_vec())
        };
        let caller = Caller {
            server,
            revision: self.plan.revision,
            busy: vec![self.world.busy(SHAKEN), self.world.busy(STEADY)],
            silent: vec![self.world.silent()],
        };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["kill-caller", &serde_json::to_string(&caller)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
        self.caller = Some((child, EventLog::from(stdout)));
        Ok(())
    }

    /// Waits for the processes to kill.
    async fn victims(&self) -> Result<Vec<Pid>, String> {
        let end = Instant::now() + START_TIMEOUT;
        loop {
            match self.find_victims() {
                Some(found) => return Ok(found),
                None if Instant::now() > end => {
                    return Err(format!("no {} to kill; {}", self.plan.victim, self.last_events()));
                }
                None => sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// Returns the processes to kill; [`None`] if one of them has not started.
    fn find_victims(&self) -> Option<Vec<Pid>> {
        match self.plan.victim {
            Victim::Client => Some(vec![self.client_process()?]),
            Victim::Server => Some(vec![self.server_process()?]),
            // Over HTTP the server may exit before it has a client.
            Victim::ClientAndServer => {
                let server = self.server_process()?;
                Some(self.client_process().into_iter().chain([server]).collect())
            }
            Victim::Upstream => Some(vec![self.upstream_process()?]),
            Victim::Guard => {
                let upstream = self.upstream_process()?;
                let mut processes = descendants(getpid()).into_iter();
                Some(vec![processes.find(|&it| children(it).contains(&upstream))?])
            }
        }
    }

    fn client_process(&self) -> Option<Pid> {
        self.caller.as_ref().and_then(|(child, _)| pid_of(child))
    }

    fn server_process(&self) -> Option<Pid> {
        match &self.served {
            Some(served) => pid_of(&served.child),
            // Over stdio the server is the client's child.
            None => children(self.client_process()?).first().copied(),
        }
    }

    fn upstream_process(&self) -> Option<Pid> {
        let program = self.world.process(SHAKEN)?;
        descendants(getpid()).contains(&program).then_some(program)
    }

    /// Returns whether the upstream has a call that will not end by itself.
    fn has_pending_call(&self) -> bool {
        let Some((_, events)) = &self.caller else { return false };
        if self.world.is_real() {
            // A real server keeps no journal. One that has answered the other call has most likely
            // read this one.
            let answered = ClientEvent::CallAnswered(self.world.busy(SHAKEN).name);
            return events.has(self.started, |event| *event == answered);
        }
        self.world.silent_calls().is_ok_and(|(begun, _)| begun > 0)
    }

    /// Over stdio every process ends with the client. Over HTTP the client's calls end, and the
    /// server continues.
    async fn check_after_client(&mut self) -> Result<(), String> {
        self.wait_for_caller().await?;
        let Some(url) = self.url.clone() else { return Ok(()) };
        // A client can return to a session for its answer, so the call ends at its own time limit.
        let end = Instant::now() + ANSWER_TIMEOUT;
        while !self.world.is_real() {
            let (begun, cancelled) = self.world.silent_calls().map_err(|it| it.to_string())?;
            if begun == cancelled {
                break;
            }
            if Instant::now() > end {
                return Err(format!("{begun} calls of a dead client, {cancelled} cancelled"));
            }
            sleep(Duration::from_millis(10)).await;
        }
        timeout(ANSWER_TIMEOUT, another_client(url, self.plan.revision, &self.world))
            .await
            .map_err(|_| "another client got no answer".to_owned())??;
        self.finish().await
    }

    /// The client's calls fail at once, and the client can exit.
    async fn check_after_server(&mut self, pending: bool, killed: Instant) -> Result<(), String> {
        if let Some((_, events)) = &self.caller
            && pending
        {
            let silent = self.world.silent().name;
            events.wait_for_failure(&silent, killed, ANSWER_TIMEOUT).await?;
        }
        self.wait_for_caller().await?;
        self.wait_for_server().await
    }

    /// The pending call fails, the upstream is restarted, and the other upstream is not affected.
    async fn check_after_upstream(&mut self, pending: bool, killed: Instant) -> Result<(), String> {
        let (_, events) = self.caller.as_ref().ok_or("no client")?;
        if pending {
            events.wait_for_failure(&self.world.silent().name, killed, ANSWER_TIMEOUT).await?;
        }
        for upstream in [SHAKEN, STEADY] {
            let answered = ClientEvent::CallAnswered(self.world.busy(upstream).name);
            let what = format!("an answer of the {upstream} upstream");
            events.wait(&what, killed, ANSWER_TIMEOUT, |event| *event == answered).await?;
        }
        if let Some(error) = events.failure(&self.world.busy(STEADY).name, self.started) {
            return Err(format!("a call of the other upstream failed: {error}"));
        }
        self.finish().await
    }

    /// Stops client and server cleanly.
    async fn finish(&mut self) -> Result<(), String> {
        if let Some((child, _)) = &mut self.caller {
            drop(child.stdin.take());
        }
        self.wait_for_caller().await?;
        match self.served.take() {
            Some(served) => served.end().await,
            None => Ok(()),
        }
    }

    async fn wait_for_caller(&mut self) -> Result<(), String> {
        let Some((child, _)) = &mut self.caller else { return Ok(()) };
        let ended = timeout(EXIT_TIMEOUT, child.wait()).await;
        ended.map(|_| ()).map_err(|_| format!("the client did not exit; {}", self.last_events()))
    }

    async fn wait_for_server(&mut self) -> Result<(), String> {
        let Some(served) = &mut self.served else { return Ok(()) };
        let ended = timeout(EXIT_TIMEOUT, served.child.wait()).await;
        ended.map(|_| ()).map_err(|_| "the killed server did not exit".to_owned())
    }

    fn last_events(&self) -> String {
        self.caller.as_ref().map_or("no client was started".to_owned(), |(_, events)| events.last())
    }
}

/// Checks that a new client gets answers of both upstreams.
async fn another_client(url: String, revision: Revision, world: &World) -> Result<(), String> {
    let target = HttpTarget { url, ..HttpTarget::default() };
    let client =
        Client::http(target, agent_options(revision)).await.map_err(|it| it.to_string())?;
    for upstream in [SHAKEN, STEADY] {
        let tool = world.busy(upstream);
        let params =
            CallToolParams::new(&tool.name, &tool.arguments).map_err(|it| it.to_string())?;
        let answer = client
            .call_tool_raw(&params, CallOptions::default())
            .await
            .map_err(|error| error.to_string())?;
        if answer.get().contains(r#""isError":true"#) {
            return Err(format!("another client got {answer}"));
        }
    }
    client.close().await;
    Ok(())
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id()?.try_into().ok()?)
}
