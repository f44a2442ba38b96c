//! The sections of the configuration that have no rules of their own.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address and port to listen on; port 0 takes a free one.
    /// An address that is not loopback is refused unless `--insecure` is given, because there is no authentication yet.
    #[serde(deserialize_with = "listen_address")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Host names that requests may use in `Host` beside `localhost`, `127.0.0.1` and `[::1]`, with or without a port.
    /// A web page that points its own name at this machine is refused by this (DNS rebinding).
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call the server beside pages on this machine, such as "https://app.example".
    /// "*" allows every page.
    pub allowed_origins: Vec<String>,
    /// How long calls under way may go on after SIGINT or SIGTERM before they are cancelled, in milliseconds.
    pub shutdown_grace_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 3001)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            shutdown_grace_ms: 5_000,
        }
    }
}

fn listen_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    parse_listen(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// `ADDRESS:PORT`, where the address may be `localhost`.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        format!("{text:?} is not an address with a port; expected one like \"127.0.0.1:3001\"")
    })
}

/// What is written to standard error while the server runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogConfig {
    /// "error", "warn", "info", "debug", "trace" or "off", or a list by module such as "info,marquetry::gateway=debug".
    pub level: String,
    /// "text" for people, "json" with one object a line for machines.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".to_owned(), format: LogFormat::Text }
    }
}

/// The form of a log line.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The diagram tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PlantUmlConfig {
    /// Where diagram URLs point to; the format and the code are appended.
    pub url_base: String,
    /// From this many characters on, the answer warns that servers may refuse the URL.
    pub warn_url_chars: usize,
}

impl Default for PlantUmlConfig {
    fn default() -> Self {
        Self { url_base: "https://www.plantuml.com/plantuml".to_owned(), warn_url_chars: 4_000 }
    }
}

/// What makes a run repeatable; for tests only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TestingConfig {
    /// Seed of the random parts of artifact names; without it they are random.
    #[schemars(example = 7)]
    pub seed: Option<u64>,
    /// The time (RFC 3339) that artifacts are stamped with; without it, the machine's clock.
    #[schemars(example = &"2026-01-01T00:00:00Z")]
    pub clock: Option<String>,
}
