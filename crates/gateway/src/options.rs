//! What a gateway is made of: its upstreams, its times, and its bounds.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use indexmap::IndexMap;
use marquetry_artifacts::Settings;
use marquetry_protocol::{
    Revision,
    client::{AuthorizationError, Authorizer, ClientError, Network},
};

use crate::tool_filter::ToolFilter;

/// Upstreams, and what holds for all of them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The upstreams. When two offer the same name, the first keeps it.
    pub upstreams: Vec<UpstreamOptions>,
    /// Tool names that no upstream can have.
    pub reserved_tools: Vec<String>,
    /// How long after the start lists wait for upstreams that are still starting; without it, up to the start timeout of
    /// each.
    pub list_wait: Option<Duration>,
    /// The least time between two fetches of a list of one upstream because its time to live is over.
    pub list_refetch: Duration,
    /// How long an upstream may take to answer a ping after a call without an answer, before it is started again.
    pub ping_timeout: Duration,
    /// The pause before the first restart; doubled after every failure in a row.
    pub restart_delay: Duration,
    /// The longest pause between restarts.
    pub restart_max_delay: Duration,
    /// Failures in a row after which an upstream is given up; 0 never gives up.
    pub restart_max_failures: u32,
    /// How long a child process may take to end after its input was closed, and again after SIGTERM.
    pub stop_grace: Duration,
    /// Environment variables that child processes see beside the usual ones; a `*` at the end stands for any rest.
    pub pass_env: Vec<String>,
    /// Environment variables that hold this server's own secrets: no child process sees one unless `pass_env` names it.
    pub secret_variables: Vec<String>,
    /// The program that is run as `guard --server PID --grace-ms N -- PROGRAM ARGUMENT…` in place of each upstream's
    /// program, and ends what that has started when it or this process ends.
    pub guard: Option<PathBuf>,
    /// The bounds.
    pub limits: GatewayLimits,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            reserved_tools: Vec::new(),
            list_wait: None,
            list_refetch: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            restart_delay: Duration::from_millis(500),
            restart_max_delay: Duration::from_secs(60),
            restart_max_failures: 0,
            stop_grace: Duration::from_secs(2),
            pass_env: Vec::new(),
            secret_variables: Vec::new(),
            guard: None,
            limits: GatewayLimits::default(),
        }
    }
}

impl GatewayOptions {
    /// The same with one more upstream.
    #[must_use]
    pub fn with_upstream(mut self, upstream: UpstreamOptions) -> Self {
        self.upstreams.push(upstream);
        self
    }
}

/// Bounds on what agents and upstreams can make a gateway hold. The settings of `[limits]` have the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Requests in flight at one upstream.
    pub max_in_flight_per_upstream: usize,
    /// Requests in flight at one upstream for one caller.
    pub max_in_flight_per_caller: usize,
    /// Requests that wait for a place at one upstream.
    pub max_in_flight_total: usize,
    /// How long a request waits for a place at its upstream (`queue_ms`).
    pub queue_time: Duration,
    /// How long an agent may take to answer a question (`question_ms`).
    pub question_time: Duration,
    /// Questions that one call may ask.
    pub max_questions_per_call: usize,
    /// Calls that wait for stateless agents to come back with their answers.
    pub max_parked_calls: usize,
    /// The same for one caller.
    pub max_parked_calls_per_caller: usize,
    /// Requests that wait for upstreams to start without being counted as in flight.
    pub max_waiting_requests: usize,
    /// The same for one caller.
    pub max_waiting_requests_per_caller: usize,
    /// Web pages that upstreams have sent users to.
    pub max_url_elicitations: usize,
    /// Resource links of tool answers that are remembered for all agents.
    pub max_resource_routes: usize,
    /// Resource links that are remembered for one agent.
    pub max_resource_routes_per_agent: usize,
    /// Bytes of one message from an upstream.
    pub max_upstream_message_bytes: usize,
    /// Entries in one list of an upstream.
    pub max_upstream_list: usize,
    /// Lines of an upstream's standard error that are logged in a second.
    pub max_log_lines_per_second: u32,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            max_in_flight_per_upstream: 128,
            max_in_flight_per_caller: 32,
            max_in_flight_total: 1_024,
            queue_time: Duration::from_secs(1),
            question_time: Duration::from_secs(600),
            max_questions_per_call: 100,
            max_parked_calls: 256,
            max_parked_calls_per_caller: 64,
            max_waiting_requests: 1_024,
            max_waiting_requests_per_caller: 256,
            max_url_elicitations: 1_000,
            max_resource_routes: 10_000,
            max_resource_routes_per_agent: 1_000,
            max_upstream_message_bytes: 64 << 20,
            max_upstream_list: 10_000,
            max_log_lines_per_second: 20,
        }
    }
}

/// One MCP server behind the gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamOptions {
    /// Its name, for prefixes, logs and errors.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Whether it is listed, but not started.
    pub is_disabled: bool,
    /// Whether a child process sees the whole environment of this one, but for [`GatewayOptions::secret_variables`].
    pub inherit_env: bool,
    /// What its tools' and prompts' names begin with, before the separator; its own name when absent, nothing when empty.
    pub prefix: Option<String>,
    /// What stands between the prefix and a name.
    pub separator: String,
    /// How its answers are captured.
    pub capture: ToolCapture,
    /// Which of its tools are offered.
    pub filter: ToolFilter,
    /// The only revision to speak with it; the newest that it knows when absent.
    pub revision: Option<Revision>,
    /// How long one start may take, from the process or connection to the list of tools.
    pub start_timeout: Duration,
    /// How long one call may take.
    pub call_timeout: Duration,
}

impl UpstreamOptions {
    /// An upstream that is reached by `transport`, with defaults for the rest.
    #[must_use]
    pub fn new(name: &str, transport: Transport) -> Self {
        Self {
            name: name.to_owned(),
            transport,
            is_disabled: false,
            inherit_env: false,
            prefix: None,
            separator: "__".to_owned(),
            capture: ToolCapture::default(),
            filter: ToolFilter::default(),
            revision: None,
            start_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(600),
        }
    }
}

/// How an upstream is reached.
#[derive(Clone)]
#[non_exhaustive]
pub enum Transport {
    /// A child process that speaks MCP over its standard input and output.
    Stdio {
        /// The program, by path or found on `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables over those that it inherits.
        env: IndexMap<String, String>,
        /// Its working directory; this process's when absent.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks Streamable HTTP, or HTTP+SSE.
    Http {
        /// Its endpoint, `http:` or `https:`.
        url: String,
        /// Headers sent with every request.
        headers: IndexMap<String, String>,
        /// Proxy, certificates and credentials.
        access: Arc<dyn HttpAccess>,
    },
    /// In no way that works here. The upstream is listed as failed, and stops no other.
    Unusable {
        /// What is missing or not supported.
        problem: String,
    },
}

impl Transport {
    /// A child process.
    #[must_use]
    pub fn stdio<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { command: command.into(), args, env: IndexMap::new(), cwd: None }
    }

    /// A server at a URL, reached without a proxy and without credentials.
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        let access = Arc::new(DirectAccess);
        Self::Http { url: url.into(), headers: IndexMap::new(), access }
    }
}

/// Arguments, variables and headers may be secret, so they are counted, not shown.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, .. } => {
                let (args, env) = (args.len(), env.len());
                write!(f, "Stdio({command:?}, {args} arguments, {env} variables)")
            }
            Self::Http { headers, .. } => write!(f, "Http({} headers)", headers.len()),
            Self::Unusable { problem } => f.debug_tuple("Unusable").field(problem).finish(),
        }
    }
}

/// Proxy, certificates and credentials of an upstream over HTTP. It is asked at each connection, so that changed files and
/// variables count.
pub trait HttpAccess: Send + Sync {
    /// By what the upstream is reached; directly, by default.
    ///
    /// # Errors
    /// What is wrong with which setting.
    fn network(&self) -> Result<Network, AuthorizationError> {
        Ok(Network::default())
    }

    /// What gets tokens for the upstream; nothing, by default.
    ///
    /// # Errors
    /// Why it can get none.
    fn authorizer(
        &self,
        network: &Network,
    ) -> Result<Option<Arc<dyn Authorizer>>, AuthorizationError> {
        let _ = network;
        Ok(None)
    }

    /// What the user can do about a failed connection, if there is anything.
    fn advice(&self, error: &ClientError) -> Option<String> {
        let _ = error;
        None
    }
}

/// Reaches an upstream without a proxy and without credentials.
struct DirectAccess;

impl HttpAccess for DirectAccess {}

/// How the answers of one upstream's tools are captured. None passes an answer through untouched.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolCapture {
    /// For tools that `tools` does not name.
    pub default: Option<Settings>,
    /// For single tools, by the upstream's own names.
    pub tools: IndexMap<String, Option<Settings>>,
}

impl ToolCapture {
    /// The capture settings of all tools.
    #[must_use]
    pub fn new(default: Option<Settings>) -> Self {
        Self { default, tools: IndexMap::new() }
    }

    /// The same with other settings for one tool.
    #[must_use]
    pub fn with_tool(mut self, tool: &str, capture: Option<Settings>) -> Self {
        self.tools.insert(tool.to_owned(), capture);
        self
    }

    pub(crate) fn of(&self, tool: &str) -> Option<&Settings> {
        self.tools.get(tool).unwrap_or(&self.default).as_ref()
    }
}
