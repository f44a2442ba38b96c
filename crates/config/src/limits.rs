//! Every limit of the server in one place.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds on what clients, upstreams and tools may use. An error names the exceeded limit; other
/// work continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Size of one message from a client, in bytes.
    pub max_request_bytes: NonZeroUsize,
    /// Nesting of one message from a client, in arrays and objects.
    pub max_nesting: NonZeroUsize,
    /// Open HTTP connections. At the limit, a new connection closes the longest silent connection
    /// of the address that has the most silent ones. If no connection is silent, the new one gets
    /// status 503.
    pub max_connections: NonZeroUsize,
    /// Open HTTP connections of one address. At the limit, a new connection closes the longest
    /// silent connection of the same address. Addresses of this machine have only the limit
    /// `max_connections`.
    pub max_connections_per_address: NonZeroUsize,
    /// Maximum time for the head of an HTTP request to arrive, and for a connection to be idle, in
    /// milliseconds.
    pub max_head_ms: NonZeroU64,
    /// Maximum time for the body of an HTTP request to arrive, in milliseconds.
    pub max_body_ms: NonZeroU64,
    /// Time after which a connection is closed if its client reads nothing of the data that waits
    /// for it, in milliseconds.
    pub max_write_ms: NonZeroU64,
    /// A connection is also closed if its client reads fewer bytes a second than this, measured
    /// over `max_write_ms`, while data waits for it.
    pub min_write_bytes_per_second: u64,
    /// MCP requests in flight for each pipe or session.
    pub max_in_flight: NonZeroUsize,
    /// MCP requests in flight for all clients together.
    pub max_in_flight_total: NonZeroUsize,
    /// MCP requests in flight for one caller. An authenticated caller is a principal, any other
    /// caller is an address. This limit and the other limits for one caller do not apply to callers
    /// on this machine without a token: they all act for one user, whose agents must not block each
    /// other.
    pub max_in_flight_per_caller: NonZeroUsize,
    /// Tool calls of one caller in a minute. A further call is a failed call that says when to try
    /// again.
    pub max_calls_per_minute_per_caller: NonZeroU32,
    /// Tool calls that one caller may make at once after a pause.
    pub max_call_burst_per_caller: NonZeroU32,
    /// Requests in flight at one upstream, so that an upstream that does not answer cannot use up
    /// `max_in_flight_total`.
    pub max_in_flight_per_upstream: NonZeroUsize,
    /// Time that a request over these limits waits before it is refused, in milliseconds. The next
    /// free slot goes to the caller with the fewest requests in flight.
    pub queue_ms: u64,
    /// HTTP sessions of all callers together.
    pub max_sessions: NonZeroUsize,
    /// HTTP sessions of one caller. At this limit, and at `max_sessions`, a new session ends the
    /// caller's own session that was idle for the longest, never another caller's. A session with
    /// an open event stream is not idle, and a session of `/sse` always has one; without an idle
    /// session the new one is refused. Subscriptions at `/mcp/v1` and stateless clients that listen
    /// share a separate limit of the same size.
    pub max_sessions_per_caller: NonZeroUsize,
    /// Data that waits to be sent to all clients together, in bytes. An answer that does not fit is
    /// replaced by an error.
    pub max_send_bytes: NonZeroUsize,
    /// Data that waits to be sent to one caller, in bytes. A larger answer is sent when no other
    /// data waits.
    pub max_send_bytes_per_caller: NonZeroUsize,
    /// Bodies of HTTP requests (MCP, `/mcp/v1` and `/api/tools`) that arrive or are being answered,
    /// for all clients together, in bytes.
    pub max_receive_bytes: NonZeroUsize,
    /// The same for one caller, in bytes.
    pub max_receive_bytes_per_caller: NonZeroUsize,
    /// Memory of the work on requests, for all clients together, in bytes: values in arguments and
    /// bodies, answers of upstreams, contents of records. Requests wait for it up to ten times as
    /// long as `queue_ms`, answers of upstreams up to the time limit of their call.
    pub max_work_bytes: NonZeroUsize,
    /// The same for one caller, in bytes. A request that needs more runs when its caller has no
    /// other in work, but arguments and bodies that take more once they are parsed are refused.
    pub max_work_bytes_per_caller: NonZeroUsize,
    /// Time after which an idle HTTP session ends, in milliseconds.
    pub session_idle_ms: NonZeroU64,
    /// Sent messages that an HTTP session stores for a client whose connection breaks, in bytes.
    /// The oldest are dropped first.
    pub replay_bytes: usize,
    /// Sent messages that all HTTP sessions together store, in bytes. Streams that ended first are
    /// dropped first.
    pub replay_total_bytes: usize,
    /// Time for which the messages of a stream are stored after its end, in milliseconds.
    pub replay_ms: u64,
    /// Messages that wait for a client to read them, for each stream. The sender waits at this
    /// limit.
    pub max_queued_messages: NonZeroUsize,
    /// Notifications that wait for a client to fetch them. The oldest is dropped at this limit.
    pub max_queued_notifications: NonZeroUsize,
    /// Resources that one client can subscribe to.
    pub max_subscriptions: NonZeroUsize,
    /// Maximum time of a client to answer a request from an upstream (sampling, elicitation,
    /// roots), in milliseconds. The time limit of the call does not run meanwhile.
    pub question_ms: NonZeroU64,
    /// Requests to the client that an upstream can make in one call. Further ones are refused.
    pub max_questions_per_call: NonZeroUsize,
    /// Calls that wait for a stateless client to return with its answers. A further call gets an
    /// error.
    pub max_parked_calls: NonZeroUsize,
    /// The same for one caller.
    pub max_parked_calls_per_caller: NonZeroUsize,
    /// Requests that wait for upstreams to start. They do not count as in flight while they wait;
    /// requests over this limit do.
    pub max_waiting_requests: NonZeroUsize,
    /// The same for one caller.
    pub max_waiting_requests_per_caller: NonZeroUsize,
    /// Web pages that upstreams have sent users to and that are not finished. At this limit the
    /// oldest is dropped, and its client gets no notification.
    pub max_url_elicitations: NonZeroUsize,
    /// Size of one message from an upstream, in bytes; a tool answer is one message, with its
    /// images in base64. While a message of an upstream over stdio arrives, it counts for no call,
    /// since its end says which one it answers: each such upstream may fill one of this size.
    pub max_upstream_message_bytes: NonZeroUsize,
    /// Logged lines of an upstream's standard error in a second, with ten times as many at once
    /// after a silence. Further lines are only counted.
    pub max_log_lines_per_second: NonZeroU32,
    /// Size of a REST body, in bytes: a diagram of 50 KiB with every character escaped as `\uXXXX`,
    /// and its envelope.
    pub max_rest_body_bytes: NonZeroUsize,
    /// Entries in one list of an upstream. The rest of a longer list is left out, with a warning in
    /// the log.
    pub max_upstream_list: NonZeroUsize,
    /// Resource links in tool answers that are stored for all agents together: a link routes a read
    /// to its upstream. A link works only for the agent that received it. At this limit, the agent
    /// that has not used its links for the longest time loses its oldest link.
    pub max_resource_routes: NonZeroUsize,
    /// Resource links that are stored for one agent: a principal of `[auth]`, or else a session.
    /// The oldest is dropped first.
    pub max_resource_routes_per_agent: NonZeroUsize,
    /// Entries in one page of a list.
    pub list_page_size: NonZeroUsize,
    /// Instructions of all upstreams together that clients receive, in bytes. A client receives
    /// those of the upstreams that are ready when it connects.
    pub max_instructions_bytes: usize,
    /// Text that `read_artifact` returns when a call names no limit, in bytes, and at most 2,000
    /// tokens.
    pub read_artifact_default_bytes: NonZeroUsize,
    /// Largest limit that a call of `read_artifact` may name, in bytes.
    pub read_artifact_max_bytes: NonZeroUsize,
    /// Size of one answer of the tools `am7_*` to a call that asks for a count or a length, in
    /// bytes; other answers have at most 2,000 tokens. A longer answer is cut and says how to get
    /// the rest.
    pub max_own_answer_bytes: NonZeroUsize,
    /// Largest image that `read_artifact` returns as an image, in bytes after decoding. Models do
    /// not accept much larger ones.
    pub read_artifact_max_image_bytes: NonZeroUsize,
    /// Largest artifact that `resources/read` returns whole, in bytes; larger ones are read in
    /// ranges by `read_artifact`.
    pub max_resource_bytes: NonZeroUsize,
    /// Artifacts in memory for `resources/read`, for all clients together, in bytes. Further reads
    /// wait.
    pub max_resource_reads_bytes: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_bytes: count(16 << 20),
            max_nesting: count(100),
            max_connections: count(1_024),
            max_connections_per_address: count(256),
            max_head_ms: ms(30_000),
            max_body_ms: ms(30_000),
            max_write_ms: ms(60_000),
            min_write_bytes_per_second: 4_096,
            max_in_flight: count(256),
            max_in_flight_total: count(1_024),
            max_in_flight_per_caller: count(32),
            max_calls_per_minute_per_caller: per_minute(600),
            max_call_burst_per_caller: per_minute(60),
            max_in_flight_per_upstream: count(128),
            queue_ms: 1_000,
            max_sessions: count(1_000),
            max_sessions_per_caller: count(100),
            max_send_bytes: count(128 << 20),
            max_send_bytes_per_caller: count(32 << 20),
            max_receive_bytes: count(256 << 20),
            max_receive_bytes_per_caller: count(64 << 20),
            max_work_bytes: count(128 << 20),
            max_work_bytes_per_caller: count(64 << 20),
            session_idle_ms: ms(3_600_000),
            replay_bytes: 1 << 20,
            replay_total_bytes: 64 << 20,
            replay_ms: 300_000,
            max_queued_messages: count(64),
            max_queued_notifications: count(256),
            max_subscriptions: count(1_000),
            question_ms: ms(600_000),
            max_questions_per_call: count(100),
            max_parked_calls: count(256),
            max_parked_calls_per_caller: count(64),
            max_waiting_requests: count(1_024),
            max_waiting_requests_per_caller: count(256),
            max_url_elicitations: count(1_000),
            max_upstream_message_bytes: count(64 << 20),
            max_log_lines_per_second: NonZeroU32::new(20).expect("20 is more than zero"),
            max_rest_body_bytes: count(6 * 51_200 + 4_096),
            max_upstream_list: count(10_000),
            max_resource_routes: count(10_000),
            max_resource_routes_per_agent: count(1_000),
            list_page_size: count(500),
            max_instructions_bytes: 16_384,
            read_artifact_default_bytes: count(16_384),
            read_artifact_max_bytes: count(262_144),
            max_own_answer_bytes: count(131_072),
            read_artifact_max_image_bytes: count(3_932_160),
            max_resource_bytes: count(16 << 20),
            max_resource_reads_bytes: count(64 << 20),
        }
    }
}

/// Returns a default number or size, which is more than zero.
fn count(default: usize) -> NonZeroUsize {
    NonZeroUsize::new(default).expect("defaults are more than zero")
}

fn per_minute(default: u32) -> NonZeroU32 {
    NonZeroU32::new(default).expect("defaults are more than zero")
}

/// Returns a default time in milliseconds, which is more than zero.
fn ms(default: u64) -> NonZeroU64 {
    NonZeroU64::new(default).expect("defaults are more than zero")
}
