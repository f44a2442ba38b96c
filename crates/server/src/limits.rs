//! The settings of `[limits]` as limits of the crates that keep them.

use std::time::Duration;

use marquetry_artifact_tools::ReadLimits;
use marquetry_config::sections::Limits;
use marquetry_protocol::server::{Limits as ProtocolLimits, http::ServeOptions};

/// Returns the limits of the protocol's server.
pub(crate) fn protocol_limits(limits: &Limits, grace: Duration) -> ProtocolLimits {
    ProtocolLimits {
        max_message_bytes: limits.max_request_bytes.get(),
        max_nesting: limits.max_nesting.get(),
        max_in_flight: limits.max_in_flight.get(),
        max_in_flight_total: limits.max_in_flight_total.get(),
        max_in_flight_per_caller: limits.max_in_flight_per_caller.get(),
        queue_time: Duration::from_millis(limits.queue_ms),
        max_sessions: limits.max_sessions.get(),
        max_sessions_per_caller: limits.max_sessions_per_caller.get(),
        max_send_bytes: limits.max_send_bytes.get(),
        max_send_bytes_per_caller: limits.max_send_bytes_per_caller.get(),
        max_receive_bytes: limits.max_receive_bytes.get(),
        max_receive_bytes_per_caller: limits.max_receive_bytes_per_caller.get(),
        max_work_bytes: limits.max_work_bytes.get(),
        max_work_bytes_per_caller: limits.max_work_bytes_per_caller.get(),
        session_idle: Duration::from_millis(limits.session_idle_ms.get()),
        replay_bytes: limits.replay_bytes,
        replay_total_bytes: limits.replay_total_bytes,
        replay_time: Duration::from_millis(limits.replay_ms),
        max_queued_messages: limits.max_queued_messages.get(),
        max_queued_notifications: limits.max_queued_notifications.get(),
        max_subscriptions: limits.max_subscriptions.get(),
        question_timeout: Duration::from_millis(limits.question_ms.get()),
        request_state_time: Duration::from_millis(limits.question_ms.get()),
        shutdown_grace: grace,
        // The other limits are about tasks; this server starts none.
        ..ProtocolLimits::default()
    }
}

/// Returns the limits of connections.
pub(crate) fn serve_options(limits: &Limits, grace: Duration) -> ServeOptions {
    ServeOptions {
        max_connections: limits.max_connections.get(),
        max_connections_per_address: limits.max_connections_per_address.get(),
        head_timeout: Duration::from_millis(limits.max_head_ms.get()),
        write_timeout: Duration::from_millis(limits.max_write_ms.get()),
        min_bytes_per_second: limits.min_write_bytes_per_second,
        shutdown_grace: grace,
    }
}

/// Returns the limits of reads of artifacts.
pub(crate) fn read_limits(limits: &Limits) -> ReadLimits {
    let mut reads = ReadLimits::default();
    reads.default_bytes = limits.read_artifact_default_bytes;
    reads.max_bytes = limits.read_artifact_max_bytes;
    reads.max_image_bytes = limits.read_artifact_max_image_bytes;
    reads.max_resource_bytes = limits.max_resource_bytes;
    reads.max_resource_reads_bytes = limits.max_resource_reads_bytes;
    reads
}

/// Returns the limits of answers about knowledge.
pub(crate) fn answer_limits(limits: &Limits) -> marquetry_knowledge::AnswerLimits {
    let mut answers = marquetry_knowledge::AnswerLimits::default();
    answers.max_answer_bytes = limits.max_own_answer_bytes;
    answers.max_shown_content_bytes = limits.read_artifact_max_bytes;
    answers.max_resource_bytes = limits.max_resource_bytes;
    answers
}
