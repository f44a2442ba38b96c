use std::sync::{Mutex, MutexGuard, PoisonError};

use marquetry_apps_ext::host::ModelContext;
use serde_json::{Value, json};

/// What Views said for the conversations of viewers: messages, and context that goes along with the next message.
#[derive(Default)]
pub(super) struct Conversation {
    viewers: Mutex<Vec<OfViewer>>,
}

#[derive(Default)]
struct OfViewer {
    owner: Option<String>,
    messages: Vec<Value>,
    contexts: Vec<Context>,
}

struct Context {
    view: String,
    tool: String,
    context: ModelContext,
}

/// The newest messages that are kept of one viewer.
const MAX_MESSAGES: usize = 200;
/// The newest contexts that are kept of one viewer.
const MAX_CONTEXTS: usize = 32;
/// The viewers of whom anything is kept.
const MAX_VIEWERS: usize = 1_000;

impl Conversation {
    /// Replaces what the model is told of a View with the next message; nothing clears it.
    pub(super) fn set_context(
        &self,
        owner: Option<&str>,
        view: &str,
        tool: &str,
        context: Option<ModelContext>,
    ) {
        let mut viewers = self.viewers();
        let viewer = of(&mut viewers, owner);
        viewer.contexts.retain(|it| it.view != view);
        if let Some(context) = context {
            if viewer.contexts.len() == MAX_CONTEXTS {
                viewer.contexts.remove(0);
            }
            let (view, tool) = (view.to_owned(), tool.to_owned());
            viewer.contexts.push(Context { view, tool, context });
        }
    }

    /// Adds a message of the user. It takes the contexts along, which are then used up.
    pub(super) fn add_message(&self, owner: Option<&str>, tool: &str, content: &Value) {
        let mut viewers = self.viewers();
        let viewer = of(&mut viewers, owner);
        let contexts = std::mem::take(&mut viewer.contexts);
        let contexts: Vec<_> = contexts.iter().map(Context::shown).collect();
        if viewer.messages.len() == MAX_MESSAGES {
            viewer.messages.remove(0);
        }
        let message =
            json!({ "role": "user", "from": tool, "content": content, "context": contexts });
        viewer.messages.push(message);
    }

    /// The messages of a viewer, and the contexts that wait for the next one.
    pub(super) fn show(&self, owner: Option<&str>) -> Value {
        let viewers = self.viewers();
        let Some(viewer) = viewers.iter().find(|it| it.owner.as_deref() == owner) else {
            return json!({ "messages": [], "context": [] });
        };
        let contexts: Vec<_> = viewer.contexts.iter().map(Context::shown).collect();
        json!({ "messages": viewer.messages, "context": contexts })
    }

    fn viewers(&self) -> MutexGuard<'_, Vec<OfViewer>> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    fn shown(&self) -> Value {
        json!({ "from": self.tool, "context": self.context })
    }
}

fn of<'a>(viewers: &'a mut Vec<OfViewer>, owner: Option<&str>) -> &'a mut OfViewer {
    let place = viewers.iter().position(|it| it.owner.as_deref() == owner).unwrap_or_else(|| {
        if viewers.len() == MAX_VIEWERS {
            viewers.remove(0);
        }
        viewers.push(OfViewer { owner: owner.map(ToOwned::to_owned), ..OfViewer::default() });
        viewers.len() - 1
    });
    &mut viewers[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<ModelContext> {
        let mut context = ModelContext::default();
        context.content = vec![marquetry_protocol::types::Content::text(text)];
        Some(context)
    }

    #[test]
    fn the_last_context_of_each_view_goes_with_the_next_message() {
        let conversation = Conversation::default();
        conversation.set_context(None, "v1", "t", said("old"));
        conversation.set_context(None, "v1", "t", said("new"));
        conversation.set_context(None, "v2", "u", said("other"));
        conversation.set_context(None, "v2", "u", None);
        conversation.set_context(Some("somebody"), "v3", "t", said("secret"));
        conversation.add_message(None, "t", &json!([{ "type": "text", "text": "hi" }]));
        let shown = conversation.show(None);
        assert_eq!(shown["context"], json!([]));
        let context = &shown["messages"][0]["context"];
        assert_eq!(context.as_array().unwrap().len(), 1);
        assert_eq!(context[0]["context"]["content"][0]["text"], "new");
        assert_eq!(conversation.show(Some("nobody"))["messages"], json!([]));
        assert_eq!(conversation.show(Some("somebody"))["context"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let conversation = Conversation::default();
        for number in 0..500 {
            conversation.set_context(None, &number.to_string(), "t", said("x"));
            conversation.add_message(Some("a"), "t", &json!([]));
        }
        assert_eq!(conversation.show(None)["context"].as_array().unwrap().len(), MAX_CONTEXTS);
        assert_eq!(
            conversation.show(Some("a"))["messages"].as_array().unwrap().len(),
            MAX_MESSAGES
        );
    }
}
