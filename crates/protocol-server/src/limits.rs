//! Limits on the resources that clients can use.

use std::time::Duration;

#[cfg(feature = "http")]
use marquetry_protocol_callers::session_slots::SessionSlots;

use super::fair::{FairBounds, FairLimiter};

/// Limits on what clients can make a server store. A client over a limit gets an error that names
/// it; other work continues.
///
/// For the limits "of one caller", an authenticated caller is a principal, any other caller is an
/// address ([`Caller`](super::Caller)). They do not apply to callers on this machine without a
/// token: these act for one user, and only the total limits apply to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest message, in bytes: 16 MiB.
    pub max_message_bytes: usize,
    /// Deepest nesting of a message: 100 levels.
    pub max_nesting: usize,
    /// Requests in flight of a pipe or HTTP session: 256.
    pub max_in_flight: usize,
    /// Requests in flight of all clients together: 1,024.
    pub max_in_flight_total: usize,
    /// Requests in flight of one caller: 32. The next free slot goes to the caller with the fewest.
    pub max_in_flight_per_caller: usize,
    /// Time that a request waits for a slot among those in flight, and a large message for its
    /// bytes, before it is refused: 1 s.
    pub queue_time: Duration,
    /// HTTP sessions: 1,000. The same number of stateless clients may listen for announcements; a
    /// [`Server::watch`] counts as one of those.
    ///
    /// [`Server::watch`]: super::Server::watch
    pub max_sessions: usize,
    /// Sessions of one caller: 100. At this limit and at the total limit, a new session ends the
    /// caller's own session that was idle for the longest, never another caller's. A session with
    /// an open event stream is not idle, so a stream of HTTP+SSE never is. Without an idle session
    /// the new one is refused. The same number of the caller's stateless clients may listen for
    /// announcements.
    pub max_sessions_per_caller: usize,
    /// Unsent bytes for all clients together: 128 MiB. An answer that does not fit becomes an
    /// error.
    pub max_send_bytes: usize,
    /// Unsent bytes for one caller: 32 MiB. A longer answer is sent if no other data waits.
    pub max_send_bytes_per_caller: usize,
    /// Bytes of HTTP request bodies that arrive or are being answered, of all clients together: 256
    /// MiB. Bodies from [`Server::receive`] count, too.
    ///
    /// [`Server::receive`]: super::Server::receive
    pub max_receive_bytes: usize,
    /// Such bytes of one caller: 64 MiB.
    pub max_receive_bytes_per_caller: usize,
    /// Memory of the work on requests, of all clients together: 128 MiB. It is reserved before it
    /// is taken ([`RequestContext::memory`]), so requests wait for it up to ten times as long as
    /// [`Self::queue_time`].
    ///
    /// [`RequestContext::memory`]: super::RequestContext::memory
    pub max_work_bytes: usize,
    /// Such memory of one caller: 64 MiB. A request that needs more than that in all runs when its
    /// caller holds nothing else; arguments that take more when they are parsed are refused.
    pub max_work_bytes_per_caller: usize,
    /// Time after which an idle HTTP session ends: 1 hour.
    pub session_idle: Duration,
    /// Unread messages of each stream: 64. A handler that sends more waits.
    pub max_queued_messages: usize,
    /// Notifications that wait for a client: 256. At the limit the oldest is dropped.
    pub max_queued_notifications: usize,
    /// Resources that one client can subscribe to: 1,000.
    pub max_subscriptions: usize,
    /// Maximum time of a client to answer a question: 10 minutes.
    pub question_timeout: Duration,
    /// Maximum time of a stateless client to return with its answers: 1 hour.
    pub request_state_time: Duration,
    /// Stored tasks, running or finished: 1,000. At the limit a finished one is dropped: the
    /// caller's own oldest, otherwise the oldest of the caller with the most. If none has finished,
    /// the call gets an error.
    pub max_tasks: usize,
    /// Stored tasks of one caller: 100. At the limit the caller's oldest finished one is dropped.
    pub max_tasks_per_caller: usize,
    /// Results of all tasks together, in bytes: 64 MiB. At the limit finished tasks are dropped, as
    /// for [`Self::max_tasks`]; a result that does not fit even then fails its task.
    pub max_task_bytes: usize,
    /// Time for which a task is stored after its creation, unless
    /// [`TaskOptions`](super::TaskOptions::time_to_live) name another: 1 hour.
    pub task_time: Duration,
    /// Events that an HTTP session stores for a client whose connection breaks, in bytes: 1 MiB.
    /// The oldest are dropped first.
    pub replay_bytes: usize,
    /// Events that all HTTP sessions of an endpoint store together, in bytes: 64 MiB. Streams that
    /// ended first are dropped first, then the oldest events of the largest sessions. The newest
    /// event of each running stream is never dropped.
    pub replay_total_bytes: usize,
    /// Time for which a stream is stored after its end: 5 minutes.
    pub replay_time: Duration,
    /// Time for requests in flight to finish after the input has ended or a stop was requested: 5
    /// s.
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
            max_send_bytes: 128 << 20,
            max_send_bytes_per_caller: 32 << 20,
            max_receive_bytes: 256 << 20,
            max_receive_bytes_per_caller: 64 << 20,
            max_work_bytes: 128 << 20,
            max_work_bytes_per_caller: 64 << 20,
            session_idle: Duration::from_hours(1),
            max_queued_messages: 64,
            max_queued_notifications: 256,
            max_subscriptions: 1_000,
            question_timeout: Duration::from_mins(10),
            request_state_time: Duration::from_hours(1),
            max_tasks: 1_000,
            max_tasks_per_caller: 100,
            max_task_bytes: 64 << 20,
            task_time: Duration::from_hours(1),
            replay_bytes: 1 << 20,
            replay_total_bytes: 64 << 20,
            replay_time: Duration::from_mins(5),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Returns [`Self::max_queued_messages`] as the capacity of a channel.
    pub(super) fn queue(&self) -> usize {
        self.max_queued_messages.clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
    }
}

/// The shared pools with these limits.
#[derive(Clone)]
pub(super) struct Shares {
    /// Requests in flight.
    pub(super) calls: FairLimiter,
    /// Stateless clients that listen for announcements. They listen for ever, so they have their
    /// own pool.
    pub(super) listening: FairLimiter,
    /// Sessions over HTTP.
    #[cfg(feature = "http")]
    pub(super) sessions: SessionSlots,
    /// Bytes of messages that wait to be sent.
    pub(super) sending: FairLimiter,
    /// Bytes of HTTP bodies.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP uses it"))]
    pub(super) receiving: FairLimiter,
    /// Bytes of memory of the work on requests.
    pub(super) working: FairLimiter,
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
            // A message that waits for the limit is in memory already.
            queued: limits.max_send_bytes / 4,
            wait: limits.queue_time,
        };
        let receiving = FairBounds {
            what: "bytes of requests have arrived",
            total_setting: "max_receive_bytes",
            per_caller_setting: "max_receive_bytes_per_caller",
            // At least the longest message fits.
            total: limits.max_receive_bytes.max(limits.max_message_bytes),
            per_caller: limits.max_receive_bytes_per_caller.max(limits.max_message_bytes),
            queued: limits.max_receive_bytes,
            wait: limits.queue_time,
        };
        let working = FairBounds {
            what: "bytes of memory are in use for requests",
            total_setting: "max_work_bytes",
            per_caller_setting: "max_work_bytes_per_caller",
            total: limits.max_work_bytes,
            per_caller: limits.max_work_bytes_per_caller,
            // What waits is not in memory yet, and the number of requests is limited.
            queued: usize::MAX,
            wait: limits.queue_time * 10,
        };
        Self {
            calls: FairLimiter::new(calls),
            listening: FairLimiter::new(FairBounds { what: "clients listen", ..sessions }),
            #[cfg(feature = "http")]
            sessions: SessionSlots::new(FairLimiter::new(sessions)),
            sending: FairLimiter::new(sending),
            receiving: FairLimiter::new(receiving),
            working: FairLimiter::new(working),
        }
    }
}
