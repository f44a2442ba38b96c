//! The session at a server of the session era.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A session, and what is needed to open another one like it.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<SessionState>,
    /// Locked while another session is opened.
    pub(super) renewing: tokio::sync::Mutex<()>,
}

/// A request that sets state of the session at the server.
pub(super) type StateRequest = (&'static str, Box<RawValue>);

#[derive(Default)]
pub(super) struct SessionState {
    pub(super) id: Option<HeaderValue>,
    /// The parameters of `initialize`.
    pub(super) introduction: Option<Box<RawValue>>,
    /// State of the session at the server, by its subject.
    pub(super) kept: BTreeMap<String, StateRequest>,
    /// Whether the server has answered 404 to a request of a session that it had. Without this,
    /// each such request would open another session.
    ambiguous_404: bool,
    /// When a new session was opened because of a refusal that may mean the session, and did not
    /// help.
    renewed_in_vain: Option<Instant>,
}

/// Whether the server has the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionStatus {
    /// The server has answered within the session.
    Open,
    /// The server does not know the session.
    Lost,
    /// The server has refused to tell, with this status.
    Unknown(StatusCode),
}

impl SessionStatus {
    /// Whether the server may be able to tell later. It might refuse to open a session now, too,
    /// which would close the connection.
    pub(super) fn is_temporary(self) -> bool {
        matches!(self, Self::Unknown(status) if is_temporary(status))
    }
}

/// Whether a later request may get another status.
pub(super) fn is_temporary(status: StatusCode) -> bool {
    const TEMPORARY: [StatusCode; 2] = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_server_error() || TEMPORARY.contains(&status)
}

impl Session {
    pub(super) fn id(&self) -> Option<HeaderValue> {
        self.state().id.clone()
    }

    pub(super) fn has_ambiguous_404(&self) -> bool {
        self.state().ambiguous_404
    }

    pub(super) fn set_ambiguous_404(&self) {
        self.state().ambiguous_404 = true;
    }

    /// Whether a new session was opened in vain a short time ago: then each refused request would
    /// open another one.
    pub(super) fn was_renewed_in_vain(&self) -> bool {
        const MEMORY: Duration = Duration::from_mins(1);
        self.state().renewed_in_vain.is_some_and(|at| at.elapsed() < MEMORY)
    }

    pub(super) fn set_renewed_in_vain(&self) {
        self.state().renewed_in_vain = Some(Instant::now());
    }

    /// Begins a session; a server may assign no id.
    pub(super) fn begin(&self, id: Option<HeaderValue>, introduction: Option<&RawValue>) {
        let mut state = self.state();
        state.id = id;
        state.introduction = introduction.map(ToOwned::to_owned);
    }

    /// Stores a request that sets state of the session.
    pub(super) fn remember(&self, method: &str, params: Option<&RawValue>) {
        /// Maximum number of resources; a new session lacks further ones.
        const MAX: usize = 1_000;
        #[derive(Deserialize)]
        struct About {
            uri: String,
        }
        let Some(params) = params else { return };
        let mut state = self.state();
        match method {
            "logging/setLevel" => {
                let level = ("logging/setLevel", params.to_owned());
                state.kept.insert(String::new(), level);
            }
            "resources/subscribe" => {
                if let Ok(About { uri }) = serde_json::from_str(params.get())
                    && state.kept.len() < MAX
                {
                    state.kept.insert(uri, ("resources/subscribe", params.to_owned()));
                }
            }
            "resources/unsubscribe" => {
                if let Ok(About { uri }) = serde_json::from_str(params.get()) {
                    state.kept.remove(&uri);
                }
            }
            _ => {}
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
