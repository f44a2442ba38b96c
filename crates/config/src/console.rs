//! The console in the browser.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The console in the browser: the page at `/`, and its data below `/api/console`. The console
/// keeps its data in memory only, and shows no secrets. With `[auth]`, a caller sees their own
/// calls, and a token with the scope `admin` sees all; without it, only browsers on this machine
/// do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ConsoleConfig {
    /// Serves the console, and records calls for it. Without it, `/` shows only how to connect.
    pub enabled: bool,
    /// Number of tool calls that are kept.
    pub max_calls: NonZeroUsize,
    /// Size of all kept calls together, in bytes: arguments, answers, reports and everything else.
    /// If arguments, an answer or a report exceed an eighth of this, only their size is kept.
    pub max_calls_bytes: NonZeroUsize,
    /// Number of messages of agents and upstreams that are kept. Only the first 64 KiB of each are
    /// kept.
    pub max_messages: NonZeroUsize,
    /// Size of all kept messages together, in bytes.
    pub max_messages_bytes: NonZeroUsize,
    /// Logs messages to and from upstreams, too, while a page listens. Only administrators see
    /// those that belong to no call.
    pub log_upstream_messages: bool,
    /// Number of events that are kept, for pages that lose their connection for a while.
    pub max_events: NonZeroUsize,
    /// Number of pages that can follow events at the same time. One caller with a token may have a
    /// quarter of them.
    pub max_streams: NonZeroUsize,
    /// Folder in which administrators save calls as scenarios, from the page of a call. It is
    /// created if it is missing, and no file in it is ever changed. Without it, a scenario can be
    /// copied and downloaded.
    #[schemars(example = &"tests")]
    pub scenarios_directory: Option<PathBuf>,
    /// Port of the frames of Views, at the address of `server.listen`. It must differ from the port
    /// of the page, so that Views have another origin and cannot access the page. 0 takes a free
    /// port.
    pub views_port: u16,
    /// Origin under which browsers reach the frames of Views, if it is not this machine's address
    /// with `views_port`: behind a reverse proxy, which forwards it to that port, or for browsers
    /// on other machines. It must differ from the origin of the page.
    #[schemars(example = &"https://views.example.org")]
    pub views_origin: Option<String>,
    /// Number of Views that can be open at the same time. One caller with a token may have a
    /// quarter of them.
    pub max_views: NonZeroUsize,
    /// Largest document of a View, in bytes.
    pub max_view_bytes: NonZeroUsize,
    /// Largest message of a View, in bytes. Answers for a View may be 1 MiB larger.
    pub max_view_message_bytes: NonZeroUsize,
    /// Messages that a View may send in a second over a long time. It may send twice as many at
    /// once. Each full 64 KiB of a message counts as one more.
    pub max_view_messages_per_second: NonZeroU32,
    /// Requests of a View that wait for an answer at a time.
    pub max_view_requests: NonZeroUsize,
    /// Requests of one kind (links, messages, downloads) that the user may deny a View in a row.
    /// Further ones are refused without asking the user, until the View is opened again.
    pub max_view_denials: NonZeroU32,
    /// Largest context that a View may give the model, in bytes of JSON.
    pub max_view_context_bytes: NonZeroUsize,
    /// Time after which a View is removed if its page does not answer, in milliseconds. A View that
    /// its page never shows is removed after 30 s.
    pub view_idle_ms: NonZeroU64,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            max_calls: count(1_000),
            max_calls_bytes: count(64 << 20),
            max_messages: count(2_000),
            max_messages_bytes: count(16 << 20),
            log_upstream_messages: true,
            max_events: count(10_000),
            max_streams: count(64),
            scenarios_directory: None,
            views_port: 0,
            views_origin: None,
            max_views: count(32),
            max_view_bytes: count(10 << 20),
            max_view_message_bytes: count(10 << 20),
            max_view_messages_per_second: NonZeroU32::new(100).expect("100 is more than zero"),
            max_view_requests: count(32),
            max_view_denials: NonZeroU32::new(3).expect("3 is more than zero"),
            max_view_context_bytes: count(256 << 10),
            view_idle_ms: NonZeroU64::new(60_000).expect("60,000 is more than zero"),
        }
    }
}

/// Returns a default, which is more than zero.
fn count(default: usize) -> NonZeroUsize {
    NonZeroUsize::new(default).expect("defaults are more than zero")
}

impl ConsoleConfig {
    /// Checks `views_origin`.
    pub(crate) fn check_views_origin(&self) -> Result<(), String> {
        let Some(origin) = &self.views_origin else { return Ok(()) };
        let uri = marquetry_protocol::client::parse_server_url(origin).ok();
        let is_origin = uri.is_some_and(|uri| match (uri.scheme_str(), uri.authority()) {
            (Some(scheme @ ("http" | "https")), Some(authority)) => {
                !authority.as_str().contains('@') && *origin == format!("{scheme}://{authority}")
            }
            _ => false,
        });
        if is_origin {
            return Ok(());
        }
        Err(format!(
            "{origin:?} is not an origin; expected one such as \"https://views.example.org\""
        ))
    }

    /// Checks that `views_port` is not `server`, the port of the server.
    ///
    /// # Errors
    ///
    /// Returns an error, a sentence for the user, if both are the same.
    pub fn check_views_port(&self, server: u16) -> Result<(), String> {
        if !self.enabled || self.views_port == 0 || self.views_port != server {
            return Ok(());
        }
        Err(format!(
            "{server} is the port of server.listen; expected another one, or 0 for a free port"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(origin: &str) -> Result<(), String> {
        let views_origin = Some(origin.to_owned());
        ConsoleConfig { views_origin, ..ConsoleConfig::default() }.check_views_origin()
    }

    #[test]
    fn the_origin_of_views_is_a_scheme_and_a_host() {
        for origin in ["https://views.example.org", "http://192.168.1.5:3003", "http://[::1]:1"] {
            assert_eq!(check(origin), Ok(()));
        }
        for wrong in [
            "views.example.org",
            "https://views.example.org/",
            "https://a.example/views",
            "https://u@a.example",
            "https://a.example:65979",
            "ftp://a.example",
            "https://a.example; script-src *",
            "*",
            "",
        ] {
            let problem = check(wrong).unwrap_err();
            assert!(problem.contains("expected one such as"), "{problem}");
        }
        assert_eq!(ConsoleConfig::default().check_views_origin(), Ok(()));
    }
}
