//! Requests of a View that wait for an answer of the host.

use marquetry_protocol::RequestId;
use serde_json::Value;

use super::consent::Consent;

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
