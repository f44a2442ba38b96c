#![doc = include_str!("../README.md")]

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use marquetry_trace_context::TraceContext;

/// Calls of upstreams that are noted for a request.
const MAX_UPSTREAM_CALLS: usize = 16;
/// Artifacts that are noted for a request.
const MAX_ARTIFACTS: usize = 64;

tokio::task_local! {
    static SHEET: NoteSheet;
}

/// Returns whether the work on this task belongs to an observed request.
#[must_use]
pub fn is_observed() -> bool {
    SHEET.try_with(|_| ()).is_ok()
}

/// The notes about one request. Cheap to clone; all clones are one sheet.
#[derive(Clone, Debug, Default)]
pub struct NoteSheet {
    notes: Arc<Mutex<Notes>>,
    span: Option<TraceContext>,
}

/// What was found out about a request.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Notes {
    /// The name of the tool or prompt for all clients, if a client calls it by another one.
    pub name: Option<String>,
    /// The arguments of the tool as JSON, if the call came within a call of another tool.
    pub arguments: Option<Arc<str>>,
    /// Names of arguments that the schema of the tool marks as secret.
    pub secret_names: Vec<String>,
    /// The calls of upstreams, in the order of their ends.
    pub upstream_calls: Vec<FinishedCall>,
    /// Calls of upstreams beyond those.
    pub more_upstream_calls: usize,
    /// The tool of an upstream that the request is for, if a person is asked before the call.
    pub tool_to_approve: Option<ToolOfUpstream>,
    /// The rule that decided whether the request is allowed.
    pub rule: Option<String>,
    /// Why the request was not answered as asked.
    pub refusal: Option<Refusal>,
    /// The names of the artifacts that the request made.
    pub artifacts: Vec<String>,
    /// Artifacts beyond those.
    pub more_artifacts: usize,
}

/// A tool of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOfUpstream {
    /// The name of the upstream.
    pub upstream: String,
    /// The upstream's own name of the tool.
    pub tool: String,
}

impl ToolOfUpstream {
    /// Creates the tool of an upstream by its own name there.
    #[must_use]
    pub fn new(upstream: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { upstream: upstream.into(), tool: tool.into() }
    }
}

/// Why a request was not answered as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller may not do it.
    Denied,
    /// The caller needs a token with further scopes.
    StepUp,
    /// A limit was exceeded.
    Limited,
    /// The definition of a tool has changed, and was not accepted.
    Pinned,
    /// A person said no, or did not answer.
    NotConfirmed,
}

impl Notes {
    /// Returns the upstream that got the request, or would have got it with a person's consent.
    #[must_use]
    pub fn upstream(&self) -> Option<&str> {
        match self.upstream_calls.last() {
            Some(call) => Some(&call.upstream),
            None => self.tool_to_approve.as_ref().map(|it| &*it.upstream),
        }
    }

    /// Returns that upstream's own name of the tool or prompt.
    #[must_use]
    pub fn name_at_upstream(&self) -> Option<&str> {
        match self.upstream_calls.last() {
            Some(call) => call.name.as_deref(),
            None => self.tool_to_approve.as_ref().map(|it| &*it.tool),
        }
    }
}

impl Refusal {
    /// Returns its name in logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::StepUp => "step_up",
            Self::Limited => "limited",
            Self::Pinned => "pinned",
            Self::NotConfirmed => "not_confirmed",
        }
    }
}

/// A call of an upstream that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedCall {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The method.
    pub method: &'static str,
    /// The upstream's own name of the tool or prompt.
    pub name: Option<Arc<str>>,
    /// The time until its answer, with the time that it waited for the upstream.
    pub time: Duration,
    /// Why it failed.
    pub failure: Option<CallFailureKind>,
    /// When it began.
    pub began: Instant,
    /// Its span, if the request is traced.
    pub span: Option<TraceContext>,
}

/// Why a call of an upstream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFailureKind {
    /// The upstream answered with this code of JSON-RPC.
    Rpc(i32),
    /// No answer came.
    Unreachable,
    /// The caller no longer waits.
    Cancelled,
}

/// A call of an upstream that runs. Dropping it notes a cancelled call.
#[derive(Debug)]
pub struct UpstreamCall {
    upstream: Arc<str>,
    method: &'static str,
    name: Option<Arc<str>>,
    began: Instant,
    span: Option<TraceContext>,
    has_ended: bool,
}

/// Notes something about the request that runs on this task. Outside of an observed request, `add`
/// is not called.
pub fn note(add: impl FnOnce(&mut Notes)) {
    // An error means that no request is observed here.
    _ = SHEET.try_with(|sheet| sheet.add(add));
}

impl NoteSheet {
    /// Creates a sheet for a request that is traced: calls of upstreams are spans below `span`.
    #[must_use]
    pub fn traced(span: TraceContext) -> Self {
        Self { span: Some(span), ..Self::default() }
    }

    /// Runs `work`, whose notes go to this sheet.
    pub async fn during<F: Future>(&self, work: F) -> F::Output {
        SHEET.scope(self.clone(), work).await
    }

    /// Takes the notes.
    #[must_use]
    pub fn take(&self) -> Notes {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, add: impl FnOnce(&mut Notes)) {
        add(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Notes {
    /// Adds an artifact.
    pub fn add_artifact(&mut self, name: &str) {
        if self.artifacts.len() < MAX_ARTIFACTS {
            self.artifacts.push(name.to_owned());
        } else {
            self.more_artifacts += 1;
        }
    }

    /// Returns the time that the request waited for upstreams.
    #[must_use]
    pub fn upstream_time(&self) -> Duration {
        self.upstream_calls.iter().map(|call| call.time).sum()
    }
}

impl UpstreamCall {
    /// Begins a call of an upstream.
    #[must_use]
    pub fn begin(upstream: &str, method: &'static str, name: Option<Arc<str>>) -> Self {
        let span = SHEET.try_with(|sheet| sheet.span).ok().flatten().map(|span| span.child());
        let began = Instant::now();
        Self { upstream: upstream.into(), method, name, began, span, has_ended: false }
    }

    /// Returns the span of the call, which the upstream is told; `None` if the request is not
    /// traced.
    #[must_use]
    pub fn span(&self) -> Option<TraceContext> {
        self.span
    }

    /// Notes that the call has ended.
    pub fn end(mut self, failure: Option<CallFailureKind>) {
        self.note(failure);
    }

    fn note(&mut self, failure: Option<CallFailureKind>) {
        self.has_ended = true;
        let call = FinishedCall {
            upstream: self.upstream.clone(),
            method: self.method,
            name: self.name.take(),
            time: self.began.elapsed(),
            failure,
            began: self.began,
            span: self.span,
        };
        note(|notes| {
            if notes.upstream_calls.len() < MAX_UPSTREAM_CALLS {
                notes.upstream_calls.push(call);
            } else {
                notes.more_upstream_calls += 1;
            }
        });
    }
}

impl Drop for UpstreamCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.note(Some(CallFailureKind::Cancelled));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_request_has_its_own_notes() {
        let (first, second) = (NoteSheet::default(), NoteSheet::default());
        let work = async |name: &str| {
            tokio::task::yield_now().await;
            note(|notes| notes.name = Some(name.to_owned()));
            tokio::spawn(async { note(|notes| notes.rule = Some("elsewhere".to_owned())) })
                .await
                .unwrap();
        };
        tokio::join!(first.during(work("a")), second.during(work("b")));
        note(|_| panic!("no request is observed"));
        for (sheet, name) in [(first, "a"), (second, "b")] {
            let notes = sheet.take();
            assert_eq!((notes.name.as_deref(), notes.rule), (Some(name), None));
        }
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_was_cancelled() {
        let sheet = NoteSheet::default();
        let endless = async {
            let _call = UpstreamCall::begin("u", "tools/call", None);
            std::future::pending::<()>().await;
        };
        let work = sheet.during(async {
            _ = tokio::time::timeout(Duration::from_millis(10), endless).await;
        });
        work.await;
        let notes = sheet.take();
        assert_eq!(notes.upstream_calls[0].failure, Some(CallFailureKind::Cancelled));
        assert!(notes.upstream_time() >= Duration::from_millis(10));
    }

    #[tokio::test]
    async fn calls_of_a_traced_request_are_spans_below_it() {
        let span = TraceContext::root(true);
        let sheet = NoteSheet::traced(span);
        let begun = sheet.during(async { UpstreamCall::begin("u", "m", None).span() }).await;
        let begun = begun.unwrap();
        assert_eq!(begun.trace_id(), span.trace_id());
        assert_ne!(begun.span_id(), span.span_id());
        assert_eq!(sheet.take().upstream_calls[0].span, Some(begun));
        assert_eq!(UpstreamCall::begin("u", "m", None).span(), None, "no request is observed");
    }

    #[tokio::test]
    async fn notes_are_bounded() {
        let sheet = NoteSheet::default();
        sheet
            .during(async {
                for _ in 0..100 {
                    UpstreamCall::begin("u", "m", None).end(None);
                    note(|notes| notes.add_artifact("a"));
                }
            })
            .await;
        let notes = sheet.take();
        assert_eq!((notes.upstream_calls.len(), notes.more_upstream_calls), (16, 84));
        assert_eq!((notes.artifacts.len(), notes.more_artifacts), (64, 36));
    }

    #[tokio::test]
    async fn a_call_that_was_not_sent_has_the_upstream_that_it_is_for() {
        let sheet = NoteSheet::default();
        let refused = async {
            note(|notes| notes.tool_to_approve = Some(ToolOfUpstream::new("files", "delete")));
        };
        sheet.during(refused).await;
        let notes = sheet.take();
        assert_eq!((notes.upstream(), notes.name_at_upstream()), (Some("files"), Some("delete")));
        sheet.during(async { UpstreamCall::begin("u", "m", Some("t".into())).end(None) }).await;
        let notes = sheet.take();
        assert_eq!((notes.upstream(), notes.name_at_upstream()), (Some("u"), Some("t")));
    }
}
