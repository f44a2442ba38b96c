//! Sends messages to the View and the sandbox proxy, and records them in the audit log.

use marquetry_protocol::{RequestId, RpcError, types::JsonObject};
use serde_json::{Value, json};

use super::{Bridge, Phase};
use crate::{
    host::{
        audit::{AuditRecord, Direction, MessageKind, Verdict},
        effect::Effect,
        outgoing::RequestKind,
    },
    types::method,
};

impl Bridge {
    /// Sends a notification. The caller has checked that the View is ready or is being torn down.
    pub(super) fn notify(&mut self, method: &str, params: Value) {
        debug_assert!(self.phase == Phase::Ready || self.phase == Phase::TearingDown);
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        self.audit_sent(MessageKind::Notification, Some(method), None, text.len());
        self.effects.push(Effect::Send(text));
    }

    /// Sends a request with a time limit for the answer, and returns its id. The View must be ready
    /// or being torn down.
    pub(super) fn ask(&mut self, question: RequestKind, method: &str, params: JsonObject) -> u64 {
        debug_assert!(self.phase == Phase::Ready || self.phase == Phase::TearingDown);
        let time = match question {
            RequestKind::Teardown => self.limits.teardown_timeout,
            RequestKind::Ping => self.limits.ping_timeout,
            RequestKind::ListTools | RequestKind::CallTool { .. } => self.limits.app_call_timeout,
        };
        let id = self.outgoing.add(question, self.now + time);
        let text =
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        self.audit_sent(MessageKind::Request, Some(method), Some(&id.into()), text.len());
        self.effects.push(Effect::Send(text));
        id
    }

    /// Answers a request of the View.
    pub(super) fn answer(&mut self, id: &RequestId, answer: Result<Value, RpcError>) {
        let (kind, text) = match answer {
            Ok(result) => {
                (MessageKind::Result, json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            }
            Err(error) => {
                (MessageKind::Error, json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            }
        };
        let text = text.to_string();
        self.audit_sent(kind, None, Some(id), text.len());
        self.effects.push(Effect::Send(text));
    }

    /// Sends the changes that the View does not have yet, in this order: context, arguments,
    /// result. Then asks for the View's tools if a list is due.
    pub(super) fn send_changes(&mut self) {
        if self.phase != Phase::Ready {
            return;
        }
        if let Some(changes) = self.context.changes(&self.app_capabilities()) {
            self.notify(method::HOST_CONTEXT_CHANGED, Value::Object(changes));
        }
        for (method, params) in self.call.notifications() {
            self.notify(method, params);
        }
        if self.app_tools.start(self.now) {
            self.ask(RequestKind::ListTools, method::TOOLS_LIST, JsonObject::new());
        }
    }

    /// Sends the View's document to the sandbox proxy.
    pub(super) fn send_to_sandbox(&mut self, params: Value) {
        let method = method::SANDBOX_RESOURCE_READY;
        let text = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        let kind = MessageKind::Notification;
        self.audit(Direction::ToSandbox, kind, Some(method), None, text.len(), Verdict::Accepted);
        self.effects.push(Effect::SendToSandbox(text));
    }

    fn audit_sent(
        &mut self,
        kind: MessageKind,
        method: Option<&str>,
        id: Option<&RequestId>,
        bytes: usize,
    ) {
        self.audit(Direction::ToView, kind, method, id, bytes, Verdict::Accepted);
    }

    pub(super) fn audit(
        &mut self,
        direction: Direction,
        kind: MessageKind,
        method: Option<&str>,
        id: Option<&RequestId>,
        bytes: usize,
        verdict: Verdict,
    ) {
        let record = AuditRecord::new(self.now, direction, kind, method, id, bytes);
        self.effects.push(Effect::Audit(record.with(verdict)));
    }
}
