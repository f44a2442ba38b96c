//! Every bound of the server in one place.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds on what clients, upstreams and tools may use. Over a limit there is an error that names it; everything else goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Limits {
    /// Size of one message from a client, in bytes.
    pub max_request_bytes: NonZeroUsize,
    /// Nesting of one message from a client, in arrays and objects.
    pub max_nesting: NonZeroUsize,
    /// Connections open at a time over HTTP. One more closes the longest silent connection of the address with the most silent ones; when all
    /// are busy, it is answered with 503.
    pub max_connections: NonZeroUsize,
    /// Connections of one address open at a time over HTTP; one more closes the longest silent one of the same address. Addresses of this
    /// machine are bounded by `max_connections` alone.
    pub max_connections_per_address: NonZeroUsize,
    /// How long the head of an HTTP request may take to arrive, and a connection may be idle, in milliseconds.
    pub max_head_ms: NonZeroU64,
    /// How long the body of an HTTP request may take to arrive, in milliseconds.
    pub max_body_ms: NonZeroU64,
    /// How long a client may read nothing of what it is sent before its connection closes, in milliseconds.
    pub max_write_ms: NonZeroU64,
    /// A connection also closes when, over `max_write_ms`, its client reads fewer bytes a second than these of what waits for it.
    pub min_write_bytes_per_second: u64,
    /// MCP requests in flight at a time, for each pipe or session.
    pub max_in_flight: NonZeroUsize,
    /// MCP requests in flight at a time, for all clients together.
    pub max_in_flight_total: NonZeroUsize,
    /// MCP requests in flight at a time for one caller. Where requests are authenticated, a caller is a principal, otherwise an address.
    /// Callers on this machine without a token act for one user, so they are bounded by `max_in_flight_total` alone: a smaller bound
    /// would keep the agents of that user from each other. Here and below, "one caller" means this.
    pub max_in_flight_per_caller: NonZeroUsize,
    /// Requests in flight at a time at one upstream, so that a silent one does not hold all of `max_in_flight_total`.
    pub max_in_flight_per_upstream: NonZeroUsize,
    /// How long a request waits for a free place before it is refused, in milliseconds. A free place goes to the caller with the fewest
    /// requests in flight.
    pub queue_ms: u64,
    /// Sessions over HTTP, of all callers together.
    pub max_sessions: NonZeroUsize,
    /// Sessions over HTTP of one caller. One more, or one more than `max_sessions`, ends the caller's own session that was idle the longest,
    /// never another caller's. A session whose event stream is open is not idle; a stream of `/sse` never is, and is refused when no other session is
    /// idle. Subscriptions at `/mcp/v1` and stateless clients that listen have as many places of their own.
    pub max_sessions_per_caller: NonZeroUsize,
    /// What waits to be sent to all clients together, in bytes; an answer that does not fit becomes an error.
    pub max_send_bytes: NonZeroUsize,
    /// What waits to be sent to one caller, in bytes. A single answer that is larger is sent when nothing else waits.
    pub max_send_bytes_per_caller: NonZeroUsize,
    /// Bodies of requests over HTTP (MCP, `/mcp/v1` and `/api/tools`) that arrive or are being answered, for all clients together, in bytes.
    pub max_receive_bytes: NonZeroUsize,
    /// The same for one caller, in bytes.
    pub max_receive_bytes_per_caller: NonZeroUsize,
    /// An idle session over HTTP ends after this time, in milliseconds.
    pub session_idle_ms: NonZeroU64,
    /// What a session over HTTP keeps of its streams for a client whose connection breaks, in bytes; the oldest is forgotten first.
    pub replay_bytes: usize,
    /// What all sessions over HTTP keep of their streams together, in bytes; the streams that ended first are forgotten first.
    pub replay_total_bytes: usize,
    /// How long a stream is kept after its end, in milliseconds.
    pub replay_ms: u64,
    /// Messages that wait for a client to read them, for each stream; whoever produces more waits.
    pub max_queued_messages: NonZeroUsize,
    /// Announcements that wait for a client to fetch them; one more drops the oldest.
    pub max_queued_notifications: NonZeroUsize,
    /// Resources that one client can be subscribed to at a time.
    pub max_subscriptions: NonZeroUsize,
    /// How long a client may take to answer what a server behind this one asks (sampling, elicitation, roots), in milliseconds. The time of
    /// the call itself stands still meanwhile.
    pub question_ms: NonZeroU64,
    /// Questions that one call of an upstream's may ask; further ones are refused.
    pub max_questions_per_call: NonZeroUsize,
    /// Calls that wait for clients without sessions to come back with their answers; a further one gets an error instead of an answer.
    pub max_parked_calls: NonZeroUsize,
    /// The same for one caller.
    pub max_parked_calls_per_caller: NonZeroUsize,
    /// Requests that wait for upstreams to start. They are not counted among those in flight while they wait; further ones are.
    pub max_waiting_requests: NonZeroUsize,
    /// The same for one caller.
    pub max_waiting_requests_per_caller: NonZeroUsize,
    /// Web pages that upstreams have sent users to and have not called done yet; the oldest is forgotten first, and its client not told.
    pub max_url_elicitations: NonZeroUsize,
    /// Size of one message from an upstream, in bytes; a tool answer is one message, with its images in base64.
    pub max_upstream_message_bytes: NonZeroUsize,
    /// Lines of an upstream's standard error that are logged in a second, and ten times as many at once after a silence; the others are counted.
    pub max_log_lines_per_second: NonZeroU32,
    /// Size of a REST body, in bytes: a diagram of 50 KiB with every character escaped as `\uXXXX`, and its envelope.
    pub max_rest_body_bytes: NonZeroUsize,
    /// Entries in one list of an upstream. A longer list of tools keeps the upstream from starting; a longer list of prompts, resources or
    /// templates is left out, with a warning.
    pub max_upstream_list: NonZeroUsize,
    /// Resource links of tool answers that are remembered, so that a read finds their upstream, for all agents together. Each link is for the
    /// agent alone that got it; the agent that used its links the longest ago forgets them first.
    pub max_resource_routes: NonZeroUsize,
    /// Resource links that are remembered for one agent: a principal of `[auth]`, or else a session; it forgets the oldest first.
    pub max_resource_routes_per_agent: NonZeroUsize,
    /// Entries in one page of a list.
    pub list_page_size: NonZeroUsize,
    /// Instructions of all upstreams together that are passed on to clients, in bytes. A client gets those of the upstreams that are ready when
    /// it connects; nothing waits for the others.
    pub max_instructions_bytes: usize,
    /// Text that `read_artifact` returns when a call names no limit, in bytes.
    pub read_artifact_default_bytes: NonZeroUsize,
    /// Most that one call of `read_artifact` may ask for, in bytes.
    pub read_artifact_max_bytes: NonZeroUsize,
    /// What one answer of the tools `am7_*` lists, finds or shows, in bytes; it says how to get the rest.
    pub max_own_answer_bytes: NonZeroUsize,
    /// Largest image that `read_artifact` returns as an image, in bytes after decoding; models take none much larger.
    pub read_artifact_max_image_bytes: NonZeroUsize,
    /// Largest artifact that `resources/read` returns whole, in bytes; larger ones are read in ranges by `read_artifact`.
    pub max_resource_bytes: NonZeroUsize,
    /// Artifacts that `resources/read` has in memory at a time for all clients together, in bytes; further reads wait.
    pub max_resource_reads_bytes: NonZeroUsize,
}

#[cfg(feature = "knowledge")]
impl Limits {
    /// The limits of answers about knowledge.
    pub(crate) fn of_answers(&self) -> marquetry_knowledge::AnswerLimits {
        let mut limits = marquetry_knowledge::AnswerLimits::default();
        limits.max_answer_bytes = self.max_own_answer_bytes;
        limits.max_shown_content_bytes = self.read_artifact_max_bytes;
        limits.max_resource_bytes = self.max_resource_bytes;
        limits
    }
}

impl Default for Limits {
    fn default() -> Self {
        let n = |n| NonZeroUsize::new(n).expect("every default below is more than zero");
        let ms = |n| NonZeroU64::new(n).expect("every default below is more than zero");
        Self {
            max_request_bytes: n(16 << 20),
            max_nesting: n(100),
            max_connections: n(1_024),
            max_connections_per_address: n(256),
            max_head_ms: ms(30_000),
            max_body_ms: ms(30_000),
            max_write_ms: ms(60_000),
            min_write_bytes_per_second: 4_096,
            max_in_flight: n(256),
            max_in_flight_total: n(1_024),
            max_in_flight_per_caller: n(32),
            max_in_flight_per_upstream: n(128),
            queue_ms: 1_000,
            max_sessions: n(1_000),
            max_sessions_per_caller: n(100),
            max_send_bytes: n(256 << 20),
            max_send_bytes_per_caller: n(64 << 20),
            max_receive_bytes: n(256 << 20),
            max_receive_bytes_per_caller: n(64 << 20),
            session_idle_ms: ms(3_600_000),
            replay_bytes: 1 << 20,
            replay_total_bytes: 64 << 20,
            replay_ms: 300_000,
            max_queued_messages: n(64),
            max_queued_notifications: n(256),
            max_subscriptions: n(1_000),
            question_ms: ms(600_000),
            max_questions_per_call: n(100),
            max_parked_calls: n(256),
            max_parked_calls_per_caller: n(64),
            max_waiting_requests: n(1_024),
            max_waiting_requests_per_caller: n(256),
            max_url_elicitations: n(1_000),
            max_upstream_message_bytes: n(64 << 20),
            max_log_lines_per_second: NonZeroU32::new(20).expect("20 is more than zero"),
            max_rest_body_bytes: n(6 * 51_200 + 4_096),
            max_upstream_list: n(10_000),
            max_resource_routes: n(10_000),
            max_resource_routes_per_agent: n(1_000),
            list_page_size: n(500),
            max_instructions_bytes: 16_384,
            read_artifact_default_bytes: n(16_384),
            read_artifact_max_bytes: n(262_144),
            max_own_answer_bytes: n(131_072),
            read_artifact_max_image_bytes: n(3_932_160),
            max_resource_bytes: n(16 << 20),
            max_resource_reads_bytes: n(64 << 20),
        }
    }
}
