//! Requests of a View that wait for an answer of the host.

use std::collections::BTreeMap;

use marquetry_protocol::{RequestId, types::JsonObject};
use serde_json::Value;

use super::{consent::Consent, effect::RequestToken};

/// The View's requests that wait for an answer of the host.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    waiting: BTreeMap<RequestToken, PendingRequest>,
    next: u64,
}

/// A request of the View that waits.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) id: RequestId,
    pub(super) form: AnswerForm,
    pub(super) progress_token: Option<Value>,
    /// The kind of consent that the user is asked for, if any.
    pub(super) consent: Option<Consent>,
}

/// The form of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AnswerForm {
    /// `{}`.
    Empty,
    /// The display mode.
    DisplayMode,
    /// The answer of the server or of the model, unchanged.
    Unchanged,
}

impl PendingRequests {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn has(&self, id: &RequestId) -> bool {
        self.waiting.values().any(|it| it.id == *id)
    }

    pub(super) fn add(
        &mut self,
        id: RequestId,
        form: AnswerForm,
        consent: Option<Consent>,
        params: Option<&JsonObject>,
    ) -> RequestToken {
        let token = RequestToken::from_number(self.next);
        self.next += 1;
        let meta = params.and_then(|params| params.get("_meta"));
        let progress_token = meta
            .and_then(|meta| meta.get("progressToken"))
            .filter(|it| it.is_string() || it.is_number())
            .cloned();
        self.waiting.insert(token, PendingRequest { id, form, progress_token, consent });
        token
    }

    pub(super) fn get(&self, token: RequestToken) -> Option<&PendingRequest> {
        self.waiting.get(&token)
    }

    pub(super) fn take(&mut self, token: RequestToken) -> Option<PendingRequest> {
        self.waiting.remove(&token)
    }

    /// Removes a request that the View has cancelled.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Option<(RequestToken, PendingRequest)> {
        let token = self.waiting.iter().find(|(_, it)| it.id == *id).map(|(token, _)| *token)?;
        Some((token, self.waiting.remove(&token)?))
    }

    /// Removes and returns the requests that need this kind of consent.
    pub(super) fn drain_consent(&mut self, kind: Consent) -> Vec<(RequestToken, PendingRequest)> {
        self.waiting.extract_if(.., |_, it| it.consent == Some(kind)).collect()
    }

    pub(super) fn drain(&mut self) -> Vec<(RequestToken, PendingRequest)> {
        std::mem::take(&mut self.waiting).into_iter().collect()
    }
}
