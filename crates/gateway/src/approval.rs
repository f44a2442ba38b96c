//! The rules for calls that a person must allow, and the questions that are open.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use marquetry_approvals::{Approvals, AskRules, ToolHints};
use marquetry_protocol::server::{ConversationId, RequestContext};
use serde::{Deserialize, Serialize};

/// Decides which calls of upstreams' tools a person must allow first.
pub trait ApprovalRules: fmt::Debug + Send + Sync {
    /// Returns the setting that demands a question before a call of a tool, by the upstream's own
    /// name of it; `None` if the call needs none. The hints are the upstream's.
    fn reason(
        &self,
        cx: &RequestContext,
        upstream: &str,
        tool: &str,
        hints: &ToolHints,
    ) -> Option<String>;
}

impl ApprovalRules for AskRules {
    fn reason(
        &self,
        _: &RequestContext,
        upstream: &str,
        tool: &str,
        hints: &ToolHints,
    ) -> Option<String> {
        self.reason(upstream, tool, hints)
    }
}

/// Asks a person before calls that the rules name. Without rules it asks nothing.
///
/// A client in a session gets a request `elicitation/create` while its call waits. A stateless
/// client gets the result `input_required`, and sends the call again with the answer; its sealed
/// state is valid for the same call only. The call of a client that cannot ask fails, and says how
/// a person can allow it.
pub struct CallApprovals {
    approvals: Arc<Approvals>,
    rules: RwLock<Option<ActiveRules>>,
    /// Whether there are rules. Most servers have none, and their calls read nothing else.
    is_on: AtomicBool,
    /// Address of the console, if there is one.
    console: OnceLock<String>,
    /// Questions in one session follow each other: an answer may allow the next call, too.
    turns: Mutex<HashMap<ConversationId, Weak<tokio::sync::Mutex<()>>>>,
    /// Number of open questions of upstreams in each session.
    upstreams_ask: Mutex<HashMap<ConversationId, usize>>,
    /// Numbers of questions of another process are invalid here.
    process: u64,
}

/// The rules, and the time that a person has for an answer.
#[derive(Clone)]
pub(super) struct ActiveRules {
    pub(super) rules: Arc<dyn ApprovalRules>,
    pub(super) time: Duration,
}

/// The question that a stateless client brings the answer to.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct AskedBefore {
    process: u64,
    question: u64,
    /// Milliseconds since 1970.
    at: u64,
}

/// Counts an open question of an upstream while it exists.
pub(super) struct UpstreamAsks<'a> {
    approvals: &'a CallApprovals,
    conversation: ConversationId,
}

impl CallApprovals {
    /// Creates a table without rules.
    #[must_use]
    pub fn new(approvals: Arc<Approvals>) -> Self {
        Self {
            approvals,
            rules: RwLock::default(),
            is_on: AtomicBool::new(false),
            console: OnceLock::new(),
            turns: Mutex::default(),
            upstreams_ask: Mutex::default(),
            process: RandomState::new().hash_one(0),
        }
    }

    /// Replaces the rules, and the time that a person has for an answer. Open questions stay open.
    pub fn replace_rules(&self, rules: Option<Arc<dyn ApprovalRules>>, time: Duration) {
        let rules = rules.map(|rules| ActiveRules { rules, time });
        self.is_on.store(rules.is_some(), Ordering::Relaxed);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Sets the address of the console, which answers to clients that cannot ask name.
    pub fn set_console(&self, url: impl Into<String>) {
        // The first listener is the one that people know.
        _ = self.console.set(url.into());
    }

    /// Returns the open questions and the decisions.
    #[must_use]
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.approvals
    }

    /// Records that an upstream asks the client of a session, until the result is dropped.
    pub(super) fn upstream_asks(&self, conversation: ConversationId) -> UpstreamAsks<'_> {
        *lock(&self.upstreams_ask).entry(conversation).or_default() += 1;
        UpstreamAsks { approvals: self, conversation }
    }

    pub(super) fn active_rules(&self) -> Option<ActiveRules> {
        if !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether an upstream asks the client of a session at present.
    pub(super) fn is_asked_by_upstream(&self, conversation: ConversationId) -> bool {
        lock(&self.upstreams_ask).contains_key(&conversation)
    }

    /// Returns the address of the console, if there is one.
    pub(super) fn console(&self) -> Option<&str> {
        self.console.get().map(String::as_str)
    }

    /// Returns the state that a stateless client brings back with its answer.
    pub(super) fn asked(&self, question: u64, at: u64) -> AskedBefore {
        AskedBefore { process: self.process, question, at }
    }

    /// Returns whether this process has asked the question.
    pub(super) fn has_asked(&self, asked: AskedBefore) -> bool {
        asked.process == self.process
    }

    /// Returns the lock that a question in a session holds while it is open.
    pub(super) fn turn(&self, conversation: ConversationId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = lock(&self.turns);
        if let Some(turn) = turns.get(&conversation).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(conversation, Arc::downgrade(&turn));
        turn
    }
}

impl fmt::Debug for CallApprovals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallApprovals")
            .field("approvals", &self.approvals)
            .field("is_on", &self.is_on)
            .finish_non_exhaustive()
    }
}

impl AskedBefore {
    /// Returns the key of the question. A client cannot know it before it was asked.
    pub(super) fn key(self) -> String {
        format!("approval-{:x}-{}", self.process, self.question)
    }

    pub(super) fn question(self) -> u64 {
        self.question
    }

    /// Returns the time since the question, given the milliseconds since 1970.
    pub(super) fn age(self, now: u64) -> Duration {
        Duration::from_millis(now.saturating_sub(self.at))
    }
}

impl Drop for UpstreamAsks<'_> {
    fn drop(&mut self) {
        let mut asking = lock(&self.approvals.upstreams_ask);
        if let Some(open) = asking.get_mut(&self.conversation) {
            *open -= 1;
            if *open == 0 {
                asking.remove(&self.conversation);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
