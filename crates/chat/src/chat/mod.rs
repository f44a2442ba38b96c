//! Chat: sends a message with citations to a model, and stores the conversation as a record.

mod answer;
mod arguments;
mod history;
mod images;
mod keyframe;
mod listener;
mod listing;
mod model;
mod narrative;
mod prompt;
mod sampling;
mod setting;
#[cfg(test)]
mod tests;
mod turn_context;
mod vectors;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use marquetry_knowledge::{
    Access, ErrorCode, Failure,
    config::{ChatConfig, InvalidSetting, LegacyTokens, Variables},
    kinds::CHAT,
};
use marquetry_llm::{ChatAnswer, ChatModel, ChatRequest, Finish, Message};
use marquetry_protocol::server::RequestContext;
use marquetry_rag::{Citations, NewRecord, Record, RecordError, RecordPatch, records};
use serde_json::Value;

pub use self::{
    arguments::{ChatArguments, ChatReply, Counts},
    listener::AnswerListener,
    listing::{ChatList, ChatSummary, Conversation, chats, conversation},
    sampling::{CREATE_MESSAGE, SamplingPart, SamplingStream},
    turn_context::{TurnContext, TurnItem},
};
use self::{
    history::{History, StoredMessage},
    images::Images,
    listener::Progress,
    model::Models,
    setting::typed,
    vectors::Parts,
};
use crate::context::{self, Owner};

/// Interval between parts of a streamed answer.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Chats with a model, stored as records.
pub struct Chat {
    config: ChatConfig,
    models: Models,
    /// URIs of the chats with a message being answered.
    busy: Mutex<BTreeSet<String>>,
    /// Contexts and messages of Views for the model.
    turn_context: Option<Arc<dyn TurnContext>>,
}

/// Locks a chat: no other message is answered in it while this lives.
struct Turn<'a> {
    busy: &'a Mutex<BTreeSet<String>>,
    uri: String,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(self.busy).remove(&self.uri);
    }
}

/// An answer of the model.
struct ModelAnswer {
    answer: ChatAnswer,
    /// Why it ended.
    finish: String,
    /// The part that is shown and stored.
    text: String,
    reasoning: Option<String>,
}

impl Chat {
    /// Creates chats with the configured model. Without a model, every message fails. `variables`
    /// looks up the variable that `api_key_env` names.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is missing or wrong, or if the variable is not set.
    pub fn new(config: ChatConfig, variables: Variables<'_>) -> Result<Self, InvalidSetting> {
        let models = Models::new(config.usable_model(variables)?);
        Ok(Self { config, models, busy: Mutex::default(), turn_context: None })
    }

    /// Adds the contexts and messages of Views to each message for the model.
    #[must_use]
    pub fn with_turn_context(self, turn_context: Arc<dyn TurnContext>) -> Self {
        Self { turn_context: Some(turn_context), ..self }
    }

    /// Returns the maximum length of all blocks of one message together, in bytes.
    #[must_use]
    pub fn max_context_bytes(&self) -> usize {
        self.config.max_context_bytes.get()
    }

    /// Checks that a chat model is configured.
    ///
    /// # Errors
    ///
    /// Returns an error if no model is configured.
    pub fn check_is_on(&self) -> Result<(), Failure> {
        self.models.get(None).map(|_| ())
    }

    /// Sends a message in a chat and returns the model's answer.
    ///
    /// The message is stored before the model is called. If the call fails, the message is marked
    /// as unanswered and not sent again.
    ///
    /// # Errors
    ///
    /// Returns an error if no model is configured, if an argument is invalid, or if the model
    /// fails.
    pub async fn say(
        &self,
        access: &Access,
        arguments: ChatArguments,
        cx: Option<&RequestContext>,
    ) -> Result<ChatReply, Failure> {
        let principal = cx.and_then(|cx| cx.principal()).map(|principal| principal.id());
        let progress = cx.filter(|cx| cx.wants_progress()).map(Progress);
        let listener = progress.as_ref().map(|progress| progress as &dyn AnswerListener);
        self.say_for(access, arguments, principal.as_deref(), listener).await
    }

    /// Sends a message as [`Self::say`] does, outside of a request of MCP. `principal` is the id of
    /// the principal whose Views have context for the model.
    ///
    /// # Errors
    ///
    /// Returns an error if no model is configured, if an argument is invalid, or if the model
    /// fails.
    pub async fn say_for(
        &self,
        access: &Access,
        arguments: ChatArguments,
        principal: Option<&str>,
        listener: Option<&dyn AnswerListener>,
    ) -> Result<ChatReply, Failure> {
        self.check_is_on()?;
        if arguments.message.trim().is_empty() {
            return Err(Failure::invalid("message is empty"));
        }
        let max = self.config.max_message_bytes.get();
        if arguments.message.len() > max {
            let bytes = arguments.message.len();
            let message = format!(
                "message has {bytes} bytes, more than knowledge.chat.max_message_bytes ({max})"
            );
            return Err(Failure::new(ErrorCode::LimitExceeded, message));
        }
        let begun = match &arguments.chat_request_uri {
            Some(uri) => {
                let chat = typed(access, uri, CHAT, "chatRequestUri").await?;
                let (_, turn) = self.begin_turn(chat)?;
                // The previous turn may have ended meanwhile, and its answer must be sent, too.
                Some((typed(access, &turn.uri, CHAT, "chatRequestUri").await?, turn))
            }
            None => None,
        };
        let chat_id = begun.as_ref().map(|(chat, _)| chat.object_id.as_str());
        let now = access.knowledge.records.now();
        // Before a chat is created, so that an invalid item leaves none behind.
        self.check_context(access, &arguments, chat_id, now)?;
        let setting =
            self.setting(access, &arguments, begun.as_ref().map(|(chat, _)| chat)).await?;
        let (chat, turn) = match begun {
            Some(begun) => begun,
            None => self.begin_turn(create(access, &arguments.message, &setting.parts).await?)?,
        };
        // Again, since the URIs of its blocks name the chat.
        let given = self.check_context(access, &arguments, Some(&chat.object_id), now)?;
        let mut prompt = self.prompt(access, &arguments, given, &chat, &setting, principal).await?;
        // Changes begin here.
        let mut said = StoredMessage::by_user(arguments.message);
        said.context = std::mem::take(&mut prompt.sent);
        let parts = setting.parts.clone();
        self.append(access, &turn.uri, &parts, said.clone(), None).await?;
        if let Some(listener) = listener {
            listener.stored(&turn.uri).await;
        }
        let answered =
            self.ask(setting.model.as_ref(), &prompt.request, listener).await.map_err(|failure| {
                Failure {
                    message: format!(
                        "{}. Your message is stored in {}; send it there again to retry",
                        failure.message, turn.uri
                    ),
                    ..failure
                }
            });
        let ModelAnswer { answer, finish, mut text, reasoning } = match answered {
            Ok(answered) => answered,
            Err(failure) => {
                let why = failure.message.clone();
                if let Err(error) = self.mark_failed(access, &turn.uri, &said, &why).await {
                    tracing::warn!(chat = turn.uri, %error, "unanswered message is not marked as such");
                }
                return Err(failure);
            }
        };
        if let Some(context) = &self.turn_context {
            context.delivered(principal, &prompt.view_numbers);
        }
        let mut problems = prompt.problems;
        if self.config.legacy_tokens == LegacyTokens::Upgrade {
            let upgraded = marquetry_context_blocks::upgrade(&text).into_owned();
            // The answer is complete: it is stored even if its pictures cannot be looked up.
            text = match Images::new(access).resolve(&upgraded, &mut problems).await {
                Ok(resolved) => resolved.into_owned(),
                Err(failure) => {
                    problems.push(format!("pictures of the answer stay pending: {failure}"));
                    upgraded
                }
            };
        }
        let name =
            if answer.model.is_empty() { setting.model.name().to_owned() } else { answer.model };
        let reply = StoredMessage::by_model(text.clone(), &name);
        let kept = self.append(access, &turn.uri, &parts, said, Some(reply)).await?;
        if let Some(listener) = listener {
            listener.answer_stored().await;
        }
        let history = History::read(&kept.attributes);
        if let Err(failure) =
            vectors::store(&access.knowledge, &kept, &history, &setting.speakers, &parts).await
        {
            problems.push(format!("the chat is kept, but not found by a search: {failure}"));
        }
        let keyframe = if self.is_keyframe_due(&history) {
            let mut conversation = prompt.conversation;
            conversation.push(Message::assistant(text.as_str()));
            let max = self.config.max_context_bytes.get() / 4;
            let model = setting.model.as_ref();
            match keyframe::write(access, &kept, model, conversation, max).await {
                Ok(uri) => Some(uri),
                Err(failure) => {
                    problems.push(format!("no keyframe is written: {failure}"));
                    None
                }
            }
        } else {
            None
        };
        Ok(ChatReply {
            answer: text,
            chat_request_uri: turn.uri.clone(),
            model: name,
            finish,
            cited: cited(&prompt.citations),
            problems,
            left_out: prompt.left_out,
            keyframe,
            blocks: prompt.blocks,
            reasoning,
            counts: Counts {
                input_tokens: answer.usage.input_tokens,
                output_tokens: answer.usage.output_tokens,
                passages: prompt.citations.passages(),
                passages_omitted: prompt.citations.omitted,
                history_sent: prompt.history_sent,
                history_left_out: prompt.history_left_out,
                history_dropped: history.dropped,
                view_contexts: prompt.view_contexts,
            },
        })
    }

    /// Checks the context of a call at a time; `chat` is the object id of the chat that it
    /// continues.
    fn check_context(
        &self,
        access: &Access,
        arguments: &ChatArguments,
        chat: Option<&str>,
        now: u64,
    ) -> Result<Vec<context::Entry>, Failure> {
        let items = arguments.context.as_deref().unwrap_or_default();
        context::check_items(items, &Owner::new(&access.caller, chat), now)
    }

    fn is_keyframe_due(&self, history: &History) -> bool {
        let every = u64::from(self.config.keyframe_every);
        every > 0 && history.answers().is_multiple_of(every)
    }

    /// Locks the chat: two answers at the same time would not know of each other.
    fn begin_turn(&self, chat: Record) -> Result<(Record, Turn<'_>), Failure> {
        let uri = chat.uri().unwrap_or_default();
        if !lock(&self.busy).insert(uri.clone()) {
            let message = format!(
                "{uri} is still being answered; wait for that answer, or begin another chat"
            );
            return Err(Failure::new(ErrorCode::Conflict, message));
        }
        Ok((chat, Turn { busy: &self.busy, uri }))
    }

    /// Returns the model's answer, why it ended, and the part that is shown and stored.
    async fn ask(
        &self,
        model: &dyn ChatModel,
        request: &ChatRequest,
        listener: Option<&dyn AnswerListener>,
    ) -> Result<ModelAnswer, Failure> {
        let answer = match listener {
            Some(listener) => {
                stream_answer(model, request, listener, self.config.max_answer_bytes.get()).await
            }
            None => model.chat(request).await,
        };
        let answer = answer.map_err(model::failure)?;
        let mut text = answer::without_blocks(&answer.text);
        if text.is_empty() {
            return Err(Failure::new(
                ErrorCode::Unavailable,
                "the model gave no answer: its text is empty",
            ));
        }
        let mut finish = match &answer.finish {
            Finish::Other(why) if why.is_empty() => "stop".to_owned(),
            finish => serde_json::to_value(finish)
                .ok()
                .and_then(|finish| match finish {
                    Value::String(name) => Some(name),
                    Value::Object(other) => other.into_values().next()?.as_str().map(str::to_owned),
                    _ => None,
                })
                .unwrap_or_default(),
        };
        let max = self.config.max_answer_bytes.get();
        if text.len() > max {
            text.truncate(text.floor_char_boundary(max));
            "length".clone_into(&mut finish);
        }
        let reasoning = answer::reasoning(&answer.text, max);
        Ok(ModelAnswer { answer, finish, text, reasoning })
    }

    /// Stores a message and its answer. Other processes may change the chat at the same time; then
    /// this is repeated on the new state.
    async fn append(
        &self,
        access: &Access,
        uri: &str,
        parts: &Parts,
        said: StoredMessage,
        reply: Option<StoredMessage>,
    ) -> Result<Record, Failure> {
        self.change(
            access,
            uri,
            |history| {
                if let Some(reply) = &reply {
                    // The answer belongs after its message, which may have moved.
                    let index = history.messages.iter().rposition(|one| *one == said);
                    match index {
                        Some(index) => history.messages.insert(index + 1, reply.clone()),
                        None => history.messages.extend([said.clone(), reply.clone()]),
                    }
                } else {
                    history.messages.push(said.clone());
                }
            },
            parts,
        )
        .await
    }

    async fn mark_failed(
        &self,
        access: &Access,
        uri: &str,
        said: &StoredMessage,
        why: &str,
    ) -> Result<(), Failure> {
        self.change(
            access,
            uri,
            |history| {
                if let Some(index) = history.messages.iter().rposition(|one| one == said) {
                    history.messages[index].error = Some(why.to_owned());
                }
            },
            &Parts::default(),
        )
        .await
        .map(|_| ())
    }

    async fn change(
        &self,
        access: &Access,
        uri: &str,
        change: impl Fn(&mut History) + Send + Sync,
        parts: &Parts,
    ) -> Result<Record, Failure> {
        const ATTEMPTS: usize = 8;
        let Access { knowledge, caller, .. } = access;
        for _ in 0..ATTEMPTS {
            let chat = knowledge.records.get(caller, uri).await?;
            let mut history = History::read(&chat.attributes);
            change(&mut history);
            history.trim(self.config.max_kept_messages.get(), self.config.max_kept_bytes.get());
            let mut patch = RecordPatch::new()
                .revision(chat.revision)
                .attribute("messages", history.messages_value())
                .attribute("droppedMessages", history.dropped);
            for (name, uri) in
                [("chatConfig", &parts.chat_config), ("promptConfig", &parts.prompt_config)]
            {
                if let Some(uri) = uri {
                    patch = patch.attribute(name, uri.as_str());
                }
            }
            match knowledge.records.update(caller, uri, patch).await {
                Err(RecordError::Conflict(_)) => {}
                kept => return Ok(kept?),
            }
        }
        let message = format!(
            "{uri} was changed by others during every attempt; the message was not stored; try again"
        );
        Err(Failure::new(ErrorCode::Conflict, message))
    }
}

/// Calls the model and passes on the answer so far, several times a second, up to `max` bytes. Text
/// after that is neither stored nor shown.
async fn stream_answer(
    model: &dyn ChatModel,
    request: &ChatRequest,
    listener: &dyn AnswerListener,
    max: usize,
) -> Result<ChatAnswer, marquetry_llm::ChatError> {
    let received = Mutex::new(String::new());
    let mut push = |text: &str| lock(&received).push_str(text);
    let asking = model.stream(request, &mut push);
    tokio::pin!(asking);
    let mut ticks = tokio::time::interval(TELL_EVERY);
    let mut said = String::new();
    loop {
        tokio::select! {
            answer = &mut asking => return answer,
            _ = ticks.tick() => {
                if said.len() >= max {
                    continue;
                }
                let mut visible = {
                    let received = lock(&received);
                    // Blocks are not shown, so up to twice as many bytes are read.
                    answer::visible_part(&received[..received.floor_char_boundary(2 * max)])
                };
                visible.truncate(visible.floor_char_boundary(max));
                if visible.len() > said.len() && visible.starts_with(&said) {
                    let more = visible[said.len()..].to_owned();
                    listener.answer_extended(&more, visible.len()).await;
                    said = visible;
                }
            }
        }
    }
}

/// Creates a chat, named by the start of its first message.
async fn create(access: &Access, message: &str, parts: &Parts) -> Result<Record, Failure> {
    let mut name = records::name_from(message, 60);
    if name.is_empty() {
        "Chat".clone_into(&mut name);
    }
    let mut new = NewRecord::new(CHAT, name).group("~/Chats");
    for (name, uri) in [("chatConfig", &parts.chat_config), ("promptConfig", &parts.prompt_config)]
    {
        if let Some(uri) = uri {
            new = new.attribute(name, uri.as_str());
        }
    }
    Ok(access.knowledge.records.create(&access.caller, new).await?)
}

/// Returns the URIs of the cited sources, each once.
fn cited(citations: &Citations) -> Vec<String> {
    let passages = citations
        .blocks
        .iter()
        .flat_map(marquetry_rag::CitationBlock::passages)
        .map(|passage| passage.uri.clone());
    let chats = citations.blocks.iter().filter(|block| block.passages().is_empty());
    let all = passages.chain(chats.flat_map(|block| block.references.clone()));
    let mut seen = BTreeSet::new();
    all.filter(|uri| seen.insert(uri.clone())).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
