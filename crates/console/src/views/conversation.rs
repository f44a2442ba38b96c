//! Messages and contexts that Views send to the conversations of viewers.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use marquetry_apps_ext::host::{ModelContext, UserMessage};
use marquetry_protocol::types::Content;
use serde_json::{Value, json};

/// Messages and contexts that Views sent for the conversations of viewers. A context goes to the
/// model with the next message.
#[derive(Default)]
pub(super) struct Conversation {
    /// The number of the last [`ModelInput`].
    last: AtomicU64,
    viewers: Mutex<Vec<ViewerItems>>,
}

#[derive(Default)]
struct ViewerItems {
    owner: Option<String>,
    messages: Vec<Message>,
    contexts: Vec<Context>,
    /// Items that no model has received yet, in order. A context stays here even after a console
    /// message has included it, since the console has no model.
    model_input: Vec<ModelInput>,
}

/// A context or message of a View that goes to the model with the user's next message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelInput {
    /// Unique number. A later item of the same View has another number.
    pub number: u64,
    /// The tool whose View it is.
    pub tool: String,
    /// The View whose context it is; none for a message.
    view: Option<String>,
    /// The text for the model.
    pub text: String,
}

impl ModelInput {
    /// Returns whether it is a message that the user has agreed to send; otherwise it is a context.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.view.is_none()
    }
}

struct Message {
    shown: Value,
    /// Its length as JSON.
    bytes: usize,
}

struct Context {
    view: String,
    tool: String,
    context: ModelContext,
    /// Its length as JSON.
    bytes: usize,
}

/// Maximum number of stored messages of one viewer; older ones are removed.
const MAX_MESSAGES: usize = 200;
/// Maximum size of a message for a model, in bytes; a longer one is cut.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Maximum number of stored contexts of one viewer; older ones are removed.
const MAX_CONTEXTS: usize = 32;
/// Maximum size, in bytes, of each of these for one viewer: messages, contexts, and items that wait
/// for a model. The newest item is kept whatever its size.
const MAX_BYTES: usize = 1 << 20;
/// Maximum number of viewers with stored items.
const MAX_VIEWERS: usize = 256;

impl Conversation {
    /// Replaces the context that a View gives the model with the next message. `None` removes it.
    pub(super) fn set_context(
        &self,
        owner: Option<&str>,
        view: &str,
        tool: &str,
        context: Option<ModelContext>,
    ) {
        let mut viewers = self.viewers();
        let viewer = of(&mut viewers, owner);
        viewer.forget_context(view);
        if let Some(context) = &context {
            viewer.add_model_input(ModelInput {
                number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
                tool: tool.to_owned(),
                view: Some(view.to_owned()),
                text: text_of_context(context),
            });
        }
        if let Some(context) = context {
            let bytes = json!(context).to_string().len();
            let view = view.to_owned();
            let tool = tool.to_owned();
            viewer.contexts.push(Context { view, tool, context, bytes });
            keep_newest(&mut viewer.contexts, MAX_CONTEXTS, |it| it.bytes);
        }
    }

    /// Removes the context that a View has set.
    pub(super) fn forget_context(&self, owner: Option<&str>, view: &str) {
        let mut viewers = self.viewers();
        if let Some(viewer) = viewers.iter_mut().find(|it| it.owner.as_deref() == owner) {
            viewer.forget_context(view);
        }
    }

    /// Adds a message of the user with all pending contexts, which are then no longer pending.
    pub(super) fn add_message(&self, owner: Option<&str>, tool: &str, message: &UserMessage) {
        let mut viewers = self.viewers();
        let viewer = of(&mut viewers, owner);
        let mut text = text_of(&message.content);
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES));
        viewer.add_model_input(ModelInput {
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            tool: tool.to_owned(),
            view: None,
            text,
        });
        let contexts = std::mem::take(&mut viewer.contexts);
        let contexts: Vec<_> = contexts.iter().map(Context::shown).collect();
        let content = &message.content;
        let shown =
            json!({ "role": "user", "from": tool, "content": content, "context": contexts });
        let bytes = shown.to_string().len();
        viewer.messages.push(Message { shown, bytes });
        keep_newest(&mut viewer.messages, MAX_MESSAGES, |it| it.bytes);
    }

    /// The messages of a viewer, and the contexts that wait for the next one.
    pub(super) fn show(&self, owner: Option<&str>) -> Value {
        let viewers = self.viewers();
        let Some(viewer) = viewers.iter().find(|it| it.owner.as_deref() == owner) else {
            return json!({ "messages": [], "context": [] });
        };
        let contexts: Vec<_> = viewer.contexts.iter().map(Context::shown).collect();
        let messages: Vec<_> = viewer.messages.iter().map(|it| &it.shown).collect();
        json!({ "messages": messages, "context": contexts })
    }

    /// Returns the input that no model has received yet, oldest first.
    pub(super) fn model_input(&self, owner: Option<&str>) -> Vec<ModelInput> {
        let viewers = self.viewers();
        let viewer = viewers.iter().find(|it| it.owner.as_deref() == owner);
        viewer.map(|viewer| viewer.model_input.clone()).unwrap_or_default()
    }

    /// Records that a model has received the items with these numbers.
    pub(super) fn mark_delivered(&self, owner: Option<&str>, numbers: &[u64]) {
        let mut viewers = self.viewers();
        let Some(viewer) = viewers.iter_mut().find(|it| it.owner.as_deref() == owner) else {
            return;
        };
        let done: Vec<_> =
            viewer.model_input.extract_if(.., |it| numbers.contains(&it.number)).collect();
        viewer
            .contexts
            .retain(|context| !done.iter().any(|it| it.view.as_ref() == Some(&context.view)));
    }

    fn viewers(&self) -> MutexGuard<'_, Vec<ViewerItems>> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ViewerItems {
    fn forget_context(&mut self, view: &str) {
        self.contexts.retain(|it| it.view != view);
        self.model_input.retain(|it| it.view.as_deref() != Some(view));
    }

    fn add_model_input(&mut self, item: ModelInput) {
        self.model_input.push(item);
        keep_newest(&mut self.model_input, MAX_CONTEXTS, |it| it.text.len());
    }
}

/// Removes the oldest items, so that at most `max_items` with at most [`MAX_BYTES`] together are
/// left. The newest item always stays.
fn keep_newest<T>(items: &mut Vec<T>, max_items: usize, bytes: impl Fn(&T) -> usize) {
    let mut total = 0;
    let fitting = items.iter().rev().take(max_items).take_while(|item| {
        total += bytes(item);
        total <= MAX_BYTES
    });
    let kept = fitting.count().max(1).min(items.len());
    items.drain(..items.len() - kept);
}

/// The text of a context: content, then data as JSON.
fn text_of_context(context: &ModelContext) -> String {
    let mut text = text_of(&context.content);
    if let Some(data) = &context.structured_content {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &json!(data).to_string();
    }
    text
}

/// Returns the text of content items. Items that are not text are represented by their type.
fn text_of(content: &[Content]) -> String {
    let texts = content.iter().map(|item| {
        let item = json!(item);
        let text = item["text"].as_str().or_else(|| item["resource"]["text"].as_str());
        text.map_or_else(
            || format!("[{}]", item["type"].as_str().unwrap_or("content")),
            str::to_owned,
        )
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Context {
    fn shown(&self) -> Value {
        json!({ "from": self.tool, "context": self.context })
    }
}

fn of<'a>(viewers: &'a mut Vec<ViewerItems>, owner: Option<&str>) -> &'a mut ViewerItems {
    let index = viewers.iter().position(|it| it.owner.as_deref() == owner).unwrap_or_else(|| {
        if viewers.len() == MAX_VIEWERS {
            viewers.remove(0);
        }
        viewers.push(ViewerItems { owner: owner.map(ToOwned::to_owned), ..ViewerItems::default() });
        viewers.len() - 1
    });
    &mut viewers[index]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_context(text: &str) -> Option<ModelContext> {
        let mut context = ModelContext::default();
        context.content = vec![marquetry_protocol::types::Content::text(text)];
        Some(context)
    }

    fn message(content: Value) -> UserMessage {
        UserMessage::new(serde_json::from_value(content).unwrap())
    }

    #[test]
    fn the_last_context_of_each_view_goes_with_the_next_message() {
        let conversation = Conversation::default();
        conversation.set_context(None, "v1", "t", text_context("old"));
        conversation.set_context(None, "v1", "t", text_context("new"));
        conversation.set_context(None, "v2", "u", text_context("other"));
        conversation.set_context(None, "v2", "u", None);
        conversation.set_context(Some("somebody"), "v3", "t", text_context("secret"));
        conversation.add_message(None, "t", &message(json!([{ "type": "text", "text": "hi" }])));
        let shown = conversation.show(None);
        assert_eq!(shown["context"], json!([]));
        let context = &shown["messages"][0]["context"];
        assert_eq!(context.as_array().unwrap().len(), 1);
        assert_eq!(context[0]["context"]["content"][0]["text"], "new");
        assert_eq!(conversation.show(Some("nobody"))["messages"], json!([]));
        assert_eq!(conversation.show(Some("somebody"))["context"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_model_gets_contexts_and_messages_once() {
        let conversation = Conversation::default();
        fn texts(conversation: &Conversation, owner: Option<&str>) -> Vec<(bool, String)> {
            conversation
                .model_input(owner)
                .into_iter()
                .map(|it| (it.is_message(), it.text))
                .collect()
        }
        conversation.set_context(Some("anna"), "v1", "t", text_context("old"));
        conversation.set_context(Some("anna"), "v1", "t", text_context("new"));
        conversation.set_context(Some("anna"), "v2", "t", text_context("gone"));
        conversation.set_context(Some("anna"), "v2", "t", None);
        let content =
            json!([{"type": "text", "text": "hi"}, {"type": "image", "data": "", "mimeType": "a"}]);
        conversation.add_message(Some("anna"), "t", &message(content));
        assert_eq!(texts(&conversation, None), []);
        assert_eq!(texts(&conversation, Some("bert")), []);
        let all = [(false, "new".to_owned()), (true, "hi\n[image]".to_owned())];
        assert_eq!(texts(&conversation, Some("anna")), all);
        let numbers: Vec<_> =
            conversation.model_input(Some("anna")).iter().map(|it| it.number).collect();
        // A context that came while the model answered has not been delivered.
        conversation.set_context(Some("anna"), "v1", "t", text_context("newer"));
        conversation.mark_delivered(Some("bert"), &numbers);
        conversation.mark_delivered(Some("anna"), &numbers);
        assert_eq!(texts(&conversation, Some("anna")), [(false, "newer".to_owned())]);
        assert_eq!(conversation.show(Some("anna"))["context"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn data_of_a_context_is_json() {
        let mut context = text_context("city").unwrap();
        context.structured_content = json!({"name": "Rome"}).as_object().cloned();
        assert_eq!(text_of_context(&context), "city\n{\"name\":\"Rome\"}");
    }

    #[test]
    fn messages_and_contexts_are_bounded() {
        let conversation = Conversation::default();
        for number in 0..500 {
            conversation.set_context(None, &number.to_string(), "t", text_context("x"));
            conversation.add_message(Some("a"), "t", &message(json!([])));
        }
        assert_eq!(conversation.show(None)["context"].as_array().unwrap().len(), MAX_CONTEXTS);
        assert_eq!(
            conversation.show(Some("a"))["messages"].as_array().unwrap().len(),
            MAX_MESSAGES
        );
        let long = "x".repeat(MAX_BYTES / 3);
        for number in 0..9 {
            conversation.set_context(Some("b"), &number.to_string(), "t", text_context(&long));
        }
        assert_eq!(conversation.show(Some("b"))["context"].as_array().unwrap().len(), 2);
        assert_eq!(conversation.model_input(Some("b")).len(), 3);
        let longest = json!([{"type": "text", "text": "x".repeat(MAX_BYTES)}]);
        for _ in 0..3 {
            conversation.add_message(Some("b"), "t", &message(longest.clone()));
        }
        assert_eq!(conversation.show(Some("b"))["messages"].as_array().unwrap().len(), 1);
    }
}
