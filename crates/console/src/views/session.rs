use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use marquetry_apps_ext::host::{AuditRecord, Bridge, BridgeOptions, Effect, Event, Phase, Sandbox};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{conversation::Conversation, effects::effect_for_page};
use crate::{Direction, Messages, NewMessage, ServerTools, Side, Viewer};

/// Effects that wait for the page: a page that reads none for this many is gone or hopeless.
const MAX_QUEUED: usize = 2_000;
/// What they may take together, in bytes.
const MAX_QUEUED_BYTES: usize = 32 << 20;
/// The newest records of messages that are kept.
const MAX_AUDIT: usize = 1_000;

/// One View that a page shows.
pub(super) struct Session {
    id: String,
    tool: String,
    server: ServerTools,
    viewer: Viewer,
    call: Option<String>,
    sandbox: Sandbox,
    prefers_border: Option<bool>,
    notes: Vec<String>,
    messages: Messages,
    started: Instant,
    state: Mutex<State>,
    news: Notify,
}

/// What a session is made of.
pub(super) struct Opening {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) server: ServerTools,
    pub(super) viewer: Viewer,
    pub(super) call: Option<String>,
    pub(super) sandbox: Sandbox,
    pub(super) prefers_border: Option<bool>,
    /// What a person should know of the View's metadata.
    pub(super) notes: Vec<String>,
    pub(super) bridge: BridgeOptions,
    pub(super) messages: Messages,
}

struct State {
    bridge: Bridge,
    /// The page has not fetched the frame's document.
    has_frame: bool,
    queue: VecDeque<(u64, Value, usize)>,
    queued_bytes: usize,
    last: u64,
    audit: VecDeque<AuditRecord>,
    seen_at: Instant,
}

impl Session {
    pub(super) fn new(opening: Opening) -> Self {
        let Opening {
            id,
            tool,
            server,
            viewer,
            call,
            sandbox,
            prefers_border,
            notes,
            bridge,
            messages,
        } = opening;
        let state = State {
            bridge: Bridge::new(bridge),
            has_frame: true,
            queue: VecDeque::new(),
            queued_bytes: 0,
            last: 0,
            audit: VecDeque::new(),
            seen_at: Instant::now(),
        };
        let (state, news, started) = (Mutex::new(state), Notify::new(), Instant::now());
        Self {
            id,
            tool,
            server,
            viewer,
            call,
            sandbox,
            prefers_border,
            notes,
            messages,
            started,
            state,
            news,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tool(&self) -> &str {
        &self.tool
    }

    pub(super) fn viewer(&self) -> &Viewer {
        &self.viewer
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    pub(super) fn seen_at(&self) -> Instant {
        self.state().seen_at
    }

    /// Whether the frame's document may be served; it may once.
    pub(super) fn take_frame(&self) -> bool {
        std::mem::take(&mut self.state().has_frame)
    }

    /// What the page has to know to show the View.
    pub(super) fn description(&self, sandbox_origin: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "tool": self.tool,
            "server": self.server.server,
            "frame": sandbox_origin.map(|origin| format!("{origin}/view/{}", self.id)),
            "allow": self.sandbox.allow_attribute(),
            "sandbox": self.sandbox.sandbox_attribute(),
            "policy": self.sandbox.policy(),
            "prefersBorder": self.prefers_border,
            "notes": self.notes,
        })
    }

    /// Takes a message of the View, as JSON text. Returns the number of the last effect.
    pub(super) fn receive(&self, text: &str, conversation: &Conversation) -> u64 {
        self.log(Direction::Received, text);
        let now = self.started.elapsed();
        self.act(|bridge| bridge.receive(now, text), conversation)
    }

    /// Takes something that happened on the page. Returns the number of the last effect.
    pub(super) fn handle(&self, event: Event, conversation: &Conversation) -> u64 {
        let now = self.started.elapsed();
        self.act(|bridge| bridge.handle(now, event), conversation)
    }

    fn act(
        &self,
        act: impl FnOnce(&mut Bridge) -> Vec<Effect>,
        conversation: &Conversation,
    ) -> u64 {
        let mut state = self.state();
        state.seen_at = Instant::now();
        for effect in act(&mut state.bridge) {
            self.take(&mut state, effect, conversation);
        }
        let is_full = state.queue.len() > MAX_QUEUED || state.queued_bytes > MAX_QUEUED_BYTES;
        if is_full && state.bridge.phase() != Phase::Closed {
            state.queue.clear();
            state.queued_bytes = 0;
            let now = self.started.elapsed();
            for effect in state.bridge.handle(now, Event::Gone) {
                self.take(&mut state, effect, conversation);
            }
        }
        let last = state.last;
        drop(state);
        self.news.notify_waiters();
        last
    }

    fn take(&self, state: &mut State, effect: Effect, conversation: &Conversation) {
        match &effect {
            Effect::Audit(record) => {
                if state.audit.len() == MAX_AUDIT {
                    state.audit.pop_front();
                }
                state.audit.push_back(record.clone());
                return;
            }
            Effect::Send(text) => self.log(Direction::Sent, text),
            Effect::SetModelContext(context) => {
                conversation.set_context(
                    self.viewer.owner.as_deref(),
                    &self.id,
                    &self.tool,
                    context.clone(),
                );
            }
            _ => {}
        }
        let Some(shown) = effect_for_page(&effect, &self.server) else { return };
        let bytes = match &effect {
            Effect::Send(text) | Effect::SendToSandbox(text) => text.len(),
            _ => 256,
        };
        state.last += 1;
        state.queued_bytes += bytes;
        let number = state.last;
        state.queue.push_back((number, shown, bytes));
    }

    /// Waits for effects after this number; at most for this time. The page has seen those up to it.
    pub(super) async fn effects(
        &self,
        after: u64,
        most: Duration,
        conversation: &Conversation,
    ) -> Value {
        let end = Instant::now() + most;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let deadline = {
                let mut state = self.state();
                state.seen_at = Instant::now();
                while state.queue.front().is_some_and(|(number, ..)| *number <= after) {
                    if let Some((.., bytes)) = state.queue.pop_front() {
                        state.queued_bytes -= bytes;
                    }
                }
                let is_closed = state.bridge.phase() == Phase::Closed;
                if !state.queue.is_empty() || is_closed || Instant::now() >= end {
                    let effects: Vec<_> = state
                        .queue
                        .iter()
                        .map(|(number, effect, _)| {
                            let mut effect = effect.clone();
                            effect["n"] = json!(number);
                            effect
                        })
                        .collect();
                    return json!({ "effects": effects, "closed": is_closed });
                }
                state.bridge.deadline()
            };
            let wake = deadline.map_or(end, |deadline| end.min(self.started + deadline));
            if tokio::time::timeout_at(wake.into(), news).await.is_err() {
                self.handle(Event::Tick, conversation);
            }
        }
    }

    /// The newest records of the View's messages.
    pub(super) fn audit(&self) -> Value {
        json!({ "records": self.state().audit })
    }

    /// What the page may ask at any time.
    pub(super) fn status(&self) -> Value {
        let state = self.state();
        json!({
            "mode": state.bridge.display_mode(),
            "modes": state.bridge.display_modes(),
            "app": state.bridge.app_info(),
            "ready": state.bridge.phase() == Phase::Ready,
        })
    }

    fn log(&self, direction: Direction, json: &str) {
        self.messages.push(&NewMessage {
            side: Side::View,
            direction,
            peer: &self.tool,
            owner: self.viewer.owner.as_deref(),
            call: self.call.as_deref(),
            bytes: json.len(),
            json,
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
