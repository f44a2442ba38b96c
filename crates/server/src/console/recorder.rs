//! Records calls for the console, and authenticates people who log in with its link.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::{header, request::Parts};
use marquetry_artifact_tools::ChangedFor;
use marquetry_artifacts::{Captured, Settings};
use marquetry_client_profiles::ClientProfile;
use marquetry_console::{
    Audience, Console, NewCall, Outcome, RecordSlot, Recorded, RunningCall, secret_names,
};
use marquetry_protocol::{
    RpcError,
    auth::Challenge,
    server::{
        Principal, Reply, RequestContext,
        http::{Authenticator, Denial},
    },
    types::CallToolParams,
};
use marquetry_request_notes::{is_observed, note};
use serde_json::{Value, value::RawValue};

use super::decision::decisions;
use crate::health::ADMIN;

/// Records calls for the console, unless it is switched off, and for the log.
#[derive(Clone, Default)]
pub(crate) struct Recorder(pub(crate) Option<Console>);

/// The record of one call.
pub(crate) struct CallRecord {
    running: Option<Running>,
    /// The reason why the gateway got no answer from the upstream.
    unreachable: Option<String>,
}

/// A call that runs, and its request.
struct Running {
    call: Option<RunningCall>,
    cx: RequestContext,
}

/// An authenticator that also accepts the tokens of people who logged in with the printed link.
pub(crate) struct ConsoleLoginAuthenticator {
    console: Console,
    principal: Arc<Principal>,
    inner: Arc<dyn Authenticator>,
}

impl ConsoleLoginAuthenticator {
    /// Gives the person who started the server the scope `admin`.
    pub(crate) fn new(console: Console, inner: Arc<dyn Authenticator>) -> Self {
        let principal = Arc::new(Principal::new(None, "console").with_scopes([ADMIN]));
        Self { console, principal, inner }
    }
}

#[async_trait]
impl Authenticator for ConsoleLoginAuthenticator {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        let header = request.headers.get(header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        match token {
            Some(token) if self.console.logins().knows(token) => Ok(self.principal.clone()),
            _ => self.inner.authenticate(request).await,
        }
    }

    fn step_up(&self, scopes: &[String]) -> Challenge {
        self.inner.step_up(scopes)
    }
}

impl Recorder {
    /// Tells pages that a list of artifacts has changed.
    pub(crate) fn artifacts_changed(&self, whose: &ChangedFor<'_>) {
        let Some(console) = &self.0 else { return };
        console.artifacts_changed(match whose {
            ChangedFor::Principal(principal) => {
                Audience::Owner(principal.map(|principal| principal.id()))
            }
            _ => Audience::Everyone,
        });
    }

    /// Records that a call begins. `schema` returns the input schema of the tool, which may mark
    /// arguments as secret.
    pub(crate) fn begin<'a>(
        &self,
        params: &CallToolParams,
        schema: impl FnOnce() -> Option<&'a Value>,
        cx: &RequestContext,
    ) -> CallRecord {
        let secret_names = match &params.arguments {
            Some(_) if self.0.is_some() || is_observed() => schema().map(secret_names),
            _ => None,
        };
        let secret_names = secret_names.unwrap_or_default();
        note(|notes| {
            notes.name = Some(params.name.clone());
            notes.secret_names.clone_from(&secret_names);
        });
        let running = self.0.as_ref().map(|console| {
            let client = cx.client().map(|client| format!("{} {}", client.name, client.version));
            let owner = cx.principal().map(|principal| principal.id());
            console.hide_members(&secret_names);
            let call = NewCall::new(&params.name)
                .arguments(params.arguments.as_deref())
                .owner(owner.clone())
                .client(client.clone(), cx.revision().as_str())
                .secret_names(secret_names);
            let call = console.calls().begin(call);
            if let Some(slot) = cx.extension::<RecordSlot>() {
                slot.name(Recorded { id: call.id().to_owned(), owner, client });
            }
            Running { call: Some(call), cx: cx.clone() }
        });
        CallRecord { running, unreachable: None }
    }
}

impl CallRecord {
    /// Records which upstream has the tool.
    pub(crate) fn sent_to(&self, upstream: &str) {
        if let Some(running) = self.running() {
            running.sent_to(upstream);
        }
    }

    /// Records the answer before it is captured.
    pub(crate) fn answered(&self, result: &RawValue) {
        if let Some(running) = self.running() {
            running.upstream_said(result);
        }
    }

    /// Records how the answer was captured, and the settings that decided what the model is shown.
    pub(crate) fn captured(
        &self,
        captured: &Captured,
        settings: &Settings,
        profile: &ClientProfile,
    ) {
        let save = captured.report().map(|report| &report.save);
        for it in save.iter().flat_map(|it| it.artifacts.iter().chain(&it.fallback_artifact)) {
            note(|notes| notes.add_artifact(it.name.as_str()));
        }
        let Some(running) = self.running() else { return };
        running.step("captured");
        // Limited as it is for the model: a report of thousands of items is of no use in the
        // console either.
        let report = captured.report().map(|report| report.json_within(settings.report_max_bytes));
        running.decided(report.as_deref(), decisions(captured, settings, profile));
        for it in save.iter().flat_map(|it| it.artifacts.iter().chain(&it.fallback_artifact)) {
            running.saved(it.name.as_str(), it.version);
        }
    }

    /// Records the bytes and tokens that the answer keeps from the model.
    pub(crate) fn kept_from_model(&self, bytes: u64, tokens: u64) {
        if let Some(running) = self.running() {
            running.kept_from_model(bytes, tokens);
        }
    }

    /// Records that the upstream gave no answer.
    pub(crate) fn unreachable(&mut self, problem: String) {
        self.unreachable = Some(problem);
    }

    /// Records the answer that the agent gets.
    pub(crate) fn end(self, answer: &Result<Reply, RpcError>) {
        if self.running.is_none() {
            return;
        }
        let outcome = match (answer, self.unreachable) {
            (Ok(reply), None) => Outcome::of_result(reply.get()),
            (Ok(_), Some(message)) => Outcome::GatewayError { message },
            (Err(error), _) => {
                Outcome::RpcError { code: error.code.into(), message: error.message.clone() }
            }
        };
        let reply = answer.as_ref().ok().map(Reply::get);
        if let Some(running) = self.running.and_then(Running::into_call) {
            running.end(outcome, reply);
        }
    }

    fn running(&self) -> Option<&RunningCall> {
        self.running.as_ref()?.call.as_ref()
    }
}

impl Running {
    fn into_call(mut self) -> Option<RunningCall> {
        self.call.take()
    }
}

/// A dropped handler was cancelled, unless a question ended this round of the request.
impl Drop for Running {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let outcome = if self.cx.has_asked() {
            Outcome::InputRequired
        } else {
            Outcome::Cancelled { reason: self.cx.cancel_reason().map(String::from) }
        };
        call.end(outcome, None);
    }
}

impl Recorder {
    /// Returns the contexts and messages of Views for the model.
    pub(crate) fn view_contexts(&self) -> Option<Arc<dyn marquetry_chat::TurnContext>> {
        Some(Arc::new(self.clone()))
    }
}

impl marquetry_chat::TurnContext for Recorder {
    fn waiting(&self, principal: Option<&str>) -> Vec<marquetry_chat::TurnItem> {
        let waiting = self.0.as_ref().map(|console| console.model_input(principal));
        waiting
            .into_iter()
            .flatten()
            .map(|it| marquetry_chat::TurnItem {
                number: it.number,
                is_message: it.is_message(),
                tool: it.tool,
                text: it.text,
            })
            .collect()
    }

    fn delivered(&self, principal: Option<&str>, numbers: &[u64]) {
        if let Some(console) = &self.0 {
            console.mark_delivered_to_model(principal, numbers);
        }
    }
}
