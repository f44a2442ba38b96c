//! Models of providers, called by genai.

use std::future::Future;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{
        ChatMessage, ChatOptions, ChatResponse, ChatStreamEvent, JsonSpec, StopReason, StreamEnd,
        ToolResponse,
    },
    resolver::{AuthData, Endpoint},
    webc,
};
use marquetry_endpoint::{
    ApiKey, EndpointFailure, PlainHttp, RetryPolicy, base_url, error_message, http_client,
};

use crate::{
    ChatAnswer, ChatError, ChatModel, ChatRequest, Finish, Format, Message, ModelConfig, Provider,
    Tool, ToolCall, Usage,
};

/// A model of a provider, over HTTP.
///
/// ```no_run
/// use marquetry_llm::{ChatModel, ChatRequest, Message, ModelConfig, Provider, RemoteModel};
///
/// # async fn run() -> Result<(), marquetry_llm::ChatError> {
/// let model = RemoteModel::new(ModelConfig::new(Provider::Ollama, "qwen3:4b"))?;
/// let answer = model.chat(&ChatRequest::new([Message::user("Good morning!")])).await?;
/// println!("{}", answer.text);
/// # Ok(())
/// # }
/// ```
pub struct RemoteModel {
    client: Client,
    target: ServiceTarget,
    config: ModelConfig,
}

impl RemoteModel {
    /// Prepares a model. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`ChatError::Config`] if the key, the base URL or the model's name is missing or invalid.
    pub fn new(config: ModelConfig) -> Result<Self, ChatError> {
        let refused = |why: String| Err(ChatError::Config(why));
        if config.model.trim().is_empty() {
            return refused("the model has no name".to_owned());
        }
        if config.provider.needs_key() && config.api_key.is_none() {
            return refused(format!("{:?} requires a key", config.provider));
        }
        let Some(base) = config.base_url.as_deref().or(config.provider.default_base_url()) else {
            return refused("a custom provider needs a base URL".to_owned());
        };
        if config.api_key.as_ref().is_some_and(|key| !key.is_sendable()) {
            return refused(
                "the key is empty, or holds white space or characters outside of ASCII".to_owned(),
            );
        }
        let url = base_url(base, PlainHttp::Anywhere)
            .map_err(|error| ChatError::Config(error.to_string()))?;
        let kind = match config.provider {
            Provider::Anthropic => AdapterKind::Anthropic,
            Provider::OpenAi | Provider::Ollama | Provider::Custom => AdapterKind::OpenAI,
        };
        // Some servers that need no key insist on a header that is not empty.
        let key = config.api_key.as_ref().map_or("none", |key| key.expose());
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(url.to_string()),
            auth: AuthData::from_single(key),
            model: ModelIden::new(kind, config.model.as_str()),
        };
        let http = http_client(&url).map_err(|error| ChatError::Config(error.to_string()))?;
        let client = Client::builder()
            .with_reqwest(http)
            .build()
            .map_err(|error| ChatError::Config(error.to_string()))?;
        Ok(Self { client, target, config })
    }

    /// Runs one attempt within [`ModelConfig::timeout`].
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, genai::Error>>,
    ) -> Result<T, EndpointFailure> {
        let limit = self.config.timeout;
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome.map_err(|error| self.failure(&error)),
            Err(_) => Err(EndpointFailure::Timeout(limit)),
        }
    }

    /// Runs a whole call within [`ModelConfig::answer_timeout`].
    async fn in_all<T>(
        &self,
        work: impl Future<Output = Result<T, EndpointFailure>> + Send,
    ) -> Result<T, ChatError> {
        let limit = self.config.answer_timeout;
        let outcome = tokio::time::timeout(limit, work).await;
        Ok(outcome.unwrap_or(Err(EndpointFailure::Timeout(limit)))?)
    }

    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::new(self.config.retries, self.config.longest_wait)
    }

    fn failure(&self, error: &genai::Error) -> EndpointFailure {
        // A stream that begins with an error status instead of events wraps the error of the status.
        let error = match error {
            genai::Error::WebStream { error: inner, .. } => {
                inner.downcast_ref::<genai::Error>().unwrap_or(error)
            }
            _ => error,
        };
        let key = self.config.api_key.as_ref();
        if let Some(status) = error.status() {
            let body = body_of(error).map_or_else(|| innermost_cause(error), str::to_owned);
            return EndpointFailure::from_status(
                status.as_u16(),
                error.headers(),
                body.as_bytes(),
                key,
            );
        }
        let message = body_of(error).map(|body| error_message(body.as_bytes()));
        let message = ApiKey::redact(key, &message.unwrap_or_else(|| innermost_cause(error)));
        match error {
            genai::Error::WebModelCall {
                webc_error:
                    webc::Error::ResponseFailedNotJson { .. }
                    | webc::Error::ResponseFailedInvalidJson { .. },
                ..
            } => EndpointFailure::Malformed(message),
            genai::Error::WebModelCall { .. } | genai::Error::WebStream { .. } => {
                EndpointFailure::Unreachable(message)
            }
            _ => EndpointFailure::Malformed(message),
        }
    }
}

#[async_trait]
impl ChatModel for RemoteModel {
    fn name(&self) -> &str {
        &self.config.model
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        let (chat, options) = (to_genai(request), to_options(request));
        self.in_all(self.retry_policy().run(|| async {
            let work = self.client.exec_chat(self.target.clone(), chat.clone(), Some(&options));
            self.within(work).await.and_then(from_response)
        }))
        .await
    }

    async fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut (dyn for<'t> FnMut(&'t str) + Send),
    ) -> Result<ChatAnswer, ChatError> {
        self.in_all(self.streamed(request, on_text)).await
    }
}

impl RemoteModel {
    async fn streamed(
        &self,
        request: &ChatRequest,
        on_text: &mut (dyn for<'t> FnMut(&'t str) + Send),
    ) -> Result<ChatAnswer, EndpointFailure> {
        let (chat, options) = (to_genai(request), to_options(request));
        // Only the beginning is retried: text that was handed over cannot be taken back. Genai sends the request when
        // the first event is polled, and yields `Start` before that.
        let (first, mut events, model) = self
            .retry_policy()
            .run(|| {
                let work =
                    self.client.exec_chat_stream(self.target.clone(), chat.clone(), Some(&options));
                self.within(async {
                    let begun = work.await?;
                    let mut events = begun.stream;
                    let first = loop {
                        match events.next().await.transpose()? {
                            Some(ChatStreamEvent::Start) => {}
                            first => break first,
                        }
                    };
                    Ok((first, events, begun.model_iden.model_name.to_string()))
                })
            })
            .await?;
        let mut next = first.map(Ok);
        let mut text = String::new();
        let mut end = None;
        /// Events without text count, too: a stream of them may never end.
        const EACH: usize = 1;
        let mut bytes = 0;
        let limit = self.config.timeout;
        let late = |_| EndpointFailure::Timeout(limit);
        // The limit holds between two events; a long answer may take longer.
        while let Some(event) = match next.take() {
            Some(event) => Some(event),
            None => tokio::time::timeout(limit, events.next()).await.map_err(late)?,
        } {
            let event = event.map_err(|error| self.failure(&error))?;
            bytes += EACH;
            if let ChatStreamEvent::Chunk(chunk) | ChatStreamEvent::ReasoningChunk(chunk) = &event {
                bytes += chunk.content.len();
            }
            if bytes > self.config.max_answer_bytes {
                return Err(EndpointFailure::TooLarge(self.config.max_answer_bytes));
            }
            match event {
                ChatStreamEvent::Chunk(chunk) => {
                    on_text(&chunk.content);
                    text.push_str(&chunk.content);
                }
                ChatStreamEvent::End(found) => end = Some(found),
                _ => {}
            }
        }
        let end = end.ok_or_else(|| {
            EndpointFailure::Unreachable("the answer broke off before its end".to_owned())
        })?;
        Ok(from_stream(text, end, model))
    }
}

fn to_genai(request: &ChatRequest) -> genai::chat::ChatRequest {
    let messages = request.messages.iter().map(|message| match message {
        Message::System { text } => ChatMessage::system(text),
        Message::User { text } => ChatMessage::user(text),
        Message::Assistant { text, tool_calls } if tool_calls.is_empty() => {
            ChatMessage::assistant(text)
        }
        Message::Assistant { text, tool_calls } => {
            let mut parts = Vec::new();
            if !text.is_empty() {
                parts.push(genai::chat::ContentPart::from(text.as_str()));
            }
            parts.extend(tool_calls.iter().map(|call| {
                genai::chat::ContentPart::ToolCall(genai::chat::ToolCall {
                    call_id: call.id.clone(),
                    fn_name: call.name.clone(),
                    fn_arguments: call.arguments.clone(),
                    thought_signatures: None,
                })
            }));
            ChatMessage::assistant(parts)
        }
        Message::Tool { call_id, name, text } => {
            ChatMessage::from(ToolResponse::new(call_id, text).with_fn_name(name))
        }
    });
    let mut chat = genai::chat::ChatRequest::new(messages.collect());
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.iter().map(
            |Tool { name, description, input_schema }| {
                genai::chat::Tool::new(name)
                    .with_description(description)
                    .with_schema(input_schema.clone())
            },
        ));
    }
    chat
}

fn to_options(request: &ChatRequest) -> ChatOptions {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true);
    options.temperature = request.temperature;
    options.max_tokens = request.max_tokens;
    options.seed = request.seed;
    options.stop_sequences.clone_from(&request.stop);
    if let Format::Schema { name, schema } = &request.format {
        options = options.with_response_format(JsonSpec::new(name, schema.clone()));
    }
    options
}

fn from_response(response: ChatResponse) -> Result<ChatAnswer, EndpointFailure> {
    let text = response.texts().concat();
    let finish = finish(response.stop_reason.as_ref());
    let usage = usage(&response.usage);
    let model = response.provider_model_iden.model_name.to_string();
    let tool_calls: Vec<_> = response.into_tool_calls().into_iter().map(tool_call).collect();
    if text.is_empty() && tool_calls.is_empty() && finish == Finish::Other(String::new()) {
        return Err(EndpointFailure::Malformed("it holds neither text nor tool calls".to_owned()));
    }
    Ok(ChatAnswer { text, tool_calls, finish, usage, model })
}

fn from_stream(text: String, end: StreamEnd, model: String) -> ChatAnswer {
    let finish = finish(end.captured_stop_reason.as_ref());
    let usage = end.captured_usage.as_ref().map(usage).unwrap_or_default();
    let tool_calls = end.captured_into_tool_calls().unwrap_or_default();
    let tool_calls = tool_calls.into_iter().map(tool_call).collect();
    ChatAnswer { text, tool_calls, finish, usage, model }
}

fn tool_call(call: genai::chat::ToolCall) -> ToolCall {
    ToolCall { id: call.call_id, name: call.fn_name, arguments: call.fn_arguments }
}

fn finish(reason: Option<&StopReason>) -> Finish {
    match reason {
        Some(StopReason::Completed(_) | StopReason::StopSequence(_)) => Finish::Stop,
        Some(StopReason::MaxTokens(_)) => Finish::Length,
        Some(StopReason::ToolCall(_)) => Finish::ToolCalls,
        Some(StopReason::ContentFilter(_)) => Finish::Filtered,
        Some(StopReason::Other(reason)) => Finish::Other(reason.clone()),
        None => Finish::Other(String::new()),
    }
}

fn usage(usage: &genai::chat::Usage) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
    Usage {
        input_tokens: count(usage.prompt_tokens),
        output_tokens: count(usage.completion_tokens),
    }
}

/// Returns the body of the answer that an error is about, if there is one.
fn body_of(error: &genai::Error) -> Option<&str> {
    match error {
        genai::Error::HttpError { body, .. } => Some(body),
        genai::Error::WebModelCall {
            webc_error: webc::Error::ResponseFailedStatus { body, .. },
            ..
        } => Some(body),
        _ => None,
    }
}

/// Returns the innermost cause of an error; the outer ones repeat it.
fn innermost_cause(error: &genai::Error) -> String {
    let causes =
        std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.last().map(ToString::to_string).unwrap_or_default()
}
