//! The section `[server]`.

use std::{fmt, net::SocketAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Visitor},
};

/// The address of the server, and who may call it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Address and port to listen on. A port alone means 127.0.0.1; port 0 takes a free port. An
    /// address that is not loopback is refused unless `[auth]` is set up, or `--insecure` is given.
    #[serde(deserialize_with = "listen_address")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Names that requests may use in `Host` besides `localhost`, `127.0.0.1` and `[::1]`, with or
    /// without a port. Other names are refused, so that a web page cannot point its own name at
    /// this machine (DNS rebinding).
    #[serde(deserialize_with = "hosts")]
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call the server, besides its own page; for example
    /// `https://app.example`, or `http://localhost:6274` for a tool in the browser that runs on
    /// this machine. Requests without an origin, as programs send them, are accepted.
    #[serde(deserialize_with = "origins")]
    pub allowed_origins: Vec<String>,
    /// TLS: the certificate of the server with those of its authorities, its private key, and
    /// perhaps the authorities whose clients alone may connect; files in PEM. Without it, the
    /// server speaks plain HTTP. The files are read again when they change.
    #[schemars(example = serde_json::json!({"certificate": "/etc/marquetry/server.pem", "key": "/etc/marquetry/server.key", "client_ca": "/etc/marquetry/clients.pem"}))]
    pub tls: Option<TlsConfig>,
    /// Reads the configuration and the files of `--mcp-config` again within 2 s of a change. SIGHUP
    /// and `marquetry reload` do it at any time.
    pub reload_on_change: bool,
    /// Time that calls in flight get to finish after SIGINT or SIGTERM, in milliseconds. Then they
    /// are cancelled.
    pub shutdown_grace_ms: u64,
}

/// The files of TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate of the server in PEM, followed by those of its authorities.
    pub certificate: PathBuf,
    /// The private key of the certificate in PEM, without a password.
    pub key: PathBuf,
    /// The certificates of authorities in PEM. Each client needs a certificate of one of them.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

impl ServerConfig {
    /// Returns the scheme of the URLs of this server.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 3001)),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            reload_on_change: true,
            shutdown_grace_ms: 5_000,
        }
    }
}

fn listen_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    struct Listen;
    impl Visitor<'_> for Listen {
        type Value = SocketAddr;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an address with a port such as \"127.0.0.1:3001\", or a port")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<SocketAddr, E> {
            parse_listen(text).map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, port: i64) -> Result<SocketAddr, E> {
            loopback(&port.to_string()).map_err(E::custom)
        }

        fn visit_u64<E: Error>(self, port: u64) -> Result<SocketAddr, E> {
            loopback(&port.to_string()).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Listen)
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let hosts = Vec::<String>::deserialize(deserializer)?;
    match hosts.iter().find(|host| !is_authority(host)) {
        Some(host) => Err(D::Error::custom(format!(
            "{host:?} is not a host name; expected one like \"tools.example\" or \"tools.example:8443\""
        ))),
        None => Ok(hosts),
    }
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let origins = Vec::<String>::deserialize(deserializer)?;
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(origin) => Err(D::Error::custom(format!(
            "{origin:?} is not an origin; expected one like \"https://app.example\""
        ))),
        None => Ok(origins),
    }
}

fn is_origin(text: &str) -> bool {
    // Browsers leave out the path; people may write the slash.
    let origin = text.strip_suffix('/').unwrap_or(text);
    origin.split_once("://").is_some_and(|(scheme, host)| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
            && !scheme.is_empty()
            && is_authority(host)
    })
}

/// Returns whether the text is a host with an optional port.
fn is_authority(text: &str) -> bool {
    !text.contains(['@', '*']) && text.parse::<http::uri::Authority>().is_ok()
}

/// Parses `ADDRESS:PORT`, where the address may be `localhost`, or a port of 127.0.0.1.
///
/// # Errors
///
/// Returns an error, a sentence for the user, if the text is neither.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return loopback(text);
    }
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        format!(
            "{text:?} is not an address with a port; expected one like \"127.0.0.1:3001\", or a port alone"
        )
    })
}

/// Returns the address of a port of 127.0.0.1.
fn loopback(port: &str) -> Result<SocketAddr, String> {
    let port: u16 =
        port.parse().map_err(|_| format!("{port} is not a port; expected 0 to 65535"))?;
    Ok(SocketAddr::from(([127, 0, 0, 1], port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        for (text, want) in [
            ("3950", Ok("127.0.0.1:3950")),
            ("0", Ok("127.0.0.1:0")),
            ("localhost:3950", Ok("127.0.0.1:3950")),
            ("0.0.0.0:3950", Ok("0.0.0.0:3950")),
            ("[::1]:3950", Ok("[::1]:3950")),
            ("65536", Err("65536 is not a port")),
            ("99999999999999999999", Err("99999999999999999999 is not a port")),
            ("", Err("\"\" is not an address")),
            ("+3950", Err("\"+3950\" is not an address")),
            (":3950", Err("\":3950\" is not an address")),
            ("127.0.0.1", Err("\"127.0.0.1\" is not an address")),
        ] {
            match (parse_listen(text), want) {
                (Ok(found), Ok(want)) => assert_eq!(found.to_string(), want),
                (Err(found), Err(want)) => assert!(found.starts_with(want), "{found}"),
                (found, want) => panic!("{text}: {found:?}, expected {want:?}"),
            }
        }
        let config: ServerConfig = toml::from_str("listen = 3950").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:3950");
    }
}
