//! One line of the log for each tool call.

use std::time::Instant;

use marquetry_protocol::server::RequestContext;

use crate::Outcome;

/// The part of the program in the log, which `log.level = "info,marquetry::calls=warn"` silences.
const TARGET: &str = "marquetry::calls";

/// A call that runs. It leaves its line when it ends, or when it is dropped.
pub struct CallLine {
    tool: String,
    server: String,
    started: Instant,
    cx: RequestContext,
    has_ended: bool,
}

impl CallLine {
    /// Begins a call of a tool of `server`. Returns [`None`] if the log does not take its line.
    #[must_use]
    pub fn begin(server: &str, tool: &str, cx: &RequestContext) -> Option<Self> {
        /// Clients choose the names of unknown tools.
        const MAX_NAME: usize = 200;
        if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
            return None;
        }
        Some(Self {
            tool: tool[..tool.floor_char_boundary(MAX_NAME)].to_owned(),
            server: server.to_owned(),
            started: Instant::now(),
            cx: cx.clone(),
            has_ended: false,
        })
    }

    /// Names the upstream that has the tool.
    pub fn sent_to(&mut self, upstream: &str) {
        upstream.clone_into(&mut self.server);
    }

    /// Writes the line of a call whose answer has these bytes.
    pub fn end(&mut self, outcome: &Outcome, bytes: usize) {
        self.has_ended = true;
        // As records are stored for callers without authentication.
        let caller = self.cx.principal().map_or_else(|| "local".to_owned(), |it| it.id());
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let Self { tool, server, .. } = self;
        let outcome = outcome.name();
        tracing::info!(target: TARGET, caller, server, tool, outcome, bytes, ms, "call");
    }
}

/// A dropped call was cancelled, unless a question ended this round of the request.
impl Drop for CallLine {
    fn drop(&mut self) {
        if !self.has_ended {
            let is_question = self.cx.has_asked();
            let cancelled = Outcome::Cancelled { reason: None };
            self.end(if is_question { &Outcome::InputRequired } else { &cancelled }, 0);
        }
    }
}
