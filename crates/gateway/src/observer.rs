//! Observes the messages between agents and upstreams, for example for a console.

use std::{fmt, sync::Arc};

use marquetry_protocol::{RpcError, client::Progress, server::RequestContext};
use serde_json::value::RawValue;

/// Receives the messages between this gateway and its upstreams.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Returns whether messages are wanted now. The gateway asks before each message, and prepares
    /// nothing if the answer is no. Questions are reported in any case: they are rare, and may stay
    /// open until a page is opened.
    fn is_watching(&self) -> bool;

    /// Returns the origin of an agent's request.
    fn origin(&self, cx: &RequestContext) -> Origin;

    /// Receives a message or event. `origin` is `None` if it belongs to no call.
    fn observe(&self, upstream: &str, origin: Option<&Origin>, observed: &Observed<'_>);
}

/// The call that a message belongs to: its principal and its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Id of the principal who calls; `None` without authentication.
    pub principal: Option<String>,
    /// Id of the record of the call, if the observer keeps one.
    pub record: Option<String>,
}

/// A message or event between this gateway and an upstream.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed<'a> {
    /// A request is sent.
    Request {
        /// Its method.
        method: &'a str,
        /// Its parameters, under the upstream's own names.
        params: &'a RawValue,
    },
    /// A request has its result.
    Result {
        /// The result, as the upstream wrote it.
        result: &'a RawValue,
    },
    /// A request has failed.
    Failed {
        /// The reason.
        message: &'a str,
    },
    /// The upstream sends a notification other than progress.
    Notification {
        /// Its method.
        method: &'a str,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// A call makes progress. In a fast series, some notifications are left out.
    Progress(&'a Progress),
    /// The upstream asks the agent of a call something, and waits.
    QuestionOpened {
        /// Unique number of the question.
        number: u64,
        /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
        method: &'a str,
        /// Its parameters.
        params: &'a RawValue,
    },
    /// A question was answered, or is given up.
    QuestionClosed {
        /// The number of the question.
        number: u64,
        /// Its method.
        method: &'a str,
        /// The answer; `None` if the call ended before it.
        answer: Option<Result<&'a RawValue, &'a RpcError>>,
    },
    /// The upstream writes a line to its standard error.
    Stderr(&'a str),
}

/// The observer of one call.
#[derive(Clone, Debug)]
pub(super) struct CallObserver {
    observer: Arc<dyn Observer>,
    upstream: String,
    origin: Origin,
}

impl CallObserver {
    /// Returns the observer of a call that begins.
    pub(super) fn of(
        observer: Option<&Arc<dyn Observer>>,
        upstream: &str,
        cx: &RequestContext,
    ) -> Option<Self> {
        let observer = observer?.clone();
        let origin = observer.origin(cx);
        Some(Self { observer, upstream: upstream.to_owned(), origin })
    }

    pub(super) fn observe(&self, observed: &Observed<'_>) {
        let is_question =
            matches!(observed, Observed::QuestionOpened { .. } | Observed::QuestionClosed { .. });
        if is_question || self.observer.is_watching() {
            self.observer.observe(&self.upstream, Some(&self.origin), observed);
        }
    }
}
