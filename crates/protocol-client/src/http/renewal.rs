//! Opens a new session after the server has dropped the old one.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode};
use marquetry_protocol_wire::{Revision, envelope, types::InitializeResult};
use serde_json::value::RawValue;

use super::{
    endpoint::Endpoint,
    session::{SessionStatus, StateRequest},
};
use crate::{
    error::ClientError,
    events::CloseReason,
    shared::{Outgoing, RequestState},
};

impl Endpoint {
    /// Opens a new session after the server has dropped the old one (2025-11-25, "Session
    /// Management"), and restores its log level and subscriptions. Listeners are notified that all
    /// lists may have changed.
    ///
    /// # Errors
    /// Returns an error if no session can be opened; the connection is then closed.
    pub(super) async fn renew(
        self: &Arc<Self>,
        revision: Revision,
        lost: &HeaderValue,
    ) -> Result<(), ClientError> {
        match self.renewed(revision, lost).await {
            Ok(()) => Ok(()),
            // Retried when there is authorization.
            Err(error @ ClientError::Unauthorized(_)) => Err(error),
            Err(error) => Err(self.session_is_lost(&error.to_string())),
        }
    }

    /// Opens a new session if the server does not answer a ping in the old one. Returns whether
    /// there is a new one.
    ///
    /// If no session can be opened, the refusal had another meaning, and the old one is kept.
    ///
    /// # Errors
    /// Returns an error if there is no answer to the ping.
    pub(super) async fn renew_if_lost(
        self: &Arc<Self>,
        revision: Revision,
        used: &HeaderValue,
    ) -> Result<bool, ClientError> {
        match self.session_status(revision).await {
            Ok(SessionStatus::Open) => return Ok(false),
            Ok(status) if status.is_temporary() => return Ok(false),
            Ok(_) | Err(ClientError::Unauthorized(_)) => {}
            Err(error) => return Err(error),
        }
        let renewed = self.renewed(revision, used).await;
        if let Err(error) = &renewed {
            tracing::debug!(server = self.shown, %error, "no other session can be opened");
        }
        Ok(renewed.is_ok())
    }

    /// Opens a new session in place of `lost`, which stays if that fails.
    async fn renewed(
        self: &Arc<Self>,
        revision: Revision,
        lost: &HeaderValue,
    ) -> Result<(), ClientError> {
        // On its own task: if it ended with the call that needs it, the new session would remain
        // incomplete.
        let endpoint = self.clone();
        let lost = lost.clone();
        let task = tokio::spawn(async move { endpoint.renew_to_the_end(revision, &lost).await });
        task.await.unwrap_or_else(|error| {
            Err(ClientError::io("the session cannot be renewed".to_owned(), error.to_string()))
        })
    }

    async fn renew_to_the_end(
        self: &Arc<Self>,
        revision: Revision,
        lost: &HeaderValue,
    ) -> Result<(), ClientError> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let _one_at_a_time = self.session.renewing.lock().await;
        if self.session.id().as_ref() != Some(lost) {
            // Another call has opened it.
            return Ok(());
        }
        let renewed = tokio::time::timeout(PATIENCE, self.introduce_again(revision))
            .await
            .unwrap_or(Err(ClientError::Timeout(PATIENCE)));
        match &renewed {
            Ok(()) => tracing::info!(
                server = self.shown,
                "server has forgotten the session; another is open"
            ),
            Err(_) => self.session.state().id = Some(lost.clone()),
        }
        renewed
    }

    /// Returns whether the server still has the session, by a ping.
    ///
    /// # Errors
    /// Returns an error if there is no answer, or a demand for authorization, which both tell
    /// nothing about the session.
    pub(super) async fn session_status(
        self: &Arc<Self>,
        revision: Revision,
    ) -> Result<SessionStatus, ClientError> {
        let own = &RequestState::default();
        let ping = Outgoing { id: self.shared.next_id(), method: "ping", params: None, own };
        let response = self.send(self.request(revision, &ping)?).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(SessionStatus::Open);
        }
        if status == StatusCode::NOT_FOUND {
            return Ok(SessionStatus::Lost);
        }
        match self.answer(revision, response, &ping).await {
            // The server has processed the ping.
            Ok(_) | Err(ClientError::Rpc(_)) => Ok(SessionStatus::Open),
            Err(ClientError::Http { .. }) => Ok(SessionStatus::Unknown(status)),
            Err(error) => Err(error),
        }
    }

    /// Closes the connection because no session can be opened.
    pub(super) fn session_is_lost(&self, why: &str) -> ClientError {
        let reason = CloseReason::SessionEnded(why.to_owned());
        self.shared.end(reason.clone());
        ClientError::Closed(reason)
    }

    async fn introduce_again(self: &Arc<Self>, revision: Revision) -> Result<(), ClientError> {
        let (introduction, kept) = {
            let state = self.session.state();
            let kept: Vec<StateRequest> = state.kept.values().cloned().collect();
            (state.introduction.clone(), kept)
        };
        let result = self.ask(revision, "initialize", introduction.as_deref()).await?;
        let found: InitializeResult = serde_json::from_str(result.get())
            .map_err(|error| ClientError::result("initialize", error))?;
        if found.protocol_version != revision.as_str() {
            return Err(ClientError::Revision(format!(
                "{revision} any more, but {}",
                found.protocol_version
            )));
        }
        let initialized = envelope::write_notification("notifications/initialized", None);
        self.tell(revision, initialized).await?;
        for (method, params) in kept {
            if let Err(error) = self.ask(revision, method, Some(&params)).await {
                tracing::warn!(%error, method, "the new session lacks what the old one had");
            }
        }
        let lists = [
            (found.capabilities.tools.is_some(), "notifications/tools/list_changed"),
            (found.capabilities.prompts.is_some(), "notifications/prompts/list_changed"),
            (found.capabilities.resources.is_some(), "notifications/resources/list_changed"),
        ];
        for (_, method) in lists.into_iter().filter(|(has_it, _)| *has_it) {
            self.shared.announce(method);
        }
        Ok(())
    }

    async fn ask(
        self: &Arc<Self>,
        revision: Revision,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, ClientError> {
        let own = &RequestState::default();
        let outgoing = Outgoing { id: self.shared.next_id(), method, params, own };
        let response = self.send(self.request(revision, &outgoing)?).await?;
        self.answer(revision, response, &outgoing).await
    }
}
