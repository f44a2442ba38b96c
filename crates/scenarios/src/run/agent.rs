//! The agent: an MCP client that sends the requests of a scenario and returns the answers
//! unchanged.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use marquetry_protocol::{
    Revision, RpcError,
    client::{
        CallOptions, Client, ClientError, ClientHandler, ClientOptions, RevisionChoice,
        ServerNotification,
    },
    types::{
        CallToolParams, ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction,
        ElicitParams, ElicitResult, ElicitationCapability, Implementation, ListRootsResult, Role,
        Root, RootsCapability, SamplingCapability, SamplingContent,
    },
};
use serde::Serialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{Mutex, broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::language::AgentAnswers;

/// The request whose answer comes only when the stream ends.
const LISTEN: &str = "subscriptions/listen";

/// The request that was sent when the connection was made, or `server/discover` in its place. A
/// step shows its answer.
const INITIALIZE: &str = "initialize";

/// The key of the capture report in an answer's `_meta`.
const CAPTURE: &str = "marquetry/capture";

/// More progress notifications than any scenario sends.
const MAX_PROGRESS: usize = 1000;

/// Options of a tool call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToolCallOptions {
    /// The call asks for progress notifications.
    pub(crate) wants_progress: bool,
    /// The call is cancelled after this time.
    pub(crate) cancel_after: Option<Duration>,
}

/// A connected agent.
pub(crate) struct Agent {
    client: Client,
    /// Subscribed when the connection is made, so that no notification between two steps is missed.
    notifications: Mutex<broadcast::Receiver<ServerNotification>>,
}

/// Returns the options of an agent that speaks only this revision.
pub fn options(revision: Revision) -> ClientOptions {
    ClientOptions {
        implementation: Implementation::new("scenario", "1.0.0"),
        revision: RevisionChoice::Only(revision),
        ..ClientOptions::default()
    }
}

/// Returns the options of an agent with the capabilities and answers of a scenario.
pub(crate) fn answering(revision: Revision, given: &AgentAnswers) -> ClientOptions {
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = given.elicit.as_ref().map(|_| ElicitationCapability::default());
    capabilities.sampling = given.sample.as_ref().map(|_| SamplingCapability::default());
    capabilities.roots = given.roots.as_ref().map(|_| RootsCapability::default());
    capabilities.extensions.clone_from(&given.extensions);
    ClientOptions {
        capabilities,
        handler: Arc::new(ScriptedAnswers(given.clone())),
        ..options(revision)
    }
}

/// A user, a model and a list of roots with the answers of a scenario.
struct ScriptedAnswers(AgentAnswers);

#[async_trait]
impl ClientHandler for ScriptedAnswers {
    async fn elicit(&self, _: ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = self
            .0
            .elicit
            .clone()
            .ok_or_else(|| RpcError::method_not_found("elicitation/create"))?;
        Ok(ElicitResult { action: ElicitAction::Accept, content: Some(content) })
    }

    async fn sample(&self, _: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let text = self
            .0
            .sample
            .clone()
            .ok_or_else(|| RpcError::method_not_found("sampling/createMessage"))?;
        Ok(CreateMessageResult {
            role: Role::Assistant,
            content: vec![SamplingContent::text(text)],
            model: "scenario".to_owned(),
            stop_reason: Some("endTurn".to_owned()),
        })
    }

    async fn roots(&self) -> Result<ListRootsResult, RpcError> {
        let uris = self.0.roots.clone().ok_or_else(|| RpcError::method_not_found("roots/list"))?;
        let roots = uris.into_iter().map(|uri| Root { uri, name: None }).collect();
        Ok(ListRootsResult { roots })
    }
}

impl Agent {
    pub(crate) fn new(client: Client) -> Self {
        let notifications = Mutex::new(client.notifications());
        Self { client, notifications }
    }

    /// Sends a request. The outcome is `{"result": …}` or, for a JSON-RPC error, `{"error": …}`.
    /// Other failures are errors of the runner.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        match method {
            LISTEN => return self.listen(&params).await,
            INITIALIZE => return self.introduction(),
            _ => {}
        }
        let params = match params {
            Value::Null => None,
            params => Some(raw(&params)?),
        };
        self.send(method, params.as_deref(), CallOptions::default()).await
    }

    /// Returns the description of itself that the server sent when the connection was made, in
    /// either era.
    fn introduction(&self) -> Result<Value, String> {
        let server = self.client.server();
        let capabilities =
            serde_json::to_value(&server.capabilities).map_err(|error| error.to_string())?;
        let info = serde_json::to_value(&server.info).map_err(|error| error.to_string())?;
        Ok(json!({ "result": { "capabilities": capabilities, "serverInfo": info } }))
    }

    /// Starts to listen until the end of the scenario. Steps with `wait_for` wait for the
    /// notifications.
    async fn listen(&self, params: &Value) -> Result<Value, String> {
        let uris = params["notifications"]["resourceSubscriptions"]
            .as_array()
            .ok_or_else(|| format!("{LISTEN} of a scenario needs resourceSubscriptions"))?;
        for uri in uris.iter().filter_map(Value::as_str) {
            match self.client.subscribe(uri).await {
                Ok(()) => {}
                Err(ClientError::Rpc(error)) => {
                    let error = serde_json::to_value(&error).map_err(|error| error.to_string())?;
                    return Ok(json!({ "error": error }));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(json!({ "result": {} }))
    }

    async fn send(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<Value, String> {
        match self.client.request(method, params, options).await {
            Ok(raw) => {
                let result: Value = serde_json::from_str(raw.get())
                    .map_err(|error| format!("the result is not JSON: {error}"))?;
                Ok(json!({ "result": result }))
            }
            Err(ClientError::Rpc(error)) => {
                let error = serde_json::to_value(&error).map_err(|error| error.to_string())?;
                Ok(json!({ "error": error }))
            }
            // A request that was refused before it was parsed gets an HTTP error.
            Err(ClientError::Http { status, body }) => {
                Ok(json!({ "error": { "status": status, "message": body } }))
            }
            Err(ClientError::Cancelled) => Ok(json!({ "cancelled": true })),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Calls a tool. The outcome has the whole `result`, and its parts by their names in
    /// expectations: `content`, `structured`, `is_error`, `capture`, and `progress` if the call
    /// asks for it.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Option<Box<RawValue>>,
        call_options: ToolCallOptions,
    ) -> Result<Value, String> {
        let params = raw(&CallToolParams { name: tool.to_owned(), arguments, meta: None })?;
        let mut options = CallOptions::default();
        if let Some(after) = call_options.cancel_after {
            let cancel = CancellationToken::new();
            options.cancel = Some(cancel.clone());
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                cancel.cancel();
            });
        }
        let (sender, mut progress) = mpsc::channel(MAX_PROGRESS);
        options.progress = call_options.wants_progress.then_some(sender);
        let mut outcome = self.send("tools/call", Some(&params), options).await.map(parts)?;
        if call_options.wants_progress {
            let mut received = Vec::new();
            while let Ok(progress) = progress.try_recv() {
                received.push(json!({"progress": progress.progress, "total": progress.total, "message": progress.message}));
            }
            outcome["progress"] = received.into();
        }
        Ok(outcome)
    }

    /// Returns the next notification of a method.
    pub(crate) async fn notification(
        &self,
        method: &str,
        within: Duration,
    ) -> Result<Value, String> {
        let mut notifications = self.notifications.lock().await;
        let next = async {
            loop {
                match notifications.recv().await {
                    Ok(found) if *found.method == *method => {
                        let params = found.params.as_deref().map_or("null", |params| params.get());
                        let params = serde_json::from_str(params).unwrap_or(Value::Null);
                        return Ok(json!({ "method": method, "params": params }));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        return Err(format!("the stream of notifications ended: {error}"));
                    }
                }
            }
        };
        tokio::time::timeout(within, next)
            .await
            .unwrap_or_else(|_| Err(format!("no {method} within {} ms", within.as_millis())))
    }

    pub(crate) async fn close(&self) {
        self.client.close().await;
    }
}

/// Returns a value as JSON text.
pub(crate) fn raw(value: &impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(value).map_err(|error| error.to_string())
}

/// Adds the parts of a tool's result to the outcome.
fn parts(mut outcome: Value) -> Value {
    let Some(result) = outcome.get("result").cloned() else { return outcome };
    // The form of 2024-10-07: a text, or items if a text is not enough.
    let first = result.get("toolResult").map(|result| match result {
        Value::String(text) => json!([{ "type": "text", "text": text }]),
        items => items.clone(),
    });
    let parts = [
        ("content", result.get("content").or(first.as_ref())),
        ("structured", result.get("structuredContent")),
        ("is_error", result.get("isError")),
        ("capture", result.get("_meta").and_then(|meta| meta.get(CAPTURE))),
    ];
    let present: Map<_, _> = parts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.clone())))
        .collect();
    if let Some(outcome) = outcome.as_object_mut() {
        outcome.extend(present);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_result_is_taken_apart() {
        let result = json!({
            "content": [], "structuredContent": 1, "isError": true,
            "_meta": {"marquetry/capture": {"status": "processed"}, "other": 1},
        });
        assert_eq!(
            parts(json!({"result": result})),
            json!({
                "result": result,
                "content": [],
                "structured": 1,
                "is_error": true,
                "capture": {"status": "processed"},
            })
        );
        assert_eq!(parts(json!({"error": {}})), json!({"error": {}}));
        let first = json!({"result": {"toolResult": "hi"}});
        assert_eq!(parts(first)["content"], json!([{"type": "text", "text": "hi"}]));
    }
}
