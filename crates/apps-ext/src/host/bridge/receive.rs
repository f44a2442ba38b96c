//! Handles the messages of a View.

use std::time::Duration;

use marquetry_protocol::{
    Message, Notification, RequestId, Response, RpcError, error_code, shortened, types::JsonObject,
};
use serde_json::value::RawValue;

use super::{Bridge, Phase};
use crate::{
    host::{
        audit::{Direction, MessageKind, Verdict},
        effect::{Effect, RemoveReason},
        log::LogEntry,
        size::SizeFollower,
    },
    types::method,
};

/// The rule that a View broke by a message that only its sandbox proxy may send.
const SANDBOX_MESSAGE: &str = "a View must not send sandbox-* messages";

/// Each full 64 KiB of a message costs one more token, so that large messages count as several.
const BYTES_PER_EXTRA_TOKEN: usize = 64 << 10;

/// The outcome of a notification; the error is the reason why it was ignored.
type Ignored = Result<(), String>;

impl Bridge {
    /// Handles a message of the View or of its sandbox proxy as JSON text, and returns the effects.
    pub fn receive(&mut self, now: Duration, text: &str) -> Vec<Effect> {
        self.set_now(now);
        if self.phase != Phase::Closed {
            self.read(text);
        }
        std::mem::take(&mut self.effects)
    }

    fn read(&mut self, text: &str) {
        let bytes = text.len();
        if bytes > self.limits.max_message_bytes {
            let why = self.too_long(bytes);
            return self.refuse(MessageKind::Unreadable, None, None, bytes, why);
        }
        let message = match Message::parse(text.as_bytes(), self.limits.max_nesting) {
            Ok(message) => message,
            Err(error) => {
                let why = error.error.message.clone();
                self.refuse(MessageKind::Unreadable, None, error.id.as_ref(), bytes, why);
                if let Some(id) = error.id
                    && self.phase != Phase::Closed
                {
                    self.answer(&id, Err(error.error));
                }
                return;
            }
        };
        let cost = u32::try_from(1 + bytes / BYTES_PER_EXTRA_TOKEN).unwrap_or(u32::MAX);
        if !self.rate.take(self.now, cost) {
            return self.over_rate(&message, bytes);
        }
        match message {
            Message::Request(request) if request.method.starts_with(method::SANDBOX_PREFIX) => {
                let kind = MessageKind::Request;
                let id = Some(&request.id);
                self.sandbox_violation(kind, &request.method, id, bytes, SANDBOX_MESSAGE);
            }
            Message::Notification(note) if note.method.starts_with(method::SANDBOX_PREFIX) => {
                self.sandbox_message(&note.method, bytes);
            }
            Message::Request(request) => {
                self.request(request.id, &request.method, request.params, bytes);
            }
            Message::Notification(note) => self.notification(&note, bytes),
            Message::Response(response) => self.response(response, bytes),
        }
    }

    fn over_rate(&mut self, message: &Message<'_>, bytes: usize) {
        let per_second = self.limits.messages_per_second;
        let why = format!(
            "too many messages: a View may send {per_second} per second, and long ones count more"
        );
        match message {
            Message::Request(request) => {
                let id = &request.id;
                let kind = MessageKind::Request;
                self.refuse(kind, Some(&request.method), Some(id), bytes, why.clone());
                if self.phase != Phase::Closed {
                    self.answer(id, Err(RpcError::too_many_requests(why)));
                }
            }
            Message::Notification(note) => {
                self.refuse(MessageKind::Notification, Some(&note.method), None, bytes, why);
            }
            // Answers are not limited: the first one to each pending request is accepted, and all
            // others are refused.
            Message::Response(response) => self.response(response.clone(), bytes),
        }
    }

    /// Sends the View's document to the sandbox proxy, once. If the proxy is ready a second time,
    /// the View has made it load again, perhaps with a looser policy.
    fn sandbox_message(&mut self, name: &str, bytes: usize) {
        let kind = MessageKind::Notification;
        if name != method::SANDBOX_PROXY_READY {
            return self.sandbox_violation(kind, name, None, bytes, SANDBOX_MESSAGE);
        }
        let Some(resource) = self.sandbox.take() else {
            let rule = "the sandbox proxy was ready twice";
            return self.sandbox_violation(kind, name, None, bytes, rule);
        };
        self.audit(Direction::FromSandbox, kind, Some(name), None, bytes, Verdict::Accepted);
        self.send_to_sandbox(serde_json::json!(resource));
        self.phase = Phase::Loading;
    }

    fn sandbox_violation(
        &mut self,
        kind: MessageKind,
        name: &str,
        id: Option<&RequestId>,
        bytes: usize,
        rule: &str,
    ) {
        let verdict = Verdict::Violation(rule.to_owned());
        self.audit(Direction::FromSandbox, kind, Some(name), id, bytes, verdict);
        self.remove(RemoveReason::Violation { rule: rule.to_owned() });
    }

    fn notification(&mut self, note: &Notification<'_>, bytes: usize) {
        let kind = MessageKind::Notification;
        let first = self.effects.len();
        let acted = read_params(note.params).and_then(|params| self.act_on(&note.method, &params));
        if let Err(why) = acted {
            return self.refuse(kind, Some(&note.method), None, bytes, why);
        }
        self.audit_accepted(first, kind, &note.method, None, bytes);
    }

    /// Records an accepted message of the View before its effects, which start at index `first`.
    /// Otherwise a host that stops in between would have effects without a record.
    pub(super) fn audit_accepted(
        &mut self,
        first: usize,
        kind: MessageKind,
        method: &str,
        id: Option<&RequestId>,
        bytes: usize,
    ) {
        self.audit(Direction::FromView, kind, Some(method), id, bytes, Verdict::Accepted);
        self.effects[first..].rotate_right(1);
    }

    fn act_on(&mut self, name: &str, params: &JsonObject) -> Ignored {
        if name == method::INITIALIZED {
            return match self.phase {
                Phase::Initializing => {
                    self.phase = Phase::Ready;
                    if self.app_capabilities().tools.is_some() && self.app_tools.is_new() {
                        self.app_tools.changed(self.now, self.limits.app_list_interval);
                    }
                    self.send_changes();
                    Ok(())
                }
                Phase::Created | Phase::Loading => Err("it comes before ui/initialize".to_owned()),
                _ => Err("it came before".to_owned()),
            };
        }
        self.check_ready()?;
        match name {
            method::SIZE_CHANGED => {
                let content = SizeFollower::parse(params)?;
                let room = self.context.dimensions();
                let largest = self.limits.max_extent;
                if let Some(size) = self.size.follow(self.now, content, room, largest) {
                    self.context.resize_frame(size);
                    self.effects.push(Effect::Resize(size));
                }
                Ok(())
            }
            method::REQUEST_TEARDOWN => {
                self.tear_down("requested by the View");
                Ok(())
            }
            method::LOG_MESSAGE if self.capabilities.logging.is_none() => {
                Err("the host takes no log messages".to_owned())
            }
            method::LOG_MESSAGE => {
                let entry = LogEntry::parse(params, self.limits.max_log_bytes)?;
                self.effects.push(Effect::Log(entry));
                Ok(())
            }
            method::CANCELLED => self.cancelled_by_view(params),
            method::TOOLS_LIST_CHANGED => {
                if self.app_capabilities().tools.is_none() {
                    return Err("the View did not declare tools".to_owned());
                }
                self.app_tools.changed(self.now, self.limits.app_list_interval);
                self.send_changes();
                Ok(())
            }
            // The host sends no progress tokens, and its time limits are fixed.
            method::PROGRESS => Ok(()),
            _ => Err("no such notification".to_owned()),
        }
    }

    fn cancelled_by_view(&mut self, params: &JsonObject) -> Ignored {
        let id = params
            .get("requestId")
            .cloned()
            .and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        let id = id.ok_or("requestId is not an id")?;
        let (token, waiting) = self.incoming.cancel(&id).ok_or("no request with this id waits")?;
        // Otherwise a View could show the user a question again and again, and take it back each
        // time.
        if let Some(kind) = waiting.consent {
            self.denials.record(kind, true);
        }
        self.effects.push(Effect::Cancel { token });
        Ok(())
    }

    fn response(&mut self, response: Response<'_>, bytes: usize) {
        let is_error = response.outcome.is_err();
        let kind = if is_error { MessageKind::Error } else { MessageKind::Result };
        let id = response.id.as_ref();
        let Some(asked) = self.outgoing.take(id) else {
            return self.refuse(kind, None, id, bytes, "no request with this id waits".to_owned());
        };
        self.audit(Direction::FromView, kind, None, id, bytes, Verdict::Accepted);
        let outcome = response.outcome.and_then(|result| {
            serde_json::from_str(result.get())
                .map_err(|error| RpcError::new(error_code::PARSE_ERROR, error.to_string()))
        });
        self.answered(asked.what, outcome);
    }

    /// Checks that the View is ready; until then it may only send `ui/initialize`,
    /// `ui/notifications/initialized` and `ping`.
    pub(super) fn check_ready(&self) -> Result<(), String> {
        match self.phase {
            Phase::Ready => Ok(()),
            Phase::TearingDown | Phase::Closed => Err("the View is being closed".to_owned()),
            _ => Err(format!("it comes before {}", method::INITIALIZED)),
        }
    }

    pub(super) fn too_long(&self, bytes: usize) -> String {
        let max = self.limits.max_message_bytes;
        format!("the message has {bytes} bytes; this host takes at most {max}")
    }

    /// Records a refused message, and removes the View after too many of them.
    pub(super) fn refuse(
        &mut self,
        kind: MessageKind,
        method: Option<&str>,
        id: Option<&RequestId>,
        bytes: usize,
        why: String,
    ) {
        let verdict = Verdict::Refused(shortened(&why).to_owned());
        self.audit(Direction::FromView, kind, method, id, bytes, verdict);
        self.refused = self.refused.saturating_add(1);
        if self.refused > self.limits.max_refused {
            self.remove(RemoveReason::TooManyRefused { refused: self.refused });
        }
    }
}

pub(super) fn read_params(params: Option<&RawValue>) -> Result<JsonObject, String> {
    params.map_or(Ok(JsonObject::new()), |params| {
        serde_json::from_str(params.get()).map_err(|error| error.to_string())
    })
}
