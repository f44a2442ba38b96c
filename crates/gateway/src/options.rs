//! Options of a gateway: upstreams, times and limits.

use std::{fmt, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use indexmap::IndexMap;
use marquetry_artifacts::{Settings, glob::Glob};
use marquetry_pins::PinMode;
use marquetry_policy::Policy;
use marquetry_protocol::{
    Revision, RpcError,
    client::{AuthorizationError, Authorizer, ClientError, Network},
    types::Root,
};
use marquetry_tool_overrides::ToolOverride;
use serde_json::value::RawValue;

use crate::{
    CallApprovals, Observer,
    pin_keeper::{PinKeeper, PinListener},
    tool_filter::ToolFilter,
};

/// Options of a [`Gateway`](crate::Gateway): the upstreams and the settings that all of them share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GatewayOptions {
    /// The upstreams. If two offer the same name, the first one keeps it.
    pub upstreams: Vec<UpstreamOptions>,
    /// Tool names that no upstream can have.
    pub reserved_tools: Vec<String>,
    /// Time after the gateway's start during which lists wait for upstreams that are still
    /// starting: 5 s. One that hangs must not cost the agent more.
    pub list_wait: Duration,
    /// Shortest time between two fetches of a list whose time to live has expired.
    pub list_refetch: Duration,
    /// Time limit of the ping that follows a call without an answer. An upstream that misses it is
    /// restarted.
    pub ping_timeout: Duration,
    /// Backoff before the first restart. It doubles after each consecutive failure.
    pub restart_delay: Duration,
    /// Longest backoff between restarts.
    pub restart_max_delay: Duration,
    /// Consecutive failures after which an upstream is not restarted any more. 0 means no limit.
    pub restart_max_failures: u32,
    /// Time that a child process has to exit after its input was closed, and again after SIGTERM.
    pub stop_grace: Duration,
    /// Environment variables that child processes see in addition to the usual ones. A trailing `*`
    /// matches any suffix.
    pub pass_env: Vec<String>,
    /// Environment variables with secrets of this server. A child process sees one only if
    /// `pass_env` names it.
    pub secret_variables: Vec<String>,
    /// Program that starts each upstream as `guard --server PID --grace-ms N -- PROGRAM ARGUMENT…`.
    /// When the upstream or this process ends, the guard ends all processes that the upstream has
    /// started.
    pub guard: Option<PathBuf>,
    /// Whether all agents count as clients that show Views of MCP Apps, even those that do not
    /// declare it.
    pub assumes_views: bool,
    /// Whether errors for callers contain the last standard error lines of an upstream that is
    /// down. These lines may contain data of other callers.
    pub shows_stderr: bool,
    /// Directory of the last known tools of each upstream, which lists show while it starts.
    /// `None`: lists wait for it.
    pub tool_cache: Option<PathBuf>,
    /// Whether all callers are one user. Otherwise tools that an upstream marks as private are not
    /// stored in [`Self::tool_cache`].
    pub serves_one_user: bool,
    /// Who may see and use what of the upstreams; everybody everything by default.
    pub policy: Policy,
    /// File of the pins of all upstreams, which other programs may use, too. `None`: nothing is
    /// pinned, whatever [`UpstreamOptions::pins`] says.
    pub pins_file: Option<PathBuf>,
    /// Receives changes of what upstreams say, and of pins.
    pub pin_listener: Option<PinListener>,
    /// The pins in [`Self::pins_file`], once the gateway has started.
    pub(crate) pin_keeper: Option<Arc<PinKeeper>>,
    /// Receives the messages between the gateway and the upstreams.
    pub observer: Option<Arc<dyn Observer>>,
    /// Asks a person before calls. `None`: every call is sent.
    pub approvals: Option<Arc<CallApprovals>>,
    /// The limits.
    pub limits: GatewayLimits,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            reserved_tools: Vec::new(),
            list_wait: Duration::from_secs(5),
            list_refetch: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            restart_delay: Duration::from_millis(500),
            restart_max_delay: Duration::from_mins(1),
            restart_max_failures: 0,
            stop_grace: Duration::from_secs(2),
            pass_env: Vec::new(),
            secret_variables: Vec::new(),
            guard: None,
            assumes_views: false,
            shows_stderr: true,
            tool_cache: None,
            serves_one_user: false,
            policy: Policy::default(),
            pins_file: None,
            pin_listener: None,
            pin_keeper: None,
            observer: None,
            approvals: None,
            limits: GatewayLimits::default(),
        }
    }
}

impl GatewayOptions {
    /// Adds an upstream.
    #[must_use]
    pub fn with_upstream(mut self, upstream: UpstreamOptions) -> Self {
        self.upstreams.push(upstream);
        self
    }
}

/// Limits of the work and memory that agents and upstreams can cause. The settings of `[limits]`
/// have the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// Requests in flight at one upstream.
    pub max_in_flight_per_upstream: usize,
    /// Requests in flight at one upstream for one caller.
    pub max_in_flight_per_caller: usize,
    /// Requests that wait for a slot at one upstream.
    pub max_in_flight_total: usize,
    /// Time that a request waits for a slot at its upstream (`queue_ms`).
    pub queue_time: Duration,
    /// Time that an agent has to answer a question (`question_ms`).
    pub question_time: Duration,
    /// Questions that one call may ask.
    pub max_questions_per_call: usize,
    /// Calls that wait for stateless agents to return with their answers.
    pub max_parked_calls: usize,
    /// [`Self::max_parked_calls`] for one caller.
    pub max_parked_calls_per_caller: usize,
    /// Requests that wait for upstreams to start without being counted as in flight.
    pub max_waiting_requests: usize,
    /// [`Self::max_waiting_requests`] for one caller.
    pub max_waiting_requests_per_caller: usize,
    /// Pending URL elicitations: web pages that upstreams have sent users to.
    pub max_url_elicitations: usize,
    /// Resource links in tool answers that are stored for all agents.
    pub max_resource_routes: usize,
    /// Resource links that are stored for one agent.
    pub max_resource_routes_per_agent: usize,
    /// Bytes of one message from an upstream.
    pub max_upstream_message_bytes: usize,
    /// Entries in one list of an upstream. The rest of a longer list is left out.
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
            question_time: Duration::from_mins(10),
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

/// Options of one MCP server behind the gateway.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpstreamOptions {
    /// Name of the upstream in prefixes, logs and errors.
    pub name: String,
    /// Program or URL of the upstream.
    pub transport: Transport,
    /// Lists the upstream without starting it.
    pub is_disabled: bool,
    /// Passes the whole environment of this process to the child process, except
    /// [`GatewayOptions::secret_variables`].
    pub inherit_env: bool,
    /// Prefix of its tool and prompt names. `None` uses the upstream's name; an empty prefix leaves
    /// names unchanged.
    pub prefix: Option<String>,
    /// Separator between the prefix and a name.
    pub separator: String,
    /// Capture settings of its answers.
    pub capture: ToolCapture,
    /// Filter of the offered tools.
    pub filter: ToolFilter,
    /// Changes of single tools, by their names at the upstream.
    pub overrides: IndexMap<String, Arc<ToolOverride>>,
    /// Handling of definitions that differ from their pins in
    /// [`GatewayOptions::pins_file`].
    pub pins: PinMode,
    /// The only revision to use. `None` uses the newest one that the upstream supports.
    pub revision: Option<Revision>,
    /// Time limit of one start, from the process or connection to the list of tools.
    pub start_timeout: Duration,
    /// Time limit of one call. A call that comes while the upstream restarts waits for at most the
    /// same time.
    pub call_timeout: Duration,
    /// Time limit of a call whose upstream reports progress: each report starts `call_timeout`
    /// again.
    pub longest_call: Duration,
    /// Tool calls that it gets in a minute; `None` for any number.
    pub max_calls_per_minute: Option<NonZeroU32>,
    /// Answers `sampling/createMessage` during calls of clients that do not offer sampling. Without
    /// it, such a request is an error.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// The answer to its `roots/list`, at any time. `None`: the agent of a call answers.
    pub roots: Option<Vec<Root>>,
    /// Which callers share one connection.
    pub isolation: Isolation,
    /// The most instances at one time, if callers do not share one connection: 16.
    pub max_instances: usize,
    /// Time without a request and without a subscription after which an instance ends: 10 minutes.
    pub instance_idle: Duration,
}

/// Which callers share one connection to an upstream, and with it the upstream's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// All callers.
    #[default]
    Shared,
    /// The sessions and requests of one principal. Callers without a token are told apart by their
    /// addresses.
    Principal,
    /// The requests of one session. Stateless requests of one principal count as a session, as do
    /// all requests of a pipe; others are refused.
    Session,
}

impl UpstreamOptions {
    /// Creates the options of an upstream with this transport and defaults for the rest.
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
            overrides: IndexMap::new(),
            pins: PinMode::default(),
            revision: None,
            start_timeout: Duration::from_mins(1),
            call_timeout: Duration::from_mins(10),
            longest_call: Duration::from_hours(1),
            max_calls_per_minute: None,
            sampler: None,
            roots: None,
            isolation: Isolation::Shared,
            max_instances: 16,
            instance_idle: Duration::from_mins(10),
        }
    }
}

impl UpstreamOptions {
    /// Returns whether a connection that was made with these options fits the other ones.
    pub(crate) fn connects_like(&self, other: &Self) -> bool {
        self.name == other.name
            && self.is_disabled == other.is_disabled
            && self.inherit_env == other.inherit_env
            && self.revision == other.revision
            && self.isolation == other.isolation
            && self.max_instances == other.max_instances
            && self.transport.connects_like(&other.transport)
    }

    /// Returns whether names, captures, times and roots are the same.
    pub(crate) fn is_shown_like(&self, other: &Self) -> bool {
        fn uris(options: &UpstreamOptions) -> Option<Vec<&str>> {
            let roots = options.roots.as_ref()?;
            Some(roots.iter().map(|root| root.uri.as_str()).collect())
        }
        self.prefix == other.prefix
            && self.separator == other.separator
            && self.capture == other.capture
            && self.filter == other.filter
            && self.overrides == other.overrides
            && self.pins == other.pins
            && self.start_timeout == other.start_timeout
            && self.call_timeout == other.call_timeout
            && self.longest_call == other.longest_call
            && self.max_calls_per_minute == other.max_calls_per_minute
            && self.instance_idle == other.instance_idle
            && uris(self) == uris(other)
    }
}

/// A model of this server, which answers for clients without one.
#[async_trait]
pub trait Sampler: fmt::Debug + Send + Sync {
    /// Answers `sampling/createMessage` of an upstream. The parameters are not checked.
    ///
    /// # Errors
    /// Returns an error if the parameters are invalid, or the model fails. The upstream gets the
    /// error.
    async fn create_message(&self, params: &RawValue) -> Result<Box<RawValue>, RpcError>;
}

/// Program or URL of an upstream.
#[derive(Clone)]
#[non_exhaustive]
pub enum Transport {
    /// A child process that speaks MCP over its standard input and output.
    Stdio {
        /// The program, by path or found on `PATH`.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Environment variables, which override inherited ones.
        env: IndexMap<String, String>,
        /// Working directory. `None` uses that of this process.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks Streamable HTTP, or HTTP+SSE.
    Http {
        /// URL of the endpoint, `http:` or `https:`.
        url: String,
        /// Headers sent with every request.
        headers: IndexMap<String, String>,
        /// Proxy, certificates and credentials.
        access: Arc<dyn HttpAccess>,
    },
    /// An invalid configuration. The upstream is listed as failed; the others start.
    Unusable {
        /// The missing or unsupported part.
        problem: String,
    },
}

impl Transport {
    /// Creates the transport of a child process.
    #[must_use]
    pub fn stdio<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Stdio { command: command.into(), args, env: IndexMap::new(), cwd: None }
    }

    /// Returns whether a connection that was made with this transport fits the other one.
    fn connects_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Stdio { command, args, env, cwd },
                Self::Stdio { command: program, args: arguments, env: variables, cwd: folder },
            ) => (command, args, env, cwd) == (program, arguments, variables, folder),
            (
                Self::Http { url, headers, access },
                Self::Http { url: address, headers: fields, access: way },
            ) => (url, headers) == (address, fields) && access.identity() == way.identity(),
            (Self::Unusable { problem: one }, Self::Unusable { problem: two }) => one == two,
            _ => false,
        }
    }

    /// Creates the transport of a URL, without proxy and without credentials.
    #[must_use]
    pub fn http(url: impl Into<String>) -> Self {
        let access = Arc::new(DirectAccess);
        Self::Http { url: url.into(), headers: IndexMap::new(), access }
    }
}

/// Shows the number of arguments, variables and headers, since their values may be secret.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, args, env, .. } => {
                let args = args.len();
                let env = env.len();
                write!(f, "Stdio({command:?}, {args} arguments, {env} variables)")
            }
            Self::Http { headers, .. } => write!(f, "Http({} headers)", headers.len()),
            Self::Unusable { problem } => f.debug_tuple("Unusable").field(problem).finish(),
        }
    }
}

/// Provides proxy, certificates and credentials of an upstream over HTTP. Each connection calls it
/// again, so that changed files and variables take effect.
pub trait HttpAccess: Send + Sync {
    /// Returns proxy and certificates. The default connects directly.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid; the error names it.
    fn network(&self) -> Result<Network, AuthorizationError> {
        Ok(Network::default())
    }

    /// Returns the source of tokens for the upstream. The default has none.
    ///
    /// # Errors
    /// Returns an error if tokens cannot be obtained.
    fn authorizer(
        &self,
        network: &Network,
    ) -> Result<Option<Arc<dyn Authorizer>>, AuthorizationError> {
        let _ = network;
        Ok(None)
    }

    /// Returns whether the upstream sees the same caller as long as its URL and headers stay the
    /// same. By default it does not; then its tools are not cached.
    fn is_always_the_same_caller(&self) -> bool {
        false
    }

    /// Returns a text that differs if the settings behind proxy, certificates and credentials do.
    /// [`Gateway::apply`](crate::Gateway::apply) connects again if it has changed. By default it
    /// never does.
    fn identity(&self) -> String {
        String::new()
    }

    /// Returns advice for the user about a failed connection.
    fn advice(&self, error: &ClientError) -> Option<String> {
        let _ = error;
        None
    }
}

/// Access to an upstream without a proxy and without credentials.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectAccess;

impl HttpAccess for DirectAccess {
    fn is_always_the_same_caller(&self) -> bool {
        true
    }
}

/// Capture settings of one upstream's tools. `None`: answers are not captured.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolCapture {
    /// Settings of tools that neither `tools` nor `patterns` name.
    pub default: Option<Settings>,
    /// Settings of single tools, by the names at the upstream.
    pub tools: IndexMap<String, Option<Settings>>,
    /// Settings of the other tools whose names match a pattern. The first match applies.
    pub patterns: Vec<(Glob, Option<Settings>)>,
}

impl ToolCapture {
    /// Creates settings for all tools.
    #[must_use]
    pub fn new(default: Option<Settings>) -> Self {
        Self { default, ..Self::default() }
    }

    /// Sets the settings of one tool.
    #[must_use]
    pub fn with_tool(mut self, tool: &str, capture: Option<Settings>) -> Self {
        self.tools.insert(tool.to_owned(), capture);
        self
    }

    /// Sets the settings of the tools whose names match, unless an earlier pattern matches.
    #[must_use]
    pub fn with_pattern(mut self, tools: Glob, capture: Option<Settings>) -> Self {
        self.patterns.push((tools, capture));
        self
    }

    /// Returns the settings of a tool, by its name at the upstream.
    #[must_use]
    pub fn of(&self, tool: &str) -> Option<&Settings> {
        if let Some(capture) = self.tools.get(tool) {
            return capture.as_ref();
        }
        let matching = self.patterns.iter().find(|(pattern, _)| pattern.matches(tool));
        matching.map_or(&self.default, |(_, capture)| capture).as_ref()
    }
}
