//! Delivery of the call that a View shows.

use marquetry_protocol::types::JsonObject;
use serde_json::{Value, json};

use super::repair::repair;
use crate::types::method;

/// Delivery of the call that a View shows. The View is sent its arguments and its end, each once
/// and in this order.
#[derive(Debug, Default)]
pub(super) struct CallDelivery {
    input: Stage<JsonObject>,
    /// The newest partial arguments that were not sent yet.
    partial: Option<JsonObject>,
    end: Stage<End>,
}

#[derive(Debug, Default)]
enum Stage<T> {
    #[default]
    Open,
    Known(T),
    Sent,
}

#[derive(Debug)]
enum End {
    Result(Value),
    Cancelled(Option<String>),
}

impl CallDelivery {
    /// Stores the part of the arguments that the model has written so far.
    pub(super) fn partial(&mut self, text: &str, max_bytes: usize) {
        if matches!((&self.input, &self.end), (Stage::Open, Stage::Open)) && text.len() <= max_bytes
        {
            self.partial = repair(text).or(self.partial.take());
        }
    }

    /// Stores the complete arguments. Later ones are ignored.
    pub(super) fn input(&mut self, arguments: JsonObject) {
        let is_cancelled = match &self.end {
            Stage::Open | Stage::Known(End::Result(_)) => false,
            Stage::Known(End::Cancelled(_)) | Stage::Sent => true,
        };
        if matches!(self.input, Stage::Open) && !is_cancelled {
            self.input = Stage::Known(arguments);
            self.partial = None;
        }
    }

    /// Stores the result. Later ends are ignored.
    pub(super) fn result(&mut self, result: Value) {
        if matches!(self.end, Stage::Open) {
            self.end = Stage::Known(End::Result(result));
        }
    }

    /// Ends the call without a result. Later ends are ignored.
    pub(super) fn cancelled(&mut self, reason: Option<String>) {
        if matches!(self.end, Stage::Open) {
            self.partial = None;
            self.end = Stage::Known(End::Cancelled(reason));
        }
    }

    /// Removes and returns the notifications that the View must be sent now, if it is ready.
    pub(super) fn notifications(&mut self) -> Vec<(&'static str, Value)> {
        let mut messages = Vec::new();
        if let Some(partial) = self.partial.take() {
            messages.push((method::TOOL_INPUT_PARTIAL, json!({ "arguments": partial })));
        }
        if let Stage::Known(arguments) = &mut self.input {
            let arguments = std::mem::take(arguments);
            messages.push((method::TOOL_INPUT, json!({ "arguments": arguments })));
            self.input = Stage::Sent;
        }
        match std::mem::take(&mut self.end) {
            // The result must follow the arguments, so it waits for them.
            Stage::Known(End::Result(result)) if matches!(self.input, Stage::Open) => {
                self.end = Stage::Known(End::Result(result));
            }
            Stage::Known(End::Result(result)) => {
                messages.push((method::TOOL_RESULT, result));
                self.end = Stage::Sent;
            }
            Stage::Known(End::Cancelled(reason)) => {
                // The published schema makes the reason optional, but the text of the specification
                // requires it.
                let params = json!({ "reason": reason.unwrap_or_else(|| "cancelled".to_owned()) });
                messages.push((method::TOOL_CANCELLED, params));
                self.end = Stage::Sent;
            }
            other => self.end = other,
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(messages: &[(&'static str, Value)]) -> Vec<&'static str> {
        messages.iter().map(|(name, _)| name.rsplit('/').next().unwrap()).collect()
    }

    #[test]
    fn a_result_waits_for_the_arguments() {
        let mut call = CallDelivery::default();
        call.result(json!({ "content": [] }));
        assert!(call.notifications().is_empty());
        call.input(JsonObject::new());
        assert_eq!(names(&call.notifications()), ["tool-input", "tool-result"]);
        call.input(JsonObject::new());
        call.result(json!({}));
        call.cancelled(None);
        call.partial("{", 9);
        assert!(call.notifications().is_empty());
    }

    #[test]
    fn only_the_newest_partial_is_sent_and_none_after_the_arguments() {
        let mut call = CallDelivery::default();
        call.partial(r#"{"a": "b"#, 99);
        call.partial(r#"{"a": "bc"#, 99);
        call.partial("no json", 99);
        let sent = call.notifications();
        assert_eq!(names(&sent), ["tool-input-partial"]);
        assert_eq!(sent[0].1, json!({ "arguments": { "a": "bc" } }));
        call.partial(r#"{"a": "bcd"#, 99);
        call.input(JsonObject::new());
        assert_eq!(names(&call.notifications()), ["tool-input"]);
        call.partial("{", 99);
        assert!(call.notifications().is_empty());
    }

    #[test]
    fn a_call_that_is_cancelled_early_has_no_arguments() {
        let mut call = CallDelivery::default();
        call.partial("{", 99);
        call.cancelled(Some("stop".into()));
        call.input(JsonObject::new());
        let sent = call.notifications();
        assert_eq!(names(&sent), ["tool-cancelled"]);
        assert_eq!(sent[0].1, json!({ "reason": "stop" }));
    }
}
