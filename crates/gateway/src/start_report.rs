//! The last start of an upstream as data, for programs that advise people.

use std::{sync::Arc, time::Duration};

use marquetry_protocol::client::ClientError;

/// The last start of an upstream.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StartReport {
    /// Why it is down. `None` before its first failure, and while it is ready.
    pub failure: Option<Arc<StartFailure>>,
    /// Time from its start until its tools were known; `None` before that.
    pub time: Option<Duration>,
    /// Lines on its standard output that are no messages, since it was started first.
    pub stray_lines: u64,
    /// The first of these lines, or its beginning.
    pub first_stray_line: Option<String>,
}

/// Why an upstream is down.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartFailure {
    /// The program could not be started, or the connection failed.
    Client(ClientError),
    /// It was not ready in time, after this time.
    NotReady(Duration),
    /// It was ready, and its connection was lost.
    Lost(String),
}
