//! How upstreams are named, started and watched.

use std::{fmt::Display, io, path::PathBuf};

use marquetry_protocol::client::{AuthorizationError, Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names, times and restarts that hold for every upstream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct GatewayConfig {
    /// What stands between an upstream's prefix and the tool's own name.
    pub separator: Separator,
    /// How long one start of an upstream may take, from the process or connection to its list of tools, in milliseconds; programs that `npx` or
    /// `uvx` download first take long. Each of its other lists may take as long again, and is left out when it takes longer.
    pub start_timeout_ms: u64,
    /// How long one call may take, in milliseconds; 0 is no limit.
    pub call_timeout_ms: u64,
    /// After a call without an answer in its time: how long the upstream may take to answer a ping before it is started again, in
    /// milliseconds.
    pub ping_timeout_ms: u64,
    /// How long after the server's start lists wait for upstreams that are still starting, in milliseconds, since not every client asks again
    /// when tools arrive later; when absent, up to the `start_timeout_ms` of each. An upstream that has failed once is not waited for. Set less
    /// than a client's own time-out where an upstream may hang; 0 answers at once. A call of a tool that is not known yet waits as long for the
    /// upstream of that prefix.
    #[schemars(example = 3_000)]
    pub list_wait_ms: Option<u64>,
    /// The least time between two fetches of a list of one upstream because the time is over for which it is good (`ttlMs`), in milliseconds.
    /// That a list has changed is always heard at once.
    pub list_refetch_ms: u64,
    /// Pause before the first restart of an upstream that ended, in milliseconds; doubled after every failure in a row.
    pub restart_delay_ms: u64,
    /// Longest pause between restarts, in milliseconds.
    pub restart_max_delay_ms: u64,
    /// Failures in a row after which an upstream is given up; 0 never gives up.
    pub restart_max_failures: u32,
    /// How long a child process may take to end after its input was closed, and again after SIGTERM, in milliseconds.
    pub stop_grace_ms: u64,
    /// Environment variables that child processes see beside PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, LC_*, TZ, TMPDIR, TMP, TEMP, XDG_*,
    /// HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY (also in small letters), NODE_EXTRA_CA_CERTS and SSL_CERT_*; a `*` at the end stands for
    /// any rest, as in "NVM_*". What one server alone needs belongs in its `env`.
    pub pass_env: Vec<String>,
    /// Where the tokens of `marquetry login` are kept, readable by this user alone; when absent, `marquetry/credentials` in
    /// `$XDG_STATE_HOME` or `~/.local/state`.
    #[schemars(example = &"/var/lib/marquetry/credentials")]
    pub credentials_directory: Option<PathBuf>,
    /// The HTTP proxy by which upstreams over HTTP, and the authorization servers that they name, are reached; it is asked for a tunnel
    /// (`CONNECT`). User and password may stand before the host.
    #[schemars(example = &"http://proxy.example:3128")]
    pub proxy: Option<String>,
    /// Hosts that are reached without the proxy: names, addresses, or with a leading dot a whole domain.
    pub no_proxy: Vec<String>,
    /// A file with certificate authorities in PEM that are trusted beside Mozilla's, for upstreams with certificates of an organisation's own.
    #[schemars(example = &"/etc/ssl/certs/organisation.pem")]
    pub ca_file: Option<PathBuf>,
    /// The program that is run as `guard --server PID --grace-ms N -- PROGRAM ARGUMENT…` in place of each upstream's program, and ends what that
    /// has started when it or this process ends, however that happens. The command line sets it to itself on Linux; without it, what a
    /// killed process leaves behind ends when it notices that its input has ended, or not at all.
    #[serde(skip)]
    #[schemars(skip)]
    pub guard: Option<PathBuf>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            separator: Separator("__".to_owned()),
            start_timeout_ms: 60_000,
            call_timeout_ms: 600_000,
            ping_timeout_ms: 10_000,
            list_wait_ms: None,
            list_refetch_ms: 10_000,
            restart_delay_ms: 500,
            restart_max_delay_ms: 60_000,
            restart_max_failures: 0,
            stop_grace_ms: 2_000,
            pass_env: Vec::new(),
            credentials_directory: None,
            proxy: None,
            no_proxy: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            ca_file: None,
            guard: None,
        }
    }
}

impl GatewayConfig {
    /// Where tokens are kept; nowhere, where the user has no home.
    pub(crate) fn credentials(&self) -> Option<PathBuf> {
        self.credentials_directory.clone().or_else(super::login::credentials_directory)
    }

    /// How upstreams over HTTP are reached.
    ///
    /// # Errors
    ///
    /// What is wrong with which setting.
    pub(crate) fn network(&self) -> Result<Network, AuthorizationError> {
        let wrong = |setting: &str, problem: &dyn Display| AuthorizationError::Io {
            what: format!("setting gateway.{setting}"),
            source: io::Error::other(problem.to_string()),
        };
        let mut network = Network::default().without_proxy_for(&self.no_proxy);
        if let Some(proxy) = &self.proxy {
            network = network.with_proxy(proxy).map_err(|error| wrong("proxy", &error))?;
        }
        if let Some(path) = &self.ca_file {
            let problem = |error: &dyn Display| wrong("ca_file", &format!("{path:?}: {error}"));
            let pem = std::fs::read_to_string(path).map_err(|error| problem(&error))?;
            network = network.with_authorities(&pem).map_err(|error| problem(&error))?;
        }
        Ok(network)
    }
}

/// Text between prefix and name: 1 to 8 of the characters that tool names may have (letters, digits, `_`, `-`, `.`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub struct Separator(String);

impl Separator {
    /// The text.
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

/// The characters of a tool name (MCP 2025-11-25, "Tool Names").
pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}
