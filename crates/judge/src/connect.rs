//! The connections of one trial, opened for it and closed with it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use marquetry_llm::Tool;
use marquetry_nearest::nearest;
use marquetry_protocol::{
    client::{
        CallOptions, Client, ClientError, ClientOptions, HttpTarget, Stderr, StdioCommand,
        is_default_variable,
    },
    types::{CallToolParams, JsonObject},
};
use serde_json::{Value, json, value::to_raw_value};
use tokio_util::task::TaskTracker;

use crate::{
    ExpectedTool, ServerConfig, ToolCallRecord, TrialError,
    budget::{Budget, LimitReached},
    cassette::{Cassette, Channel, ReplayedAnswer},
    redact::{Redactor, cut, likely_secrets_of_url},
};

/// Number of last lines of a server's standard error that are kept for errors.
const LAST_LINES: usize = 5;

/// Longest of these lines, in bytes.
const LONGEST_LINE: usize = 300;

/// The programs of a trial, and whether the trial may start more.
type TrialChildren = (TaskTracker, Weak<()>);

/// The options of a runner for all connections.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    pub(crate) variables: BTreeMap<String, String>,
    /// The guard program through which servers that are programs are started; see
    /// [`StdioCommand::through_guard`].
    pub(crate) guard: Option<PathBuf>,
    /// Texts that are hidden in results, such as the keys of models.
    pub(crate) secrets: Vec<String>,
    /// The programs of each trial that may still be running.
    children: Arc<Mutex<Vec<TrialChildren>>>,
    pub(crate) open: Arc<AtomicUsize>,
}

impl Environment {
    /// Sets the variables that servers inherit: those that programs need.
    pub(crate) fn inherit(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        self.variables =
            variables.into_iter().filter(|(name, _)| is_default_variable(name)).collect();
        // A server may show the URL of a proxy that it cannot reach.
        self.secrets.extend(self.variables.values().flat_map(|value| likely_secrets_of_url(value)));
    }

    /// Returns a tracker of the programs of one trial, and a handle that the trial keeps as long as
    /// it may start more programs.
    pub(crate) fn children_of_trial(&self) -> (TaskTracker, Arc<()>) {
        let tracker = TaskTracker::new();
        tracker.close();
        let mut all = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(tracker, trial)| !tracker.is_empty() || trial.strong_count() > 0);
        let trial = Arc::new(());
        all.push((tracker.clone(), Arc::downgrade(&trial)));
        (tracker, trial)
    }

    /// Waits until no program is left.
    pub(crate) async fn closed(&self) {
        let all = self.children.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (tracker, _) in all {
            tracker.wait().await;
        }
    }
}

/// The servers of a trial, and their tools.
pub(crate) struct Connections {
    servers: Vec<Server>,
    pub(crate) tools: Vec<OfferedTool>,
    /// Tools that the case leaves out.
    left_out: Vec<OfferedTool>,
}

/// A tool as the model sees it.
pub(crate) struct OfferedTool {
    /// A name that is unique among all servers and that providers accept.
    pub(crate) shown_name: String,
    /// The name at its server.
    pub(crate) name: String,
    server: usize,
    definition: Tool,
}

struct Server {
    id: String,
    link: Link,
    stderr: LastLines,
    _open: OpenConnection,
}

enum Link {
    Live { client: Client, channel: Option<Channel> },
    Replayed(Channel),
}

/// Counts one open connection.
struct OpenConnection(Arc<AtomicUsize>);

impl OpenConnection {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Default)]
struct LastLines {
    lines: Arc<Mutex<VecDeque<String>>>,
    redactor: Arc<Redactor>,
}

impl LastLines {
    fn new(redactor: &Arc<Redactor>) -> Self {
        Self { lines: Arc::default(), redactor: Arc::clone(redactor) }
    }

    fn push(&self, line: &str) {
        // Before the line is cut, which may leave a part of a secret.
        let line = self.redactor.text(line.trim().to_owned());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(cut(&line, LONGEST_LINE));
    }

    /// Returns the lines. They may arrive a little later than the end of the program's output.
    async fn last_words(&self) -> String {
        for _ in 0..20 {
            let text = self.text();
            if !text.is_empty() {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        String::new()
    }

    fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| !line.is_empty()).cloned().collect::<Vec<_>>().join(" | ")
    }
}

/// The outcome of a tool call.
pub(crate) enum CallOutcome {
    /// The tool's result.
    Result(Value),
    /// The server's error, which is passed to the model.
    Refused(String),
}

impl Connections {
    /// Connects to all servers at once and lists their tools. If one fails, the others are closed.
    pub(crate) async fn open(
        configs: &[ServerConfig],
        environment: &Environment,
        children: &TaskTracker,
        budget: &Budget,
        redactor: &Arc<Redactor>,
        tape: Option<(&Cassette, &str)>,
    ) -> Result<Self, TrialError> {
        let ids = ids(configs)?;
        let opening = configs.iter().zip(&ids).map(|(config, id)| {
            let channel = tape.map(|(cassette, case)| {
                cassette.channel(format!("{case}/server:{id}"), Arc::clone(redactor))
            });
            let stderr = LastLines::new(redactor);
            open(config, id, environment, children, budget, stderr, channel)
        });
        let mut servers = Vec::new();
        let mut listed = Vec::new();
        let mut failure = None;
        for outcome in join_all(opening).await {
            match outcome {
                Ok((server, tools)) => {
                    servers.push(server);
                    listed.push(tools);
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let connections = Self { servers, tools: Vec::new(), left_out: Vec::new() };
        if let Some(error) = failure {
            connections.close().await;
            return Err(error);
        }
        let tools = offered(&connections.servers, listed);
        Ok(Self { tools, ..connections })
    }

    /// Keeps only the named tools, and checks the number of those that remain.
    pub(crate) fn restrict(
        &mut self,
        names: Option<&[String]>,
        max_tools: u32,
    ) -> Result<(), TrialError> {
        if let Some(names) = names {
            for name in names {
                self.check_listed("tools", &ExpectedTool::new(name))?;
            }
            let all = std::mem::take(&mut self.tools);
            let (kept, left_out) = all.into_iter().partition(|tool| names.contains(&tool.name));
            (self.tools, self.left_out) = (kept, left_out);
        }
        let found = self.tools.len();
        if found > max_tools as usize {
            return Err(LimitReached::new(
                "maxTools",
                max_tools,
                "the servers list more tools; name those that the model needs in the case's tools",
            )
            .into());
        }
        Ok(())
    }

    /// Checks that the model gets a tool.
    pub(crate) fn check_known(
        &self,
        member: &'static str,
        tool: &ExpectedTool,
    ) -> Result<(), TrialError> {
        self.check_listed(member, tool)?;
        if self.tools.iter().any(|offered| self.is(offered, tool)) {
            return Ok(());
        }
        let problem = format!(
            "names the tool {:?}, which the case's tools leave out: add it there",
            tool.name
        );
        Err(TrialError::case(member, problem))
    }

    fn is(&self, offered: &OfferedTool, tool: &ExpectedTool) -> bool {
        let id = &self.servers[offered.server].id;
        offered.name == tool.name && tool.server.as_ref().is_none_or(|server| server == id)
    }

    /// Checks that a server lists a tool, though the case may leave it out.
    pub(crate) fn check_listed(
        &self,
        member: &'static str,
        tool: &ExpectedTool,
    ) -> Result<(), TrialError> {
        let name = tool.name.as_str();
        let server = tool.server.as_deref();
        if self.tools.iter().chain(&self.left_out).any(|offered| self.is(offered, tool)) {
            return Ok(());
        }
        if let Some(server) = server
            && !self.servers.iter().any(|it| it.id == server)
        {
            let ids = cut(&self.server_ids().join(", "), 600);
            let problem = format!("names the unknown server {server:?}; the servers are {ids}");
            return Err(TrialError::case(member, problem));
        }
        let names: BTreeSet<&str> = self
            .tools
            .iter()
            .filter(|tool| server.is_none_or(|id| self.servers[tool.server].id == id))
            .map(|tool| tool.name.as_str())
            .collect();
        let names = Vec::from_iter(names);
        let known = if names.is_empty() { "none".to_owned() } else { cut(&names.join(", "), 600) };
        Err(TrialError::UnknownTool {
            member,
            tool: name.to_owned(),
            nearest: nearest(name, &names).filter(|near| *near != name).map(str::to_owned),
            known,
        })
    }

    pub(crate) fn definitions(&self) -> Vec<Tool> {
        self.tools.iter().map(|tool| tool.definition.clone()).collect()
    }

    pub(crate) fn server_ids(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.id.clone()).collect()
    }

    /// Finds the tool of a name that the model wrote.
    pub(crate) fn find(&self, shown_name: &str) -> Option<(&OfferedTool, &str)> {
        let tool = self.tools.iter().find(|tool| tool.shown_name == shown_name)?;
        Some((tool, &self.servers[tool.server].id))
    }

    /// Calls a tool at the server that has it, once.
    pub(crate) async fn call(
        &self,
        tool: &OfferedTool,
        arguments: &JsonObject,
        timeout: Duration,
    ) -> Result<CallOutcome, TrialError> {
        let server = &self.servers[tool.server];
        let (client, channel) = match &server.link {
            Link::Replayed(channel) => {
                return Ok(match channel.replay(recorded_call(tool, arguments))? {
                    ReplayedAnswer::Answer(result) => CallOutcome::Result(result),
                    ReplayedAnswer::Error(error) => CallOutcome::Refused(error),
                });
            }
            Link::Live { client, channel } => (client, channel),
        };
        let request =
            channel.as_ref().map(|channel| channel.request(recorded_call(tool, arguments)));
        let params = CallToolParams {
            name: tool.name.clone(),
            arguments: to_raw_value(arguments).ok(),
            meta: None,
        };
        let options = CallOptions { timeout: Some(timeout), ..CallOptions::default() };
        // The client's time limit applies to one request, and a call may take several requests.
        let answer = tokio::time::timeout(timeout, client.call_tool_raw(&params, options)).await;
        let called = match answer.unwrap_or(Err(ClientError::Timeout(timeout))) {
            Ok(result) => match serde_json::from_str(result.get()) {
                Ok(result) => CallOutcome::Result(result),
                Err(error) => {
                    CallOutcome::Refused(format!("the server's result is invalid: {error}"))
                }
            },
            Err(error @ (ClientError::Closed(_) | ClientError::Io { .. })) => {
                return Err(TrialError::ServerEnded {
                    server: server.id.clone(),
                    tool: tool.name.clone(),
                    error: Box::new(error),
                    stderr: server.stderr.last_words().await,
                });
            }
            Err(ClientError::Timeout(limit)) => {
                return Err(LimitReached {
                    limit: "callTimeoutMs",
                    value: format!(
                        "{} ms, in a call of {:?} of server {:?}",
                        limit.as_millis(),
                        tool.name,
                        server.id
                    ),
                    advice: "raise it, or make the tool faster",
                }
                .into());
            }
            Err(error) if is_of_transport(&error) => {
                return Err(TrialError::ServerRefused {
                    server: server.id.clone(),
                    tool: tool.name.clone(),
                    error: Box::new(error),
                });
            }
            Err(error) => CallOutcome::Refused(error.to_string()),
        };
        if let (Some(channel), Some(request)) = (channel, request) {
            let answer = match &called {
                CallOutcome::Result(result) => Ok(result.clone()),
                CallOutcome::Refused(error) => Err(error.clone()),
            };
            channel.answer(request, answer);
        }
        Ok(called)
    }

    /// Closes all connections, and waits until the programs are gone.
    pub(crate) async fn close(self) {
        join_all(self.servers.iter().map(|server| async {
            if let Link::Live { client, .. } = &server.link {
                client.close().await;
            }
        }))
        .await;
    }
}

/// Returns the request of a call in recordings.
fn recorded_call(tool: &OfferedTool, arguments: &JsonObject) -> Value {
    json!({"method": "tools/call", "name": tool.name, "arguments": arguments})
}

/// Returns the request for the list of tools in recordings.
fn recorded_list() -> Value {
    json!({"method": "tools/list"})
}

/// Returns whether a call failed before it reached the tool, so that the model could not avoid the
/// failure. Statuses about the request itself are passed to the model.
fn is_of_transport(error: &ClientError) -> bool {
    match error {
        ClientError::Http { status, .. } => !matches!(status, 400 | 413 | 422),
        ClientError::Unauthorized(_) | ClientError::Authorization(_) => true,
        _ => false,
    }
}

/// Returns the names of servers in records.
///
/// # Errors
///
/// Returns an error if a name is blank, reserved, or that of another server.
pub(crate) fn ids(configs: &[ServerConfig]) -> Result<Vec<String>, TrialError> {
    let mut ids = Vec::with_capacity(configs.len());
    for (index, config) in configs.iter().enumerate() {
        let id = config.name().map_or_else(|| format!("server{}", index + 1), str::to_owned);
        if id.trim().is_empty() || ids.contains(&id) || id == ToolCallRecord::UNKNOWN_SERVER {
            let problem = format!(
                "has a name that is blank, not unique or reserved: {id:?}; give each server its own"
            );
            return Err(TrialError::case("serverConfigs", problem));
        }
        ids.push(id);
    }
    Ok(ids)
}

async fn open(
    config: &ServerConfig,
    id: &str,
    environment: &Environment,
    children: &TaskTracker,
    budget: &Budget,
    stderr: LastLines,
    channel: Option<Channel>,
) -> Result<(Server, Vec<Tool>), TrialError> {
    let open = OpenConnection::new(&environment.open);
    if let Some(channel) = channel.as_ref().filter(|channel| channel.is_replay()) {
        let tools = match channel.replay(recorded_list())? {
            ReplayedAnswer::Answer(tools) => channel.parsed(tools)?,
            ReplayedAnswer::Error(error) => return Err(channel.invalid(error).into()),
        };
        let link = Link::Replayed(channel.clone());
        return Ok((Server { id: id.to_owned(), link, stderr, _open: open }, tools));
    }
    let limits = budget.limits();
    let timeout = Duration::from_millis(limits.connect_timeout_ms);
    let options = ClientOptions {
        connect_timeout: timeout,
        request_timeout: timeout,
        // Some servers without `server/discover` do not answer it at all.
        probe_timeout: (timeout / 4).min(Duration::from_secs(5)),
        // A result over the limit is cut, not refused, so its message may be longer.
        max_message_bytes: usize::try_from(limits.max_result_bytes)
            .unwrap_or(usize::MAX)
            .saturating_mul(4)
            .max(16 << 20),
        // The harness records all answers of servers, including invalid ones.
        check_results: false,
        ..ClientOptions::default()
    };
    let connecting = async {
        let client = match config {
            ServerConfig::Stdio { command, args, env, cwd, .. } => {
                let mut start = StdioCommand::new(command, args);
                start.inherit_env = false;
                start.env = environment.variables.clone();
                start.env.extend(env.clone());
                start.cwd = cwd.as_ref().map(Into::into);
                // A server of one trial has no state to save.
                start.stop_grace = Duration::from_millis(500);
                start.children = Some(children.clone());
                let lines = stderr.clone();
                start.stderr = Stderr::Lines(Arc::new(move |line| lines.push(line)));
                start.find_program()?;
                if let Some(guard) = &environment.guard {
                    start = start.through_guard(guard);
                }
                Client::spawn(start, options).await?
            }
            ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
                let target = HttpTarget { url: url.clone(), headers: headers.clone() };
                Client::http(target, options).await?
            }
        };
        let tools = match client.server().capabilities.tools {
            // A model that sees a part of the tools would be tested for nothing.
            Some(_) => client.fetch_tools().await.and_then(|fetched| match fetched.incomplete {
                None => Ok(fetched.items),
                Some(problem) => Err(problem.into()),
            }),
            None => Ok(Vec::new()),
        };
        match tools {
            Ok(tools) => Ok((client, tools)),
            Err(error) => {
                client.close().await;
                Err(error)
            }
        }
    };
    let request = channel.as_ref().map(|channel| channel.request(recorded_list()));
    let outcome = tokio::time::timeout(timeout, connecting)
        .await
        .unwrap_or(Err(ClientError::Timeout(timeout)));
    let (client, tools) = match outcome {
        Ok(opened) => opened,
        Err(ClientError::Timeout(_)) => {
            let words = match stderr.text() {
                none if none.is_empty() => none,
                words => format!("; its last words: {words}"),
            };
            return Err(LimitReached {
                limit: "connectTimeoutMs",
                value: format!("{} ms, while server {id:?} started{words}", timeout.as_millis()),
                advice: "raise it, or check that serverConfigs names an MCP server",
            }
            .into());
        }
        Err(error) => {
            let stderr = match config {
                ServerConfig::Stdio { .. } => stderr.last_words().await,
                ServerConfig::Sse { .. } | ServerConfig::Http { .. } => String::new(),
            };
            return Err(TrialError::Connect {
                server: id.to_owned(),
                error: Box::new(error),
                stderr,
            });
        }
    };
    let tools: Vec<Tool> = tools
        .into_iter()
        .map(|tool| Tool {
            name: tool.name,
            description: tool.description.or(tool.title).unwrap_or_default(),
            input_schema: tool.input_schema,
        })
        .collect();
    if let (Some(channel), Some(request)) = (&channel, request) {
        channel.answer(request, Ok(json!(tools)));
    }
    let link = Link::Live { client, channel };
    Ok((Server { id: id.to_owned(), link, stderr, _open: open }, tools))
}

/// Gives each tool a name that is unique among all servers. A name that several servers have begins
/// with the server's.
fn offered(servers: &[Server], listed: Vec<Vec<Tool>>) -> Vec<OfferedTool> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for tool in listed.iter().flatten() {
        *count.entry(allowed(&tool.name)).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for (server, tools) in listed.into_iter().enumerate() {
        for definition in tools {
            let plain = allowed(&definition.name);
            let wanted = match count.get(&plain) {
                Some(1) => plain,
                _ => allowed(&format!("{}__{}", servers[server].id, definition.name)),
            };
            let mut shown_name = wanted.clone();
            let mut number = 1;
            while !taken.insert(shown_name.clone()) {
                number += 1;
                let end = format!("_{number}");
                shown_name =
                    format!("{}{end}", &wanted[..wanted.len().min(LONGEST_NAME - end.len())]);
            }
            let name = definition.name.clone();
            let definition = Tool { name: shown_name.clone(), ..definition };
            all.push(OfferedTool { shown_name, name, server, definition });
        }
    }
    all
}

/// Longest name of a tool for OpenAI and Anthropic.
const LONGEST_NAME: usize = 64;

/// Returns a name in the characters that providers allow: ASCII letters, digits, `_` and `-`.
fn allowed(name: &str) -> String {
    let allowed: String = name
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() || one == '-' { one } else { '_' })
        .take(LONGEST_NAME)
        .collect();
    if allowed.is_empty() { "_".to_owned() } else { allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16) -> ClientError {
        ClientError::Http { status, body: String::new() }
    }

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), description: String::new(), input_schema: json!({}) }
    }

    fn server(id: &str) -> Server {
        Server {
            id: id.to_owned(),
            link: Link::Replayed(Cassette::record().channel(String::new(), Arc::default())),
            stderr: LastLines::default(),
            _open: OpenConnection::new(&Arc::default()),
        }
    }

    #[test]
    fn a_request_that_does_not_reach_its_tool_is_no_answer_of_it() {
        for (error, is_it) in [
            (http(502), true),
            (http(429), true),
            (http(401), true),
            (http(400), false),
            (http(413), false),
            (ClientError::TaskCancelled, false),
            (ClientError::TooManyRounds(10), false),
        ] {
            assert_eq!(is_of_transport(&error), is_it, "{error}");
        }
    }

    #[test]
    fn tools_of_several_servers_have_unique_allowed_names() {
        let servers = [server("fs"), server("notes")];
        let long = "x".repeat(80);
        let listed = vec![
            vec![tool("read"), tool("a.b"), tool("a/b"), tool(&long)],
            vec![tool("read"), tool("write"), tool(&format!("{long}y"))],
        ];
        let tools = offered(&servers, listed);
        let names: Vec<&str> = tools.iter().map(|tool| tool.shown_name.as_str()).collect();
        assert_eq!(names[..3], ["fs__read", "fs__a_b", "fs__a_b_2"]);
        assert_eq!(names[4..6], ["notes__read", "write"]);
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME), "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!((tools[4].name.as_str(), tools[4].server), ("read", 1));
    }
}
