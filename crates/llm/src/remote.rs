//! Models of providers, by way of genai.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt;
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

use crate::{
    ChatAnswer, ChatError, ChatModel, ChatRequest, Finish, Format, Message, ModelConfig, Provider,
    Tool, ToolCall, Usage, retry,
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
    /// Makes a model ready. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`ChatError::Config`] if a key, a base URL or the model's name is missing or cannot be right.
    pub fn new(config: ModelConfig) -> Result<Self, ChatError> {
        let refused = |why: String| Err(ChatError::Config(why));
        if config.model.trim().is_empty() {
            return refused("it has no name".to_owned());
        }
        if config.provider.needs_key() && config.api_key.is_none() {
            return refused(format!("{:?} wants a key", config.provider));
        }
        let Some(base) = config.base_url.as_deref().or(config.provider.default_base_url()) else {
            return refused("a custom provider needs a base URL".to_owned());
        };
        let url = reqwest::Url::parse(base)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            return refused("the base URL is no http: or https: URL".to_owned());
        };
        // What stands there would be shown in errors.
        if !url.username().is_empty() || url.password().is_some() {
            return refused(
                "the base URL holds a user or a password; a key has its own place".to_owned(),
            );
        }
        let kind = match config.provider {
            Provider::Anthropic => AdapterKind::Anthropic,
            Provider::OpenAi | Provider::Ollama | Provider::Custom => AdapterKind::OpenAI,
        };
        // Without a key a server that wants none is sent a word that is not empty, which some of them insist on.
        let key = config.api_key.as_ref().map_or("none", |key| key.expose());
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(format!("{}/", base.trim_end_matches('/'))),
            auth: AuthData::from_single(key),
            model: ModelIden::new(kind, config.model.as_str()),
        };
        let client = Client::builder()
            .with_reqwest(http_client(&url)?)
            .build()
            .map_err(|error| ChatError::Config(error.to_string()))?;
        Ok(Self { client, target, config })
    }

    /// One attempt, in its time.
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, genai::Error>>,
    ) -> Result<T, ChatError> {
        let limit = self.config.timeout;
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome.map_err(|error| self.explain(&error)),
            Err(_) => Err(ChatError::Timeout(limit)),
        }
    }

    /// All attempts, in their time.
    async fn in_all<T>(
        &self,
        work: impl Future<Output = Result<T, ChatError>> + Send,
    ) -> Result<T, ChatError> {
        let limit = self.config.answer_timeout;
        tokio::time::timeout(limit, work).await.unwrap_or(Err(ChatError::Timeout(limit)))
    }

    fn explain(&self, error: &genai::Error) -> ChatError {
        // What a stream begins with in the place of events.
        let error = match error {
            genai::Error::WebStream { error: inner, .. } => {
                inner.downcast_ref::<genai::Error>().unwrap_or(error)
            }
            _ => error,
        };
        let message = self.without_key(shortened(&message_of(error)));
        let Some(status) = error.status().map(|status| status.as_u16()) else {
            return match error {
                genai::Error::WebModelCall {
                    webc_error:
                        webc::Error::ResponseFailedNotJson { .. }
                        | webc::Error::ResponseFailedInvalidJson { .. },
                    ..
                } => ChatError::Malformed(message),
                genai::Error::WebModelCall { .. } | genai::Error::WebStream { .. } => {
                    ChatError::Connection(message)
                }
                _ => ChatError::Malformed(message),
            };
        };
        let retry_after = error.headers().and_then(retry::wanted_wait);
        match status {
            401 | 403 => ChatError::Unauthorized { status, message },
            429 => ChatError::RateLimited { retry_after, message },
            // 408 and 409 are what OpenAI's own clients send again.
            408 | 409 | 500.. => ChatError::Failed { status, retry_after, message },
            _ => ChatError::Refused { status, message },
        }
    }

    /// A provider that repeats the key in its error must not make us do the same.
    fn without_key(&self, text: String) -> String {
        match &self.config.api_key {
            Some(key) if !key.expose().is_empty() => text.replace(key.expose(), "…"),
            _ => text,
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
        self.in_all(retry::retried(&self.config, || async {
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
    ) -> Result<ChatAnswer, ChatError> {
        let (chat, options) = (to_genai(request), to_options(request));
        // Only the beginning is tried again: what was handed over cannot be taken back.
        // The request is sent when the first event is asked for; the one that says so comes before that.
        let (first, mut events, model) = retry::retried(&self.config, || {
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
        /// What an event counts for that has no text: there may be no end of them either.
        const EACH: usize = 1;
        let mut bytes = 0;
        let limit = self.config.timeout;
        let late = |_| ChatError::Timeout(limit);
        // The limit holds between two events; a long answer may take longer than that.
        while let Some(event) = match next.take() {
            Some(event) => Some(event),
            None => tokio::time::timeout(limit, events.next()).await.map_err(late)?,
        } {
            let event = event.map_err(|error| self.explain(&error))?;
            bytes += EACH;
            if let ChatStreamEvent::Chunk(chunk) | ChatStreamEvent::ReasoningChunk(chunk) = &event {
                bytes += chunk.content.len();
            }
            if bytes > self.config.max_answer_bytes {
                return Err(ChatError::TooLong(self.config.max_answer_bytes));
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
            ChatError::Connection("the answer broke off before its end".to_owned())
        })?;
        Ok(from_stream(text, end, model))
    }
}

/// An HTTP client with the TLS that the rest of Marquetry uses: ring, and Mozilla's roots rather than the system's.
fn http_client(base: &reqwest::Url) -> Result<reqwest::Client, ChatError> {
    let failed = |error: &dyn std::fmt::Display| ChatError::Config(error.to_string());
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .map_err(|error| failed(&error))?
    .with_root_certificates(roots)
    .with_no_client_auth();
    let mut client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(Duration::from_secs(10))
        // A key must not follow a redirect.
        .redirect(reqwest::redirect::Policy::none());
    if is_loopback(base) {
        // What is meant for this machine does not leave it.
        client = client.no_proxy();
    }
    client.build().map_err(|error| failed(&error))
}

/// Whether a URL stays on this machine.
fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
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

fn from_response(response: ChatResponse) -> Result<ChatAnswer, ChatError> {
    let text = response.texts().concat();
    let finish = finish(response.stop_reason.as_ref());
    let usage = usage(&response.usage);
    let model = response.provider_model_iden.model_name.to_string();
    let tool_calls: Vec<_> = response.into_tool_calls().into_iter().map(tool_call).collect();
    if text.is_empty() && tool_calls.is_empty() && finish == Finish::Other(String::new()) {
        return Err(ChatError::Malformed("it holds neither text nor tool calls".to_owned()));
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

/// What an error says in the end: the message in the provider's JSON, else its body, else the last cause.
fn message_of(error: &genai::Error) -> String {
    let body = match error {
        genai::Error::HttpError { body, .. } => Some(body.clone()),
        genai::Error::WebModelCall {
            webc_error: webc::Error::ResponseFailedStatus { body, .. },
            ..
        } => Some(body.clone()),
        _ => None,
    };
    let Some(body) = body else {
        let causes =
            std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        return causes.last().map(ToString::to_string).unwrap_or_default();
    };
    let message = serde_json::from_str::<serde_json::Value>(&body).ok().and_then(|body| {
        let error = body.get("error").unwrap_or(&body);
        error.get("message").unwrap_or(error).as_str().map(str::to_owned)
    });
    message.unwrap_or(body)
}

/// Enough of a message to know what is meant, without what would change how the rest of a line looks: control
/// characters, and the marks that change the direction of writing.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 500;
    let is_direction = |one| matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_shown = |one: &char| one.is_whitespace() || !(one.is_control() || is_direction(*one));
    // The rest of a long one is not looked at.
    let text: String = text.chars().take(16 * LONGEST).filter(is_shown).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return "it does not say why".to_owned();
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
