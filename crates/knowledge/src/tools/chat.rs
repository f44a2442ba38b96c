//! Chat.

use std::sync::Arc;

use marquetry_protocol::{
    server::{Json, RequestContext, ToolOutput, Toolbox},
    types::{CallToolResult, Content},
};
use serde_json::{Value, json};

use super::{CHAT, KnowledgeTools, answer::failed};
use crate::{
    chat::{ChatArguments, ChatReply},
    failure::Failure,
};

/// The answer of a model, or a failure.
struct ChatOutput(Result<ChatReply, Failure>);

impl ToolOutput for ChatOutput {
    fn output_schema() -> Option<Value> {
        Json::<ChatReply>::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        let reply = match self.0 {
            Ok(reply) => reply,
            Err(failure) => return failed(&failure),
        };
        // The answer, and how to continue, for models that see no structured content.
        let go_on =
            format!("(To go on with this chat: chatRequestUri = {})", reply.chat_request_uri);
        let meta = json!({"marquetry/chat": reply.counts});
        CallToolResult {
            content: vec![Content::text(reply.answer.as_str()), Content::text(go_on)],
            meta: meta.as_object().cloned(),
            ..Json(reply).into_result()
        }
    }
}

impl KnowledgeTools {
    /// Adds [`CHAT`] to a toolbox.
    #[must_use]
    pub fn add_chat(&self, toolbox: Toolbox) -> Toolbox {
        self.add(toolbox, (CHAT, DESCRIPTION), |tools, arguments, cx| async move {
            ChatOutput(tools.chat(arguments, &cx).await)
        })
    }

    async fn chat(
        &self,
        arguments: ChatArguments,
        cx: &RequestContext,
    ) -> Result<ChatReply, Failure> {
        self.chat.check_is_on()?;
        let access = self.open(cx).await?;
        Arc::clone(&self.chat).say(&access, arguments, Some(cx)).await
    }
}

const DESCRIPTION: &str = "Sends a message to the configured model, cites to it what dataReferences and tags name, and keeps the chat.";
