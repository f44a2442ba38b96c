//! Handles the requests of a View.

use marquetry_protocol::{RequestId, RpcError, shortened, types::JsonObject};
use serde_json::{Value, json, value::RawValue};

use super::{App, Bridge, Phase, receive::read_params};
use crate::{
    host::{
        audit::MessageKind,
        consent::Consent,
        download::DownloadFile,
        effect::{Effect, HostRequest},
        incoming::AnswerForm,
        link::check_link,
        model_context::ModelContext,
        sampling, server_tools,
        user_message::UserMessage,
    },
    types::{DENIED, DisplayMode, InitializeParams, InitializeResult, method},
};

/// The next step for a request.
enum Next {
    /// The answer is known now.
    Answer(Value),
    /// The host has to answer.
    Ask(AnswerForm, HostRequest),
}

impl Bridge {
    pub(super) fn request(
        &mut self,
        id: RequestId,
        name: &str,
        params: Option<&RawValue>,
        bytes: usize,
    ) {
        let first = self.effects.len();
        let is_full = self.incoming.len() >= self.limits.max_requests;
        let next = if self.incoming.has(&id) {
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
                    Next::Answer(result) => self.answer(&id, Ok(result)),
                    Next::Ask(kind, mut request) => {
                        let token =
                            self.incoming.add(id, kind, Consent::of(&request), Some(&params));
                        if let HostRequest::CallTool { wants_progress, .. } = &mut request {
                            let waiting = self.incoming.get(token);
                            *wants_progress = waiting.is_some_and(|it| it.progress_token.is_some());
                        }
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
    fn check_denials(&self, next: Next) -> Result<Next, RpcError> {
        let Next::Ask(_, request) = &next else { return Ok(next) };
        let max = self.limits.max_denials;
        let refusal = Consent::of(request).and_then(|kind| self.denials.refusal(kind, max));
        refusal.map_or(Ok(next), |why| Err(RpcError::new(DENIED, why)))
    }

    fn route(&mut self, name: &str, params: &JsonObject) -> Result<Next, RpcError> {
        match name {
            method::PING => return Ok(Next::Answer(json!({}))),
            method::INITIALIZE => return self.initialize(params),
            _ => {}
        }
        self.check_ready().map_err(|why| match self.phase {
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
                Ok(Next::Ask(AnswerForm::Empty, HostRequest::AddMessage(message)))
            }
            method::UPDATE_MODEL_CONTEXT => self.update_model_context(params),
            method::REQUEST_DISPLAY_MODE => self.request_display_mode(params),
            method::DOWNLOAD_FILE => {
                self.capabilities.download_file.as_ref().ok_or_else(|| not_offered(name))?;
                let files = DownloadFile::parse(params, self.limits.max_download_files)?;
                Ok(Next::Ask(AnswerForm::Empty, HostRequest::Download(files)))
            }
            method::TOOLS_CALL => {
                self.capabilities.server_tools.as_ref().ok_or_else(|| not_offered(name))?;
                let call = server_tools::check_call(params, &self.server_tools)?;
                let name = call.name;
                let arguments = call.arguments;
                let request = HostRequest::CallTool { name, arguments, wants_progress: false };
                Ok(Next::Ask(AnswerForm::Unchanged, request))
            }
            method::TOOLS_LIST => {
                self.capabilities.server_tools.as_ref().ok_or_else(|| not_offered(name))?;
                Ok(Next::Answer(server_tools::list(&self.server_tools)))
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
                Ok(Next::Ask(AnswerForm::Unchanged, HostRequest::Sample { params }))
            }
            _ => Err(RpcError::method_not_found(name)),
        }
    }

    /// Answers `ui/initialize`. A second one is answered again, and replaces the View's description
    /// of itself, because frameworks may mount a component twice. It does not restart the View's
    /// life, so the View gets no second `tool-input`.
    fn initialize(&mut self, params: &JsonObject) -> Result<Next, RpcError> {
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
        let context = self.context.first(&capabilities);
        self.app = Some(App { info: params.app_info, capabilities });
        let host_info = self.host_info.clone();
        let capabilities = self.capabilities.clone();
        Ok(Next::Answer(json!(InitializeResult::new(host_info, capabilities, context))))
    }

    fn open_link(&self, params: &JsonObject) -> Result<Next, RpcError> {
        self.capabilities.open_links.as_ref().ok_or_else(|| not_offered(method::OPEN_LINK))?;
        let Some(url) = params.get("url").and_then(Value::as_str) else {
            return Err(RpcError::invalid_params("url is not a string"));
        };
        check_link(url).map_err(|error| RpcError::new(DENIED, error.to_string()))?;
        Ok(Next::Ask(AnswerForm::Empty, HostRequest::OpenLink { url: url.to_owned() }))
    }

    fn update_model_context(&mut self, params: &JsonObject) -> Result<Next, RpcError> {
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
        Ok(Next::Answer(json!({})))
    }

    fn request_display_mode(&self, params: &JsonObject) -> Result<Next, RpcError> {
        let mode = params.get("mode").and_then(Value::as_str).and_then(DisplayMode::from_name);
        let Some(mode) = mode else {
            return Err(RpcError::invalid_params("mode is not inline, fullscreen or pip"));
        };
        let current = self.context.mode();
        let is_possible = self.context.modes(&self.app_capabilities()).contains(&mode);
        if mode == current || !is_possible {
            return Ok(Next::Answer(json!({ "mode": current })));
        }
        Ok(Next::Ask(AnswerForm::DisplayMode, HostRequest::SetDisplayMode(mode)))
    }

    fn forward(&self, method: &'static str, params: &JsonObject) -> Result<Next, RpcError> {
        self.capabilities.server_resources.as_ref().ok_or_else(|| not_offered(method))?;
        let params = without_meta(params);
        Ok(Next::Ask(AnswerForm::Unchanged, HostRequest::Forward { method, params }))
    }
}

fn without_meta(params: &JsonObject) -> JsonObject {
    let mut params = params.clone();
    params.shift_remove("_meta");
    params
}

fn not_offered(method: &str) -> RpcError {
    let message = format!("this host does not offer '{}'", shortened(method));
    RpcError::new(marquetry_protocol::error_code::METHOD_NOT_FOUND, message)
}
