//! The tool `am7_chat`.

use std::{convert::Infallible, sync::Arc};

use marquetry_knowledge::{Failure, KnowledgeService};
use marquetry_protocol::{
    server::{Json, RequestContext, ToolOutput, Toolbox},
    types::{CallToolResult, Content},
};
use serde_json::{Value, json};

use crate::chat::{Chat, ChatArguments, ChatReply};

/// Tool: sends a message to a model; seed 003, part 14.
pub const CHAT_TOOL: &str = "am7_chat";

/// The tool [`CHAT_TOOL`] over one service and its chats.
#[derive(Clone)]
pub struct ChatTool {
    service: Arc<KnowledgeService>,
    chat: Arc<Chat>,
}

impl ChatTool {
    /// Creates the tool for a service and its chats.
    #[must_use]
    pub fn new(service: Arc<KnowledgeService>, chat: Arc<Chat>) -> Self {
        Self { service, chat }
    }

    /// Adds the tool to a toolbox.
    #[must_use]
    pub fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let tool = self.clone();
        toolbox.tool(CHAT_TOOL, DESCRIPTION, move |arguments: ChatArguments, cx| {
            let tool = tool.clone();
            async move { Ok::<_, Infallible>(ChatOutput(tool.call(arguments, &cx).await)) }
        })
    }

    /// Returns title and annotations (hints) of the tool, for lists.
    #[must_use]
    pub fn listing() -> (&'static str, Value) {
        // The model may be remote.
        let hints = json!({
            "readOnlyHint": false,
            "destructiveHint": false,
            "idempotentHint": false,
            "openWorldHint": true,
        });
        ("Chat with a model", hints)
    }

    async fn call(
        &self,
        arguments: ChatArguments,
        cx: &RequestContext,
    ) -> Result<ChatReply, Failure> {
        self.chat.check_is_on()?;
        let access = self.service.open(cx).await?;
        Arc::clone(&self.chat).say(&access, arguments, Some(cx)).await
    }
}

/// The answer of a model, or a failure.
struct ChatOutput(Result<ChatReply, Failure>);

impl ToolOutput for ChatOutput {
    fn output_schema() -> Option<Value> {
        Json::<ChatReply>::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        let reply = match self.0 {
            Ok(reply) => reply,
            Err(failure) => return failure.into(),
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

const DESCRIPTION: &str = "Sends a message to the configured model with passages of dataReferences and tags, and stores the chat.";
