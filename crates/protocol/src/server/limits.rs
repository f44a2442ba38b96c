//! What a server lets its clients take.

use std::time::Duration;

/// Bounds on what clients can make a server hold. Whoever goes over one gets an error that names it; everyone else's
/// work goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message, in bytes: 16 MiB.
    pub max_message_bytes: usize,
    /// The deepest nesting of a message: 100 levels.
    pub max_nesting: usize,
    /// Requests in flight, per pipe or HTTP session, and for all stateless HTTP requests together: 256.
    pub max_in_flight: usize,
    /// Sessions over HTTP: 1,000. One more ends the one that was idle the longest. As many stateless clients may listen
    /// for announcements.
    pub max_sessions: usize,
    /// An idle session over HTTP ends after this time: 1 hour.
    pub session_idle: Duration,
    /// Messages that wait for a client to read them, per stream: 64. Whoever produces more waits.
    pub max_queued_messages: usize,
    /// Announcements that wait for a client to fetch them: 256. One more drops the oldest.
    pub max_queued_notifications: usize,
    /// Resources that one client can be subscribed to at a time: 1,000.
    pub max_subscriptions: usize,
    /// How long a client may take to answer a question: 10 minutes.
    pub question_timeout: Duration,
    /// How long a stateless client may take to come back with its answers: 1 hour.
    pub request_state_time: Duration,
    /// Tasks that are kept, at work or done: 1,000. A call that would be one more gets an error.
    pub max_tasks: usize,
    /// The results of all tasks together, in bytes: 64 MiB. A task whose result does not fit has failed.
    pub max_task_bytes: usize,
    /// How long a task is kept from its creation on, unless its
    /// [`TaskOptions`](super::TaskOptions::time_to_live) say otherwise: 1 hour.
    pub task_time: Duration,
    /// What an HTTP session keeps of its streams for a client whose connection breaks, in bytes: 1 MiB. Beyond it the
    /// oldest is forgotten first.
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
            max_nesting: crate::DEFAULT_MAX_NESTING,
            max_in_flight: 256,
            max_sessions: 1_000,
            session_idle: Duration::from_secs(3_600),
            max_queued_messages: 64,
            max_queued_notifications: 256,
            max_subscriptions: 1_000,
            question_timeout: Duration::from_secs(600),
            request_state_time: Duration::from_secs(3_600),
            max_tasks: 1_000,
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
