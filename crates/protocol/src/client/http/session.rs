//! The session that we have at a server of the session era.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::endpoint::Endpoint;
use crate::{
    Revision,
    client::{
        ClientError,
        link::{CloseReason, Outgoing, Own},
    },
    envelope,
    types::InitializeResult,
};

/// A session, and what it takes to open another in its place.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held while another one is opened.
    renewing: tokio::sync::Mutex<()>,
}

/// A request whose effect the server keeps for the session.
type Kept = (&'static str, Box<RawValue>);

#[derive(Default)]
struct State {
    id: Option<HeaderValue>,
    /// The parameters of `initialize`.
    introduction: Option<Box<RawValue>>,
    /// What the server keeps for the session, by what it is about.
    kept: BTreeMap<String, Kept>,
}

impl Session {
    pub(super) fn id(&self) -> Option<HeaderValue> {
        self.state().id.clone()
    }

    /// A session begins; a server may give it no id.
    pub(super) fn begin(&self, id: Option<HeaderValue>, introduction: Option<&RawValue>) {
        let mut state = self.state();
        state.id = id;
        state.introduction = introduction.map(ToOwned::to_owned);
    }

    /// Notes what the server now keeps for the session.
    pub(super) fn remember(&self, method: &str, params: Option<&RawValue>) {
        /// Of so many resources; a new session lacks the others.
        const MOST: usize = 1_000;
        #[derive(Deserialize)]
        struct About {
            uri: String,
        }
        let Some(params) = params else { return };
        let about = || Some(serde_json::from_str::<About>(params.get()).ok()?.uri);
        let mut state = self.state();
        match (method, about) {
            ("logging/setLevel", _) => {
                let level = ("logging/setLevel", params.to_owned());
                state.kept.insert(String::new(), level);
            }
            ("resources/subscribe", about) => {
                if let (Some(uri), true) = (about(), state.kept.len() < MOST) {
                    state.kept.insert(uri, ("resources/subscribe", params.to_owned()));
                }
            }
            ("resources/unsubscribe", about) => {
                if let Some(uri) = about() {
                    state.kept.remove(&uri);
                }
            }
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Endpoint {
    /// Opens another session in place of one that the server has forgotten (2025-11-25, "Session Management"), and
    /// brings it to where the old one was: log level and subscriptions. Whoever listens is told that all lists may have
    /// changed.
    ///
    /// # Errors
    /// When there is no other; then the connection is closed.
    pub(super) async fn renew(
        self: &Arc<Self>,
        revision: Revision,
        lost: &HeaderValue,
    ) -> Result<(), ClientError> {
        // A task of its own: if it ended with the call that has caused it, the new session would lack what the old one had.
        let (endpoint, lost) = (self.clone(), lost.clone());
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
            // Somebody else has done it.
            return Ok(());
        }
        tracing::info!(server = self.shown, "server has forgotten the session; another is opened");
        match tokio::time::timeout(PATIENCE, self.introduce_again(revision)).await {
            Ok(Ok(())) => Ok(()),
            // To be done once there is authorization.
            Ok(Err(error @ ClientError::Unauthorized(_))) => {
                self.session.state().id = Some(lost.clone());
                Err(error)
            }
            Ok(Err(error)) => Err(self.session_is_lost(&error.to_string())),
            Err(_) => Err(self.session_is_lost("no answer in time")),
        }
    }

    /// Closes the connection for want of a session.
    pub(super) fn session_is_lost(&self, why: &str) -> ClientError {
        let reason = CloseReason::SessionEnded(why.to_owned());
        self.shared.end(reason.clone());
        ClientError::Closed(reason)
    }

    async fn introduce_again(self: &Arc<Self>, revision: Revision) -> Result<(), ClientError> {
        let (introduction, kept) = {
            let state = self.session.state();
            let kept: Vec<Kept> = state.kept.values().cloned().collect();
            (state.introduction.clone(), kept)
        };
        let result = self.ask(revision, "initialize", introduction.as_deref()).await?;
        let found: InitializeResult = serde_json::from_str(result.get())
            .map_err(|error| ClientError::Protocol(format!("answer to 'initialize': {error}")))?;
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
        let own = &Own::default();
        let outgoing = Outgoing { id: self.shared.next_id(), method, params, own };
        let response = self.send(self.request(revision, &outgoing)?).await?;
        self.answer(revision, response, &outgoing).await
    }
}
