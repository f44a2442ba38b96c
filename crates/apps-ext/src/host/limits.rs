//! Limits of a View.

use std::time::Duration;

/// Limits on what one View may use of its host.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message of a View, in bytes of JSON; 10 MiB by default.
    pub max_message_bytes: usize,
    /// The deepest nesting of a message; 100 by default.
    pub max_nesting: usize,
    /// The most requests of a View that wait for an answer; 32 by default.
    pub max_requests: usize,
    /// The messages that a View may send in a second over a long time; 100 by default. Each full 64
    /// KiB of a message counts as one more.
    pub messages_per_second: u32,
    /// The messages that a View may send at once; 200 by default.
    pub message_burst: u32,
    /// The number of refused messages after which the View is removed; 1,000 by default.
    pub max_refused: u32,
    /// The requests of one kind that the user may deny in a row before the bridge refuses further
    /// ones itself, without asking the user; 3 by default. It concerns requests that need consent:
    /// links, messages, downloads and sampling.
    pub max_denials: u32,
    /// The largest model context of a View, in bytes of JSON; 256 KiB by default.
    pub max_model_context_bytes: usize,
    /// The largest message to the conversation, in bytes of JSON; 1 MiB by default.
    pub max_user_message_bytes: usize,
    /// The longest log message, in bytes of JSON; longer ones are cut. 16 KiB by default.
    pub max_log_bytes: usize,
    /// The most files of one `ui/download-file`; 16 by default.
    pub max_download_files: usize,
    /// The longest text of partial arguments that is repaired, in bytes; 1 MiB by default.
    pub max_partial_bytes: usize,
    /// The most tools that a View may offer; 50 by default.
    pub max_app_tools: usize,
    /// The most calls of a View's tools that wait for an answer; 16 by default.
    pub max_app_calls: usize,
    /// The time limit of a call of a View's tool; 30 s by default.
    pub app_call_timeout: Duration,
    /// The shortest time between two `tools/list` that a View's `list_changed` causes; 1 s by
    /// default.
    pub app_list_interval: Duration,
    /// The time limit of the answer to `ui/resource-teardown`; 2 s by default.
    pub teardown_timeout: Duration,
    /// The time limit of the answer to `ping`; 5 s by default.
    pub ping_timeout: Duration,
    /// The largest width or height of a View, in CSS pixels; 10,000 by default.
    pub max_extent: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: 10 << 20,
            max_nesting: marquetry_protocol::DEFAULT_MAX_NESTING,
            max_requests: 32,
            messages_per_second: 100,
            message_burst: 200,
            max_refused: 1_000,
            max_denials: 3,
            max_model_context_bytes: 256 << 10,
            max_user_message_bytes: 1 << 20,
            max_log_bytes: 16 << 10,
            max_download_files: 16,
            max_partial_bytes: 1 << 20,
            max_app_tools: 50,
            max_app_calls: 16,
            app_call_timeout: Duration::from_secs(30),
            app_list_interval: Duration::from_secs(1),
            teardown_timeout: Duration::from_secs(2),
            ping_timeout: Duration::from_secs(5),
            max_extent: 10_000.0,
        }
    }
}
