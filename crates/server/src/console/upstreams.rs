//! What the console is told of the traffic with upstreams.

use std::fmt;

use marquetry_console::{CallOrigin, Console, Direction, Question, RecordSlot};
use marquetry_gateway::{Observed, Observer, Origin};
use marquetry_protocol::server::RequestContext;

/// Tells the console's pages of the traffic with upstreams, while one listens.
pub(crate) struct UpstreamObserver {
    console: Console,
    /// Whether messages are logged (`console.log_upstream_messages`).
    logs_messages: bool,
}

impl UpstreamObserver {
    pub(crate) fn new(console: Console, logs_messages: bool) -> Self {
        Self { console, logs_messages }
    }

    fn log(&self, origin: Option<&Origin>, server: &str, direction: Direction, parts: &[&str]) {
        if self.logs_messages {
            self.console.upstream_message(origin.map(of_console), server, direction, parts);
        }
    }
}

impl fmt::Debug for UpstreamObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamObserver").finish_non_exhaustive()
    }
}

impl Observer for UpstreamObserver {
    fn is_watching(&self) -> bool {
        self.console.events().is_watched()
    }

    fn origin(&self, cx: &RequestContext) -> Origin {
        let record = cx.extension::<RecordSlot>().and_then(RecordSlot::recorded);
        Origin {
            principal: cx.principal().map(|principal| principal.id()),
            record: record.map(|record| record.id.clone()),
        }
    }

    fn observe(&self, upstream: &str, origin: Option<&Origin>, observed: &Observed<'_>) {
        let log = |direction, parts: &[&str]| self.log(origin, upstream, direction, parts);
        let call = origin.map(of_console).unwrap_or_default();
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match *observed {
            Observed::Request { method, params } => {
                let method = quoted(method);
                log(
                    Direction::Sent,
                    &[r#"{"method":"#, &method, r#","params":"#, params.get(), "}"],
                );
            }
            Observed::Result { result } => {
                log(Direction::Received, &[r#"{"result":"#, result.get(), "}"]);
            }
            Observed::Failed { message } => {
                log(Direction::Received, &[r#"{"error":{"message":"#, &quoted(message), "}}"]);
            }
            Observed::Notification { method, params } => {
                let params = params.map_or("{}", |params| params.get());
                log(
                    Direction::Received,
                    &[r#"{"method":"#, &quoted(method), r#","params":"#, params, "}"],
                );
                if method == "notifications/message"
                    && let Observed::Notification { params: Some(params), .. } = observed
                {
                    self.console.server_log(upstream, params);
                }
            }
            Observed::Progress(progress) => {
                let figures = (progress.progress, progress.total);
                self.console.call_progress(call, upstream, figures, progress.message.as_deref());
            }
            Observed::QuestionOpened { number, method, params } => {
                log(
                    Direction::Received,
                    &[r#"{"method":"#, &quoted(method), r#","params":"#, params.get(), "}"],
                );
                let question = Question { number, method, server: upstream, params: Some(params) };
                self.console.question(call, question);
            }
            Observed::QuestionClosed { number, method, answer } => {
                match answer {
                    Some(Ok(result)) => {
                        log(Direction::Sent, &[r#"{"result":"#, result.get(), "}"]);
                    }
                    Some(Err(error)) => {
                        let message = quoted(&error.message);
                        log(Direction::Sent, &[r#"{"error":{"message":"#, &message, "}}"]);
                    }
                    None => {}
                }
                let question = Question { number, method, server: upstream, params: None };
                self.console.question(call, question);
            }
            Observed::Stderr(line) => self.console.server_stderr(upstream, line),
            // What later versions of the gateway tell is not for these pages.
            _ => {}
        }
    }
}

fn of_console(origin: &Origin) -> CallOrigin<'_> {
    CallOrigin { owner: origin.principal.as_deref(), call: origin.record.as_deref() }
}
