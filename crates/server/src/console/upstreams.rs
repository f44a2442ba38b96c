//! Reports the traffic with upstreams to the console.

use marquetry_console::{
    CallOrigin, Console, Direction, RecordSlot, UpstreamMessage, UpstreamQuestion,
};
use marquetry_gateway::{Observed, Observer, Origin};
use marquetry_protocol::server::RequestContext;
use serde_json::value::RawValue;

/// Reports the traffic with upstreams to the console's pages, while a page listens.
#[derive(Debug)]
pub(crate) struct UpstreamObserver {
    pub(crate) console: Console,
    /// Whether messages are logged (`console.log_upstream_messages`).
    pub(crate) logs_messages: bool,
}

impl UpstreamObserver {
    fn log(&self, origin: Option<&Origin>, server: &str, way: Direction, it: UpstreamMessage<'_>) {
        if self.logs_messages {
            self.console.upstream_message(origin.map(of_console), server, way, it);
        }
    }
}

impl Observer for UpstreamObserver {
    fn is_watching(&self) -> bool {
        self.console.events().has_subscribers()
    }

    fn origin(&self, cx: &RequestContext) -> Origin {
        let record = cx.extension::<RecordSlot>().and_then(RecordSlot::recorded);
        Origin {
            principal: cx.principal().map(|principal| principal.id()),
            record: record.map(|record| record.id.clone()),
        }
    }

    fn observe(&self, upstream: &str, origin: Option<&Origin>, observed: &Observed<'_>) {
        let call = origin.map(of_console).unwrap_or_default();
        match *observed {
            Observed::Request { method, params } => {
                self.log(
                    origin,
                    upstream,
                    Direction::Sent,
                    UpstreamMessage::Call { method, params },
                );
            }
            Observed::Result { result } => {
                self.log(origin, upstream, Direction::Received, UpstreamMessage::Result(result));
            }
            Observed::Failed { message } => {
                self.log(origin, upstream, Direction::Received, UpstreamMessage::Error(message));
            }
            Observed::Notification { method, params } => {
                let params = params.unwrap_or(RawValue::NULL);
                self.log(
                    origin,
                    upstream,
                    Direction::Received,
                    UpstreamMessage::Call { method, params },
                );
                if method == "notifications/message" {
                    self.console.server_log(upstream, params);
                }
            }
            Observed::Progress(progress) => {
                let figures = (progress.progress, progress.total);
                self.console.call_progress(call, upstream, figures, progress.message.as_deref());
            }
            Observed::QuestionOpened { number, method, params } => {
                self.log(
                    origin,
                    upstream,
                    Direction::Received,
                    UpstreamMessage::Call { method, params },
                );
                let question =
                    UpstreamQuestion { number, method, server: upstream, params: Some(params) };
                self.console.question(call, question);
            }
            Observed::QuestionClosed { number, method, answer } => {
                match answer {
                    Some(Ok(result)) => {
                        self.log(
                            origin,
                            upstream,
                            Direction::Sent,
                            UpstreamMessage::Result(result),
                        );
                    }
                    Some(Err(error)) => {
                        self.log(
                            origin,
                            upstream,
                            Direction::Sent,
                            UpstreamMessage::Error(&error.message),
                        );
                    }
                    None => {}
                }
                let question = UpstreamQuestion { number, method, server: upstream, params: None };
                self.console.question(call, question);
            }
            Observed::Stderr(line) => self.console.server_stderr(upstream, line),
            // Events of later versions of the gateway are unknown to these pages.
            _ => {}
        }
    }
}

fn of_console(origin: &Origin) -> CallOrigin<'_> {
    CallOrigin { owner: origin.principal.as_deref(), call: origin.record.as_deref() }
}
