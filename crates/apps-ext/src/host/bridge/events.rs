//! Handles the events of the host.

use std::time::Duration;

use marquetry_protocol::{
    RpcError,
    types::{CallToolResult, JsonObject},
};
use serde_json::{Value, json};

use super::{Bridge, Phase};
use crate::{
    host::{
        app_tools::{AppCallError, Page},
        audit::MessageKind,
        effect::{Effect, Event, Lists, RemoveReason, RequestToken},
        incoming::AnswerForm,
        outgoing::RequestKind,
        size::Size,
    },
    types::{DENIED, DisplayMode, method},
};

impl Bridge {
    /// Handles an event of the host, and returns the effects.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        self.set_now(now);
        if self.phase == Phase::Closed {
            if let Event::CallAppTool { call, .. } = event {
                self.app_answer(call, Err(AppCallError::Closed));
            }
        } else {
            self.take_event(event);
            self.send_changes();
        }
        std::mem::take(&mut self.effects)
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::PartialInput(text) => self.call.partial(&text, self.limits.max_partial_bytes),
            Event::Input(arguments) => self.call.input(arguments),
            Event::Result(result) => self.call.result(result),
            Event::Cancelled(reason) => self.call.cancelled(reason),
            Event::Context(context) => {
                let before = self.context.dimensions();
                self.context.replace(*context, &self.app_capabilities());
                if before != self.context.dimensions() {
                    self.forget_size();
                }
                // No `ShowMode`: the host has said itself in which mode the View is. A host that
                // answers `ShowMode` with its context, while a context of before is on its way,
                // would get contradicting modes in turn without end.
            }
            Event::DisplayMode(mode) => self.show_mode(mode),
            Event::Answer { token, answer } => self.host_answered(token, answer),
            Event::Progress { token, params } => self.progress(token, params),
            Event::ServerTools(tools) => {
                self.server_tools = tools;
                let list = self.capabilities.server_tools;
                self.list_changed(
                    list.is_some_and(|it| it.list_changed),
                    method::TOOLS_LIST_CHANGED,
                );
            }
            Event::ListChanged(list) => {
                let announced = self.capabilities.server_resources;
                let name = match list {
                    Lists::Resources => method::RESOURCES_LIST_CHANGED,
                    Lists::Prompts => method::PROMPTS_LIST_CHANGED,
                };
                self.list_changed(announced.is_some_and(|it| it.list_changed), name);
            }
            Event::CallAppTool { call, name, arguments } => {
                self.call_app_tool(call, name, arguments);
            }
            Event::CancelAppCall { call } => {
                if let Some(id) = self.outgoing.find_call(call) {
                    self.outgoing.remove(id);
                    self.notify_cancelled(id, "the answer is no longer wanted");
                }
            }
            Event::Ping if self.phase == Phase::Ready => {
                self.ask(RequestKind::Ping, method::PING, JsonObject::new());
            }
            Event::Ping => self.effects.push(Effect::Alive(false)),
            Event::TooLong { id, bytes } => {
                let why = self.too_long(bytes);
                let kind =
                    if id.is_some() { MessageKind::Request } else { MessageKind::Unreadable };
                self.refuse(kind, None, id.as_ref(), bytes, why.clone());
                if let Some(id) = id
                    && self.phase != Phase::Closed
                {
                    self.answer(&id, Err(RpcError::limit_exceeded(why)));
                }
            }
            Event::Teardown { reason } => self.tear_down(&reason),
            Event::Gone => self.remove(RemoveReason::Gone),
            Event::Tick => self.tick(),
        }
    }

    /// Gives the frame a size.
    pub(super) fn resize(&mut self, size: Size) {
        self.context.resize_frame(size);
        self.effects.push(Effect::Resize(size));
    }

    /// Forgets the size of the frame: the room for it has changed.
    fn forget_size(&mut self) {
        self.size.reset();
        self.context.reset_frame();
    }

    fn show_mode(&mut self, mode: DisplayMode) {
        if self.context.set_mode(mode, &self.app_capabilities()) {
            self.forget_size();
            self.effects.push(Effect::ShowMode(mode));
        }
    }

    fn host_answered(&mut self, token: RequestToken, answer: Result<Value, RpcError>) {
        let Some(waiting) = self.incoming.remove(&token) else { return };
        let denied = waiting.consent.filter(|kind| {
            let is_denied = answer.as_ref().is_err_and(|error| error.code == DENIED);
            self.denials.record(*kind, is_denied);
            is_denied
        });
        let answer = match (waiting.form, answer) {
            (AnswerForm::Unchanged, answer) => answer,
            (AnswerForm::Empty, answer) => answer.map(|_| json!({})),
            // If the host cannot or may not change the mode, the answer names the present mode.
            // That is not an error.
            (AnswerForm::DisplayMode, answer) => {
                let mode = answer.ok();
                let mode = mode.as_ref().and_then(|it| it.get("mode")).and_then(Value::as_str);
                if let Some(mode) = mode.and_then(DisplayMode::from_name) {
                    self.show_mode(mode);
                }
                Ok(json!({ "mode": self.context.mode() }))
            }
        };
        self.answer(&waiting.id, answer);
        if let Some(kind) = denied
            && let Some(why) = self.denials.refusal(kind, self.limits.max_denials)
        {
            // Questions of this kind that the user has not seen yet.
            let unseen: Vec<_> =
                self.incoming.extract_if(.., |_, it| it.consent == Some(kind)).collect();
            for (token, waiting) in unseen {
                self.effects.push(Effect::Cancel { token });
                self.answer(&waiting.id, Err(RpcError::new(DENIED, why.clone())));
            }
        }
    }

    fn progress(&mut self, token: RequestToken, mut params: JsonObject) {
        let waiting = self.incoming.get(&token);
        let Some(view_token) = waiting.and_then(|it| it.progress_token.clone()) else { return };
        if self.phase == Phase::Ready {
            params.insert("progressToken".to_owned(), view_token);
            self.notify(method::PROGRESS, Value::Object(params));
        }
    }

    fn list_changed(&mut self, is_announced: bool, name: &str) {
        if is_announced && self.phase == Phase::Ready {
            self.notify(name, json!({}));
        }
    }

    fn call_app_tool(&mut self, call: u64, name: String, arguments: JsonObject) {
        let calls = self.outgoing.calls();
        let refused = if self.phase != Phase::Ready {
            Some(AppCallError::Closed)
        } else if !self.app_tools.has(&name) {
            Some(AppCallError::UnknownTool { name: name.clone() })
        } else if calls >= self.limits.max_app_calls {
            Some(AppCallError::TooMany { calls })
        } else {
            None
        };
        if let Some(error) = refused {
            return self.app_answer(call, Err(error));
        }
        let mut params = JsonObject::new();
        params.insert("name".to_owned(), name.into());
        params.insert("arguments".to_owned(), Value::Object(arguments));
        self.ask(RequestKind::CallTool { call }, method::TOOLS_CALL, params);
    }

    /// Handles the View's answer to a request of the host.
    pub(super) fn answered(&mut self, question: RequestKind, outcome: Result<Value, RpcError>) {
        match question {
            RequestKind::Teardown => self.remove(match outcome {
                Ok(_) => RemoveReason::Closed,
                Err(error) => RemoveReason::TeardownFailed { message: error.message },
            }),
            // An error also shows that the View is alive.
            RequestKind::Ping => self.effects.push(Effect::Alive(true)),
            RequestKind::ListTools => match outcome {
                Ok(page) => match self.app_tools.page(&page, self.limits.max_app_tools) {
                    Page::Next(cursor) => {
                        let mut params = JsonObject::new();
                        params.insert("cursor".to_owned(), cursor.into());
                        self.ask(RequestKind::ListTools, method::TOOLS_LIST, params);
                    }
                    Page::Complete => {
                        self.effects.push(Effect::AppTools(self.app_tools.tools().to_owned()));
                    }
                },
                Err(_) => self.app_tools.failed(),
            },
            RequestKind::CallTool { call } => {
                let outcome = outcome.map_err(AppCallError::from).and_then(|result| {
                    match <CallToolResult as serde::Deserialize>::deserialize(&result) {
                        Ok(_) => Ok(result),
                        Err(error) => Err(AppCallError::NoResult { why: error.to_string() }),
                    }
                });
                self.app_answer(call, outcome);
            }
        }
        self.send_changes();
    }

    fn tick(&mut self) {
        if let Some(size) = self.size.end_trials(self.now) {
            self.resize(size);
        }
        for (id, asked) in self.outgoing.take_overdue(self.now) {
            match asked.what {
                RequestKind::Teardown => return self.remove(RemoveReason::TeardownTimedOut),
                RequestKind::Ping => self.effects.push(Effect::Alive(false)),
                RequestKind::ListTools => self.app_tools.failed(),
                RequestKind::CallTool { call } => {
                    let timeout = self.limits.app_call_timeout;
                    self.notify_cancelled(id, "the call has timed out");
                    self.app_answer(call, Err(AppCallError::Timeout { timeout }));
                }
            }
        }
    }

    fn notify_cancelled(&mut self, id: u64, reason: &str) {
        if self.phase == Phase::Ready {
            self.notify(method::CANCELLED, json!({ "requestId": id, "reason": reason }));
        }
    }

    pub(super) fn app_answer(&mut self, call: u64, outcome: Result<Value, AppCallError>) {
        self.effects.push(Effect::AppAnswer { call, outcome });
    }

    /// Returns the error for requests that are unanswered when a View closes.
    pub(super) fn closing_error() -> RpcError {
        RpcError::new(DENIED, "the View is being closed")
    }
}
