//! Limits on the resources that clients can use.

use std::time::Duration;

use super::fair::{FairBounds, FairLimiter};
#[cfg(feature = "http")]
use super::session_places::SessionPlaces;

/// Bounds on what clients can make a server hold. A client over one gets an error that names it; the work of the others
/// goes on.
///
/// The bounds "of one caller" count by principal where requests are authenticated, otherwise by address
/// ([`Caller`](super::Caller)). Callers on this machine without a token act for one user, so they are bounded by the
/// totals alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message, in bytes: 16 MiB.
    pub max_message_bytes: usize,
    /// The deepest nesting of a message: 100 levels.
    pub max_nesting: usize,
    /// Requests in flight, per pipe or HTTP session: 256.
    pub max_in_flight: usize,
    /// Requests in flight of all clients together: 1,024.
    pub max_in_flight_total: usize,
    /// Requests in flight of one caller: 32. A freed place goes to the caller with the fewest.
    pub max_in_flight_per_caller: usize,
    /// How long a request waits for a place among those in flight, and a large message for its bytes, before it is
    /// refused: 1 s.
    pub queue_time: Duration,
    /// Sessions over HTTP: 1,000. As many stateless clients may listen for announcements; a [`Server::watch`] counts as one
    /// of them.
    ///
    /// [`Server::watch`]: super::Server::watch
    pub max_sessions: usize,
    /// Sessions of one caller: 100. One more, or one more than the total, ends the caller's own session that was idle the
    /// longest, and never another caller's; a session whose event stream is open is not idle, so a stream of HTTP+SSE never
    /// is. When none is idle, the new one is refused. As many of its stateless clients may listen for announcements.
    pub max_sessions_per_caller: usize,
    /// Bytes that wait to be sent, to all clients together: 256 MiB. An answer that does not fit becomes an error.
    pub max_send_bytes: usize,
    /// Bytes that wait to be sent to one caller: 64 MiB. A longer answer passes when it waits alone.
    pub max_send_bytes_per_caller: usize,
    /// Bodies of HTTP requests that arrive or are being answered, of all clients together, in bytes: 256 MiB. Bodies that
    /// come by [`Server::receive`] count as well.
    ///
    /// [`Server::receive`]: super::Server::receive
    pub max_receive_bytes: usize,
    /// The same of one caller: 64 MiB.
    pub max_receive_bytes_per_caller: usize,
    /// An idle session over HTTP ends after this time: 1 hour.
    pub session_idle: Duration,
    /// Messages that wait for a client to read them, per stream: 64. A handler that sends more waits.
    pub max_queued_messages: usize,
    /// Announcements that wait for a client to fetch them: 256. One more drops the oldest.
    pub max_queued_notifications: usize,
    /// Resources that one client can be subscribed to at a time: 1,000.
    pub max_subscriptions: usize,
    /// How long a client may take to answer a question: 10 minutes.
    pub question_timeout: Duration,
    /// How long a stateless client may take to come back with its answers: 1 hour.
    pub request_state_time: Duration,
    /// Tasks that are kept, at work or done: 1,000. One more ends the keeping of a finished one: the caller's own oldest,
    /// otherwise the oldest of the caller that has the most. When none has finished, the call gets an error.
    pub max_tasks: usize,
    /// Tasks of one caller that are kept: 100. One more ends the keeping of its own oldest finished one.
    pub max_tasks_per_caller: usize,
    /// The results of all tasks together, in bytes: 64 MiB. Beyond it finished tasks go, as with [`Self::max_tasks`]; a
    /// result that does not fit even then fails its task.
    pub max_task_bytes: usize,
    /// How long a task is kept from its creation on, unless its
    /// [`TaskOptions`](super::TaskOptions::time_to_live) say otherwise: 1 hour.
    pub task_time: Duration,
    /// Bytes of events that an HTTP session keeps for a client whose connection breaks: 1 MiB. The oldest are dropped
    /// first.
    pub replay_bytes: usize,
    /// What all HTTP sessions of an endpoint keep together, in bytes: 64 MiB. Beyond it the streams that ended first are
    /// forgotten, then the oldest events of the largest sessions; the newest event of each running stream stays all the
    /// same.
    pub replay_total_bytes: usize,
    /// How long a stream is kept after its end: 5 minutes.
    pub replay_time: Duration,
    /// Requests in flight may finish within this time after the input has ended or a stop was asked for: 5 s.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message_bytes: 16 << 20,
            max_nesting: marquetry_protocol_wire::DEFAULT_MAX_NESTING,
            max_in_flight: 256,
            max_in_flight_total: 1_024,
            max_in_flight_per_caller: 32,
            queue_time: Duration::from_secs(1),
            max_sessions: 1_000,
            max_sessions_per_caller: 100,
            max_send_bytes: 256 << 20,
            max_send_bytes_per_caller: 64 << 20,
            max_receive_bytes: 256 << 20,
            max_receive_bytes_per_caller: 64 << 20,
            session_idle: Duration::from_secs(3_600),
            max_queued_messages: 64,
            max_queued_notifications: 256,
            max_subscriptions: 1_000,
            question_timeout: Duration::from_secs(600),
            request_state_time: Duration::from_secs(3_600),
            max_tasks: 1_000,
            max_tasks_per_caller: 100,
            max_task_bytes: 64 << 20,
            task_time: Duration::from_secs(3_600),
            replay_bytes: 1 << 20,
            replay_total_bytes: 64 << 20,
            replay_time: Duration::from_secs(300),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// [`Self::max_queued_messages`], as a channel takes it.
    pub(super) fn queue(&self) -> usize {
        self.max_queued_messages.clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
    }
}

/// The shared pools that these limits bound.
#[derive(Clone)]
pub(super) struct Shares {
    /// Requests in flight.
    pub(super) calls: FairLimiter,
    /// Stateless clients that listen for announcements. They do so for ever, so they have places of their own.
    pub(super) listening: FairLimiter,
    /// Sessions over HTTP.
    #[cfg(feature = "http")]
    pub(super) sessions: SessionPlaces,
    /// Bytes of messages that wait to be sent.
    pub(super) sending: FairLimiter,
    /// Bytes of HTTP bodies.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "pipes do not ask"))]
    pub(super) receiving: FairLimiter,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        let calls = FairBounds {
            what: "requests are in flight",
            total_setting: "max_in_flight_total",
            per_caller_setting: "max_in_flight_per_caller",
            total: limits.max_in_flight_total,
            per_caller: limits.max_in_flight_per_caller,
            queued: limits.max_in_flight_total,
            wait: limits.queue_time,
        };
        let sessions = FairBounds {
            what: "sessions are open",
            total_setting: "max_sessions",
            per_caller_setting: "max_sessions_per_caller",
            total: limits.max_sessions,
            per_caller: limits.max_sessions_per_caller,
            queued: 0,
            wait: Duration::ZERO,
        };
        let sending = FairBounds {
            what: "bytes wait to be sent",
            total_setting: "max_send_bytes",
            per_caller_setting: "max_send_bytes_per_caller",
            total: limits.max_send_bytes,
            per_caller: limits.max_send_bytes_per_caller,
            // A message that waits for its bytes is in memory already.
            queued: limits.max_send_bytes / 4,
            wait: limits.queue_time,
        };
        let receiving = FairBounds {
            what: "bytes of requests have arrived",
            total_setting: "max_receive_bytes",
            per_caller_setting: "max_receive_bytes_per_caller",
            // The longest message that is taken has room.
            total: limits.max_receive_bytes.max(limits.max_message_bytes),
            per_caller: limits.max_receive_bytes_per_caller.max(limits.max_message_bytes),
            queued: limits.max_receive_bytes,
            wait: limits.queue_time,
        };
        Self {
            calls: FairLimiter::new(calls),
            listening: FairLimiter::new(FairBounds { what: "clients listen", ..sessions }),
            #[cfg(feature = "http")]
            sessions: SessionPlaces::new(FairLimiter::new(sessions)),
            sending: FairLimiter::new(sending),
            receiving: FairLimiter::new(receiving),
        }
    }
}
