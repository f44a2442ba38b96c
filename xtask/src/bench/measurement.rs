//! The figures of one turn of a peer.

use std::time::Duration;

/// The figures of one turn of one peer.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) requests: u64,
    pub(super) time: Duration,
    /// CPU time of the server.
    pub(super) cpu: Duration,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// Resident memory at the end, in bytes.
    pub(super) resident: u64,
}
