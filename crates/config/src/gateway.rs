//! The section `[gateway]`: names, starts and supervision of upstreams.

use std::{io, num::NonZeroU64, path::PathBuf};

use marquetry_gateway::names::is_name_char;
use marquetry_pins::PinMode;
use marquetry_protocol::client::{AuthorizationError, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names, times and restarts, for every upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct GatewayConfig {
    /// Text between the prefix of an upstream and the name of its tool.
    pub separator: Separator,
    /// Time limit of one start of an upstream, from the process or connection to its list of tools,
    /// in milliseconds. Downloads by `npx` or `uvx` take long. Each of its other lists may take as
    /// long again, and is left out if it takes longer.
    pub start_timeout_ms: NonZeroU64,
    /// Time limit of one call, in milliseconds; 0 is no limit. A call that comes while its upstream
    /// restarts waits at most as long for the restart.
    pub call_timeout_ms: u64,
    /// Time limit of a call whose upstream reports progress, in milliseconds: each report starts
    /// `call_timeout_ms` again, up to this time. Upstreams report progress to clients that ask for
    /// it.
    pub max_call_ms: u64,
    /// Time that an upstream gets to answer a ping after a call has exceeded its time limit, in
    /// milliseconds. Without an answer it is restarted.
    pub ping_timeout_ms: u64,
    /// Time after the server's start during which lists wait for upstreams that are still starting,
    /// in milliseconds; 0 answers at once. Clients are told when tools arrive later, but not every
    /// client asks again: set it higher, but below the client's own time limit, if a server needs
    /// longer. Lists do not wait for a failed upstream. A call of an unknown tool waits up to
    /// `start_timeout_ms` for the upstream with its prefix.
    pub list_wait_ms: u64,
    /// Shortest time between two fetches of a list whose lifetime (`ttlMs`) is over, in
    /// milliseconds. An announced change is fetched at once.
    pub list_refetch_ms: u64,
    /// Pause before the first restart of a failed upstream, in milliseconds. It doubles with every
    /// further failure.
    pub restart_delay_ms: u64,
    /// Longest pause between restarts, in milliseconds.
    pub restart_max_delay_ms: u64,
    /// Consecutive failures after which an upstream is not restarted any more; 0 is no limit.
    pub restart_max_failures: u32,
    /// Time that a child process gets to end after its input was closed, and again after SIGTERM,
    /// in milliseconds.
    pub stop_grace_ms: u64,
    /// Environment variables that child processes see besides PATH, HOME, USER, LOGNAME, SHELL,
    /// TERM, LANG, LC_*, TZ, TMPDIR, TMP, TEMP, XDG_*, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY
    /// (also in lower case), NODE_EXTRA_CA_CERTS and SSL_CERT_*. A name may end with `*`, as in
    /// "NVM_*". Variables for one server belong in its `env`.
    pub pass_env: Vec<String>,
    /// Directory for the tokens of `marquetry login`, readable by this user only. Without it,
    /// `marquetry/credentials` in `$XDG_STATE_HOME` or `~/.local/state`.
    #[schemars(example = &"/var/lib/marquetry/credentials")]
    pub credentials_directory: Option<PathBuf>,
    /// Whether the list of tools shows the last known tools of an upstream that is still starting,
    /// instead of waiting `list_wait_ms` for it. Calls wait for the upstream. Clients are told when
    /// its tools have changed. The tools of servers with `auth` are not stored.
    pub tool_cache: bool,
    /// Directory for the last known tools, readable by this user only. Without it,
    /// `marquetry/tools` in `$XDG_DATA_HOME` or `~/.local/share`.
    #[schemars(example = &"/var/lib/marquetry/tools")]
    pub tool_cache_directory: Option<PathBuf>,
    /// Handling of an upstream that changes the definition of a tool or prompt, adds one, or
    /// changes its instructions, after it was first seen: "warn" reports it, "refuse" also holds it
    /// back until somebody accepts it with `marquetry pins accept`, "off" compares nothing. Each
    /// upstream can have its own `pins`.
    pub pins: PinMode,
    /// File of the definitions that were accepted. Several servers may share it. Without it,
    /// `marquetry/pins.json` in `$XDG_STATE_HOME` or `~/.local/state`.
    #[schemars(example = &"/var/lib/marquetry/pins.json")]
    pub pins_file: Option<PathBuf>,
    /// HTTP proxy for upstreams over HTTP and their authorization servers, used with `CONNECT`. The
    /// URL may contain user and password.
    #[schemars(example = &"http://proxy.example:3128")]
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy: names, addresses, or a whole domain with a leading
    /// dot.
    pub no_proxy: Vec<String>,
    /// File with certificate authorities (PEM) that are trusted besides Mozilla's, for upstreams
    /// with certificates of your organisation.
    #[schemars(example = &"/etc/ssl/certs/organisation.pem")]
    pub ca_file: Option<PathBuf>,
    /// The program that starts each upstream, as `guard --server PID --grace-ms N -- PROGRAM
    /// ARGUMENT…`. When the upstream or this process ends, for any reason, the guard ends
    /// everything that the upstream has started. The command line sets it to its own program on
    /// Linux. Without it, child processes of a killed server end only if they notice that their
    /// input has ended.
    #[serde(skip)]
    #[schemars(skip)]
    pub guard: Option<PathBuf>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            separator: Separator("__".to_owned()),
            start_timeout_ms: NonZeroU64::new(60_000).expect("60,000 is more than zero"),
            call_timeout_ms: 600_000,
            max_call_ms: 3_600_000,
            ping_timeout_ms: 10_000,
            list_wait_ms: 5_000,
            list_refetch_ms: 10_000,
            restart_delay_ms: 500,
            restart_max_delay_ms: 60_000,
            restart_max_failures: 0,
            stop_grace_ms: 2_000,
            pass_env: Vec::new(),
            credentials_directory: None,
            tool_cache: true,
            tool_cache_directory: None,
            pins: PinMode::default(),
            pins_file: None,
            proxy: None,
            no_proxy: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            ca_file: None,
            guard: None,
        }
    }
}

/// A setting, and why it cannot be used.
pub(super) type SettingProblem = (&'static str, String);

impl GatewayConfig {
    /// Returns the network settings for upstreams over HTTP.
    ///
    /// # Errors
    ///
    /// Returns an error if the proxy or the file of certificate authorities cannot be used. After a
    /// check of the configuration, this happens only if `ca_file` has changed.
    pub fn network(&self) -> Result<Network, AuthorizationError> {
        let direct = Network::default().without_proxy_for(&self.no_proxy);
        let proxied = self.with_proxy(direct).map_err(setting_error)?;
        self.with_authorities(proxied).map_err(setting_error)
    }

    /// Adds the proxy to the network settings.
    pub(super) fn with_proxy(&self, network: Network) -> Result<Network, SettingProblem> {
        match &self.proxy {
            Some(proxy) => {
                network.with_proxy(proxy).map_err(|error| ("gateway.proxy", error.to_string()))
            }
            None => Ok(network),
        }
    }

    /// Adds the certificate authorities to the network settings.
    pub(super) fn with_authorities(&self, network: Network) -> Result<Network, SettingProblem> {
        let Some(path) = &self.ca_file else { return Ok(network) };
        std::fs::read_to_string(path)
            .map_err(|error| error.to_string())
            .and_then(|pem| network.with_authorities(&pem).map_err(|error| error.to_string()))
            .map_err(|error| ("gateway.ca_file", format!("{path:?}: {error}")))
    }

    /// Returns a message for each name in `pass_env` that cannot be that of a variable.
    pub(super) fn pass_env_problems(&self) -> Vec<String> {
        self.pass_env
            .iter()
            .filter_map(|pattern| {
                let problem = problem_of_pattern(pattern)?;
                // The value may be secret.
                let shown = match pattern.split_once('=') {
                    Some((name, _)) => format!("{name}=…"),
                    None => pattern.clone(),
                };
                Some(format!(
                    "{shown:?} {problem}; expected names such as \"NVM_DIR\" or \"NVM_*\""
                ))
            })
            .collect()
    }
}

fn setting_error((setting, problem): SettingProblem) -> AuthorizationError {
    AuthorizationError::Io { what: format!("setting {setting}"), source: io::Error::other(problem) }
}

/// Returns why a pattern in `pass_env` cannot be the name of a variable, or its beginning and `*`.
fn problem_of_pattern(pattern: &str) -> Option<&'static str> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    if pattern.is_empty() {
        Some("is empty")
    } else if name.contains('=') {
        Some("has a value; a value for one server belongs in its env")
    } else if name.contains('*') {
        Some("has a * before its end")
    } else if name.starts_with('$') {
        Some("begins with $; expected the name alone")
    } else if name.contains(char::is_whitespace) {
        Some("has a space")
    } else {
        None
    }
}

/// Text between prefix and name: 1 to 8 of the characters that tool names may have (letters,
/// digits, `_`, `-`, `.`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Separator(String);

impl Separator {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Separator {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if (1..=8).contains(&text.len()) && text.chars().all(is_name_char) {
            return Ok(Self(text));
        }
        Err(format!("{text:?} cannot separate names; expected 1 to 8 of letters, digits, _ - ."))
    }
}
