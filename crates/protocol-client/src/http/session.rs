//! The session that we have at a server of the session era.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A session, and what it takes to open another in its place.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held while another one is opened.
    pub(super) renewing: tokio::sync::Mutex<()>,
}

/// A request whose effect the server keeps for the session.
pub(super) type Kept = (&'static str, Box<RawValue>);

#[derive(Default)]
pub(super) struct State {
    pub(super) id: Option<HeaderValue>,
    /// The parameters of `initialize`.
    pub(super) introduction: Option<Box<RawValue>>,
    /// What the server keeps for the session, by what it is about.
    pub(super) kept: BTreeMap<String, Kept>,
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

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
