//! Handles the messages of a View, and routes its requests.

use std::time::Duration;

use marquetry_protocol::{
    Message, Notification, RequestId, Response, RpcError, error_code, shortened, types::JsonObject,
};
use serde_json::{Value, json, value::RawValue};

use super::{App, Bridge, Phase};
use crate::{
    host::{
        audit::{Direction, MessageKind, Verdict},
        consent::Consent,
        download::DownloadFile,
        effect::{Effect, HostRequest, RemoveReason, RequestToken},
        incoming::{AnswerForm, PendingRequest},
        link::check_link,
        log::LogEntry,
        model_context::ModelContext,
        sampling, server_tools,
        size::SizeFollower,
        user_message::UserMessage,
    },
    types::{DENIED, DisplayMode, InitializeParams, InitializeResult, method},
};

/// The rule that a View broke by a message that only its sandbox proxy may send.
const SANDBOX_MESSAGE: &str = "a View must not send sandbox-* messages";

/// Each full 64 KiB of a message costs one more token, so that large messages count as several.
const BYTES_PER_EXTRA_TOKEN: usize = 64 << 10;

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
        self.send_to_sandbox(json!(resource));
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
    fn audit_accepted(
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

    /// Acts on a notification. The error is the reason why it is ignored.
    fn act_on(&mut self, name: &str, params: &JsonObject) -> Result<(), String> {
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
                Phase::Created | Phase::Loading => {
                    Err(format!("it comes before {}", method::INITIALIZE))
                }
                _ => Err("it came before".to_owned()),
            };
        }
        self.check_introduced()?;
        match name {
            method::SIZE_CHANGED => {
                let content = SizeFollower::parse(params)?;
                let room = self.context.dimensions();
                let largest = self.limits.max_extent;
                if let Some(size) = self.size.follow(self.now, content, room, largest) {
                    self.resize(size);
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

    fn cancelled_by_view(&mut self, params: &JsonObject) -> Result<(), String> {
        let id = params
            .get("requestId")
            .cloned()
            .and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        let id = id.ok_or("requestId is not an id")?;
        let token = self.incoming.iter().find(|(_, it)| it.id == id).map(|(token, _)| *token);
        let (token, waiting) = token
            .and_then(|token| self.incoming.remove_entry(&token))
            .ok_or("no request with this id waits")?;
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

    /// Checks that `ui/initialize` was answered; until then a View may only send that, and `ping`.
    ///
    /// It does not wait for `ui/notifications/initialized`: published Views call tools before they
    /// send it (`server-customer-segmentation` 2.0.3 on a slow machine), never repeat a refused
    /// call, and stay empty. The host sends nothing but answers until then.
    fn check_introduced(&self) -> Result<(), String> {
        match self.phase {
            Phase::Initializing | Phase::Ready => Ok(()),
            Phase::TearingDown | Phase::Closed => Err("the View is being closed".to_owned()),
            Phase::Created | Phase::Loading => {
                Err(format!("it comes before {}", method::INITIALIZE))
            }
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

/// The next step for a request.
enum NextStep {
    /// The answer is known now.
    Answer(Value),
    /// The host has to answer.
    Ask(AnswerForm, HostRequest),
}

impl Bridge {
    fn request(&mut self, id: RequestId, name: &str, params: Option<&RawValue>, bytes: usize) {
        let first = self.effects.len();
        let is_full = self.incoming.len() >= self.limits.max_requests;
        let next = if self.incoming.values().any(|it| it.id == id) {
            Err(RpcError::invalid_request("another request with this id waits for its answer"))
        } else if is_full && name != method::PING {
            let max = self.limits.max_requests;
            let message = format!("{max} requests wait for answers already (max_requests)");
            Err(RpcError::too_many_requests(message))
        } else {
            match read_params(params) {
                Ok(params) => self
                    .route(name, &params)
                    .and_then(|next| self.check_denials(next))
                    .map(|next| (next, params)),
                Err(why) => Err(RpcError::invalid_params(why)),
            }
        };
        match next {
            Ok((next, params)) => {
                self.audit_accepted(first, MessageKind::Request, name, Some(&id), bytes);
                match next {
                    NextStep::Answer(result) => self.answer(&id, Ok(result)),
                    NextStep::Ask(form, mut request) => {
                        let consent = Consent::of(&request);
                        let progress_token = progress_token(&params);
                        if let HostRequest::CallTool { wants_progress, .. } = &mut request {
                            *wants_progress = progress_token.is_some();
                        }
                        let token = RequestToken::from_number(self.next_token);
                        self.next_token += 1;
                        let waiting = PendingRequest { id, form, progress_token, consent };
                        self.incoming.insert(token, waiting);
                        self.effects.push(Effect::Request { token, request });
                    }
                }
            }
            Err(error) => {
                let why = error.message.clone();
                self.refuse(MessageKind::Request, Some(name), Some(&id), bytes, why);
                if self.phase != Phase::Closed {
                    self.answer(&id, Err(error));
                }
            }
        }
    }

    /// Refuses a request of a kind that the user has denied too often.
    fn check_denials(&self, next: NextStep) -> Result<NextStep, RpcError> {
        let NextStep::Ask(_, request) = &next else { return Ok(next) };
        let max = self.limits.max_denials;
        let refusal = Consent::of(request).and_then(|kind| self.denials.refusal(kind, max));
        refusal.map_or(Ok(next), |why| Err(RpcError::new(DENIED, why)))
    }

    fn route(&mut self, name: &str, params: &JsonObject) -> Result<NextStep, RpcError> {
        match name {
            method::PING => return Ok(NextStep::Answer(json!({}))),
            method::INITIALIZE => return self.initialize(params),
            _ => {}
        }
        self.check_introduced().map_err(|why| match self.phase {
            Phase::TearingDown => RpcError::new(DENIED, why),
            _ => RpcError::invalid_request(why),
        })?;
        match name {
            method::OPEN_LINK => self.open_link(params),
            method::MESSAGE => {
                let allowed =
                    self.capabilities.message.as_ref().ok_or_else(|| not_offered(name))?;
                let max = self.limits.max_user_message_bytes;
                let message = UserMessage::parse(params, allowed, max)?;
                Ok(NextStep::Ask(AnswerForm::Empty, HostRequest::AddMessage(message)))
            }
            method::UPDATE_MODEL_CONTEXT => self.update_model_context(params),
            method::REQUEST_DISPLAY_MODE => self.request_display_mode(params),
            method::DOWNLOAD_FILE => {
                self.capabilities.download_file.as_ref().ok_or_else(|| not_offered(name))?;
                let files = DownloadFile::parse(params, self.limits.max_download_files)?;
                Ok(NextStep::Ask(AnswerForm::Empty, HostRequest::Download(files)))
            }
            method::TOOLS_CALL => {
                self.capabilities.server_tools.as_ref().ok_or_else(|| not_offered(name))?;
                let call = server_tools::check_call(params, &self.server_tools)?;
                let name = call.name;
                let arguments = call.arguments;
                let request = HostRequest::CallTool { name, arguments, wants_progress: false };
                Ok(NextStep::Ask(AnswerForm::Unchanged, request))
            }
            method::TOOLS_LIST => {
                self.capabilities.server_tools.as_ref().ok_or_else(|| not_offered(name))?;
                Ok(NextStep::Answer(server_tools::list(&self.server_tools)))
            }
            method::RESOURCES_READ => {
                if !params.get("uri").is_some_and(Value::is_string) {
                    return Err(RpcError::invalid_params("uri is not a string"));
                }
                self.forward(method::RESOURCES_READ, params)
            }
            method::RESOURCES_LIST => self.forward(method::RESOURCES_LIST, params),
            method::RESOURCE_TEMPLATES_LIST => {
                self.forward(method::RESOURCE_TEMPLATES_LIST, params)
            }
            method::PROMPTS_LIST => self.forward(method::PROMPTS_LIST, params),
            method::SAMPLING => {
                let allowed =
                    self.capabilities.sampling.as_ref().ok_or_else(|| not_offered(name))?;
                sampling::check(params, allowed)?;
                let params = without_meta(params);
                Ok(NextStep::Ask(AnswerForm::Unchanged, HostRequest::Sample { params }))
            }
            _ => Err(RpcError::method_not_found(name)),
        }
    }

    /// Answers `ui/initialize`. A second one is answered again, and replaces the View's description
    /// of itself, because frameworks may mount a component twice. It does not restart the View's
    /// life, so the View gets no second `tool-input`.
    fn initialize(&mut self, params: &JsonObject) -> Result<NextStep, RpcError> {
        let params: InitializeParams = serde_json::from_value(Value::Object(params.clone()))
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
        match self.phase {
            Phase::Created => {
                return Err(RpcError::invalid_request("the View has no HTML yet"));
            }
            Phase::Loading => self.phase = Phase::Initializing,
            Phase::TearingDown => {
                return Err(RpcError::new(DENIED, "the View is being closed"));
            }
            _ => {}
        }
        let capabilities = params.capabilities();
        let context = self.context.initial(&capabilities);
        self.app = Some(App { info: params.app_info, capabilities });
        let host_info = self.host_info.clone();
        let capabilities = self.capabilities.clone();
        Ok(NextStep::Answer(json!(InitializeResult::new(host_info, capabilities, context))))
    }

    fn open_link(&self, params: &JsonObject) -> Result<NextStep, RpcError> {
        self.capabilities.open_links.as_ref().ok_or_else(|| not_offered(method::OPEN_LINK))?;
        let Some(url) = params.get("url").and_then(Value::as_str) else {
            return Err(RpcError::invalid_params("url is not a string"));
        };
        check_link(url).map_err(|error| RpcError::new(DENIED, error.to_string()))?;
        Ok(NextStep::Ask(AnswerForm::Empty, HostRequest::OpenLink { url: url.to_owned() }))
    }

    fn update_model_context(&mut self, params: &JsonObject) -> Result<NextStep, RpcError> {
        let allowed = self
            .capabilities
            .update_model_context
            .as_ref()
            .ok_or_else(|| not_offered(method::UPDATE_MODEL_CONTEXT))?;
        let context = ModelContext::parse(params, allowed, self.limits.max_model_context_bytes)?;
        if context != self.model_context {
            self.model_context.clone_from(&context);
            self.effects.push(Effect::SetModelContext(context));
        }
        Ok(NextStep::Answer(json!({})))
    }

    fn request_display_mode(&self, params: &JsonObject) -> Result<NextStep, RpcError> {
        let mode = params.get("mode").and_then(Value::as_str).and_then(DisplayMode::from_name);
        let Some(mode) = mode else {
            return Err(RpcError::invalid_params("mode is not inline, fullscreen or pip"));
        };
        let current = self.context.mode();
        let is_possible = self.context.modes(&self.app_capabilities()).contains(&mode);
        if mode == current || !is_possible {
            return Ok(NextStep::Answer(json!({ "mode": current })));
        }
        Ok(NextStep::Ask(AnswerForm::DisplayMode, HostRequest::SetDisplayMode(mode)))
    }

    fn forward(&self, method: &'static str, params: &JsonObject) -> Result<NextStep, RpcError> {
        self.capabilities.server_resources.as_ref().ok_or_else(|| not_offered(method))?;
        let params = without_meta(params);
        Ok(NextStep::Ask(AnswerForm::Unchanged, HostRequest::Forward { method, params }))
    }
}

/// Returns the token that a request gives for its progress.
fn progress_token(params: &JsonObject) -> Option<Value> {
    let token = params.get("_meta")?.get("progressToken");
    token.filter(|it| it.is_string() || it.is_number()).cloned()
}

fn without_meta(params: &JsonObject) -> JsonObject {
    let mut params = params.clone();
    params.shift_remove("_meta");
    params
}

fn not_offered(method: &str) -> RpcError {
    let message = format!("this host does not offer '{}'", shortened(method));
    RpcError::new(error_code::METHOD_NOT_FOUND, message)
}

fn read_params(params: Option<&RawValue>) -> Result<JsonObject, String> {
    params.map_or(Ok(JsonObject::new()), |params| {
        serde_json::from_str(params.get()).map_err(|error| error.to_string())
    })
}
