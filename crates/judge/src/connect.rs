//! The connections of one trial to its servers, from the start of the trial to its end.

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
    error::last_output,
    redact::{Redactor, cut, likely_secrets_of_url},
};

/// Number of last lines of a server's standard error that errors show.
const STDERR_LINES: usize = 5;

/// Maximum length of each of these lines, in bytes.
const MAX_STDERR_LINE: usize = 300;

/// Maximum length of a list of names in an error, in bytes.
const MAX_NAMES: usize = 600;

/// Maximum length of a tool's name for OpenAI and Anthropic.
const MAX_TOOL_NAME: usize = 64;

/// The programs of a trial.
#[derive(Clone)]
struct TrialChildren {
    running: TaskTracker,
    /// Alive as long as the trial may start more programs.
    trial: Weak<()>,
}

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
        all.retain(|children| !children.running.is_empty() || children.trial.strong_count() > 0);
        let trial = Arc::new(());
        all.push(TrialChildren { running: tracker.clone(), trial: Arc::downgrade(&trial) });
        (tracker, trial)
    }

    /// Waits until all programs have exited.
    pub(crate) async fn closed(&self) {
        let all = self.children.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for children in all {
            children.running.wait().await;
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
    /// A name that providers accept, unique among the tools of all servers.
    pub(crate) shown_name: String,
    /// The name at its server.
    pub(crate) name: String,
    server: usize,
    definition: Tool,
}

struct Server {
    id: String,
    link: Link,
    stderr: StderrTail,
    _open: OpenConnection,
}

enum Link {
    /// A connection, and the recording of its requests if there is one.
    Live { client: Client, channel: Option<Channel> },
    /// A recording that stands in for the server.
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

/// The last lines of a server's standard error, without secrets.
#[derive(Clone, Default)]
struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    redactor: Arc<Redactor>,
}

impl StderrTail {
    fn new(redactor: &Arc<Redactor>) -> Self {
        Self { lines: Arc::default(), redactor: Arc::clone(redactor) }
    }

    fn push(&self, line: &str) {
        // Redacted before it is cut: part of a secret would not be recognized.
        let line = self.redactor.redact(line.trim().to_owned());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(cut(&line, MAX_STDERR_LINE));
    }

    /// Waits up to 200 ms for lines, and returns them. They may arrive a little later than the end
    /// of the connection.
    async fn text_after_end(&self) -> String {
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
    /// `cassette` records or replays the servers of a case.
    pub(crate) async fn open(
        configs: &[ServerConfig],
        environment: &Environment,
        children: &TaskTracker,
        budget: &Budget,
        redactor: &Arc<Redactor>,
        cassette: Option<(&Cassette, &str)>,
    ) -> Result<Self, TrialError> {
        let ids = ids(configs)?;
        let opening = configs.iter().zip(&ids).map(|(config, id)| {
            let channel = cassette.map(|(cassette, case)| {
                cassette.channel(format!("{case}/server:{id}"), Arc::clone(redactor))
            });
            let stderr = StderrTail::new(redactor);
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
        let tools = offered_tools(&connections.servers, listed);
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
            (self.tools, self.left_out) = std::mem::take(&mut self.tools)
                .into_iter()
                .partition(|tool| names.contains(&tool.name));
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
    pub(crate) fn check_offered(
        &self,
        member: &'static str,
        tool: &ExpectedTool,
    ) -> Result<(), TrialError> {
        self.check_listed(member, tool)?;
        if self.tools.iter().any(|offered| self.is_expected(offered, tool)) {
            return Ok(());
        }
        let problem = format!(
            "names the tool {:?}, which the case's tools leave out: add it there",
            tool.name
        );
        Err(TrialError::case(member, problem))
    }

    fn is_expected(&self, offered: &OfferedTool, expected: &ExpectedTool) -> bool {
        let id = &self.servers[offered.server].id;
        offered.name == expected.name && expected.server.as_ref().is_none_or(|server| server == id)
    }

    /// Checks that a server lists a tool. The case may leave it out.
    pub(crate) fn check_listed(
        &self,
        member: &'static str,
        tool: &ExpectedTool,
    ) -> Result<(), TrialError> {
        let name = tool.name.as_str();
        let server = tool.server.as_deref();
        if self.tools.iter().chain(&self.left_out).any(|offered| self.is_expected(offered, tool)) {
            return Ok(());
        }
        if let Some(server) = server
            && !self.servers.iter().any(|it| it.id == server)
        {
            let ids = cut(&self.server_ids().join(", "), MAX_NAMES);
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
        let known =
            if names.is_empty() { "none".to_owned() } else { cut(&names.join(", "), MAX_NAMES) };
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

    /// Finds a tool by the name that the model sees, and returns it with the id of its server.
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
        let outcome = match answer.unwrap_or(Err(ClientError::Timeout(timeout))) {
            Ok(result) => match serde_json::from_str(result.get()) {
                Ok(result) => CallOutcome::Result(result),
                Err(error) => {
                    CallOutcome::Refused(format!("the server's result is invalid: {error}"))
                }
            },
            Err(error) => CallOutcome::Refused(server.refusal(tool, error).await?),
        };
        if let (Some(channel), Some(request)) = (channel, request) {
            let answer = match &outcome {
                CallOutcome::Result(result) => Ok(result.clone()),
                CallOutcome::Refused(error) => Err(error.clone()),
            };
            channel.answer(request, answer);
        }
        Ok(outcome)
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

impl Server {
    /// Returns the text of a failed call for the model.
    ///
    /// # Errors
    ///
    /// Returns an error if the failure ends the trial, because it is not the tool's answer.
    async fn refusal(&self, tool: &OfferedTool, error: ClientError) -> Result<String, TrialError> {
        let server = self.id.clone();
        let tool = tool.name.clone();
        Err(match error {
            ClientError::Closed(_) | ClientError::Io { .. } => TrialError::ServerEnded {
                server,
                tool,
                error: Box::new(error),
                stderr: self.stderr.text_after_end().await,
            },
            ClientError::Timeout(limit) => LimitReached {
                limit: "callTimeoutMs",
                value: format!(
                    "{} ms, in a call of {tool:?} of server {server:?}",
                    limit.as_millis()
                ),
                advice: "raise it, or make the tool faster",
            }
            .into(),
            error if is_of_transport(&error) => {
                TrialError::ServerRefused { server, tool, error: Box::new(error) }
            }
            error => return Ok(error.to_string()),
        })
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

/// Returns the ids of servers in records: their names, or `server1` and so on.
///
/// # Errors
///
/// Returns an error if a name is blank, reserved or not unique.
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

/// Connects to a server and lists its tools, or replays the list from a recording.
async fn open(
    config: &ServerConfig,
    id: &str,
    environment: &Environment,
    children: &TaskTracker,
    budget: &Budget,
    stderr: StderrTail,
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
    let timeout = Duration::from_millis(budget.limits().connect_timeout_ms);
    let connecting = async {
        let options = client_options(budget, timeout);
        let client = connect(config, environment, children, &stderr, options).await?;
        match list_tools(&client).await {
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
            let output = last_output(&stderr.text());
            return Err(LimitReached {
                limit: "connectTimeoutMs",
                value: format!("{} ms, while server {id:?} started{output}", timeout.as_millis()),
                advice: "raise it, or check that serverConfigs names an MCP server",
            }
            .into());
        }
        Err(error) => {
            let stderr = match config {
                ServerConfig::Stdio { .. } => stderr.text_after_end().await,
                ServerConfig::Sse { .. } | ServerConfig::Http { .. } => String::new(),
            };
            return Err(TrialError::Connect {
                server: id.to_owned(),
                error: Box::new(error),
                stderr,
            });
        }
    };
    if let (Some(channel), Some(request)) = (&channel, request) {
        channel.answer(request, Ok(json!(tools)));
    }
    let link = Link::Live { client, channel };
    Ok((Server { id: id.to_owned(), link, stderr, _open: open }, tools))
}

fn client_options(budget: &Budget, timeout: Duration) -> ClientOptions {
    ClientOptions {
        connect_timeout: timeout,
        request_timeout: timeout,
        // Some servers without `server/discover` do not answer it at all.
        probe_timeout: (timeout / 4).min(Duration::from_secs(5)),
        // A result over the limit is cut, not refused, so its message may be longer.
        max_message_bytes: usize::try_from(budget.limits().max_result_bytes)
            .unwrap_or(usize::MAX)
            .saturating_mul(4)
            .max(16 << 20),
        // The harness records all answers of servers, including invalid ones.
        check_results: false,
        ..ClientOptions::default()
    }
}

async fn connect(
    config: &ServerConfig,
    environment: &Environment,
    children: &TaskTracker,
    stderr: &StderrTail,
    options: ClientOptions,
) -> Result<Client, ClientError> {
    match config {
        ServerConfig::Stdio { command, args, env, cwd, .. } => {
            let mut program = StdioCommand::new(command, args);
            program.inherit_env = false;
            program.env = environment.variables.clone();
            program.env.extend(env.clone());
            program.cwd = cwd.as_ref().map(Into::into);
            // A server of one trial has no state to save.
            program.stop_grace = Duration::from_millis(500);
            program.children = Some(children.clone());
            let lines = stderr.clone();
            program.stderr = Stderr::Lines(Arc::new(move |line| lines.push(line)));
            program.find_program()?;
            if let Some(guard) = &environment.guard {
                program = program.through_guard(guard);
            }
            Client::spawn(program, options).await
        }
        ServerConfig::Sse { url, headers, .. } | ServerConfig::Http { url, headers, .. } => {
            let target = HttpTarget { url: url.clone(), headers: headers.clone() };
            Client::http(target, options).await
        }
    }
}

/// Lists the tools of a server, as models get them.
async fn list_tools(client: &Client) -> Result<Vec<Tool>, ClientError> {
    if client.server().capabilities.tools.is_none() {
        return Ok(Vec::new());
    }
    let fetched = client.fetch_tools().await?;
    // The verdict on a model that sees only some of the tools would mean nothing.
    if let Some(problem) = fetched.incomplete {
        return Err(problem.into());
    }
    let tools = fetched.items.into_iter().map(|tool| Tool {
        name: tool.name,
        description: tool.description.or(tool.title).unwrap_or_default(),
        input_schema: tool.input_schema,
    });
    Ok(tools.collect())
}

/// Gives each tool a name that is unique among all servers. A name that several tools have gets the
/// id of the server in front.
fn offered_tools(servers: &[Server], listed: Vec<Vec<Tool>>) -> Vec<OfferedTool> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for tool in listed.iter().flatten() {
        *count.entry(valid_name(&tool.name)).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for (server, tools) in listed.into_iter().enumerate() {
        for definition in tools {
            let own_name = valid_name(&definition.name);
            let base = match count.get(&own_name) {
                Some(1) => own_name,
                _ => valid_name(&format!("{}__{}", servers[server].id, definition.name)),
            };
            let mut shown_name = base.clone();
            let mut number = 1;
            while !taken.insert(shown_name.clone()) {
                number += 1;
                let suffix = format!("_{number}");
                let length = base.len().min(MAX_TOOL_NAME - suffix.len());
                shown_name = format!("{}{suffix}", &base[..length]);
            }
            let name = definition.name.clone();
            let definition = Tool { name: shown_name.clone(), ..definition };
            all.push(OfferedTool { shown_name, name, server, definition });
        }
    }
    all
}

/// Converts a name to one that providers accept: ASCII letters, digits, `_` and `-`.
fn valid_name(name: &str) -> String {
    let valid: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
        .take(MAX_TOOL_NAME)
        .collect();
    if valid.is_empty() { "_".to_owned() } else { valid }
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
            stderr: StderrTail::default(),
            _open: OpenConnection::new(&Arc::default()),
        }
    }

    #[test]
    fn failures_of_the_transport_are_not_answers_of_a_tool() {
        for (error, want) in [
            (http(502), true),
            (http(429), true),
            (http(401), true),
            (http(400), false),
            (http(413), false),
            (ClientError::TaskCancelled, false),
            (ClientError::TooManyRounds(10), false),
        ] {
            assert_eq!(is_of_transport(&error), want, "{error}");
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
        let tools = offered_tools(&servers, listed);
        let names: Vec<&str> = tools.iter().map(|tool| tool.shown_name.as_str()).collect();
        assert_eq!(names[..3], ["fs__read", "fs__a_b", "fs__a_b_2"]);
        assert_eq!(names[4..6], ["notes__read", "write"]);
        assert!(names.iter().all(|name| name.len() <= MAX_TOOL_NAME), "{names:?}");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert_eq!((tools[4].name.as_str(), tools[4].server), ("read", 1));
    }
}
