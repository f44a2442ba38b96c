//! Closes a View.

use marquetry_protocol::types::JsonObject;

use super::{Bridge, Phase};
use crate::{
    host::{
        app_tools::AppCallError,
        effect::{Effect, RemoveReason},
        outgoing::RequestKind,
    },
    types::method,
};

impl Bridge {
    /// Asks the View to save its state, and removes it after that. A View that is not ready may not
    /// be sent any message, so it is removed at once.
    pub(super) fn tear_down(&mut self, reason: &str) {
        match self.phase {
            Phase::Ready => {
                self.give_up_questions();
                for (token, waiting) in self.incoming.drain() {
                    self.effects.push(Effect::Cancel { token });
                    self.answer(&waiting.id, Err(Self::closing_error()));
                }
                let mut params = JsonObject::new();
                params.insert("reason".to_owned(), reason.into());
                self.ask(RequestKind::Teardown, method::RESOURCE_TEARDOWN, params);
                self.phase = Phase::TearingDown;
            }
            Phase::Created | Phase::Loading | Phase::Initializing => {
                self.remove(RemoveReason::Closed);
            }
            Phase::TearingDown | Phase::Closed => {}
        }
    }

    /// Removes the View: nothing is sent to it any more, and its tools are removed.
    pub(super) fn remove(&mut self, reason: RemoveReason) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.give_up_questions();
        for (token, _) in self.incoming.drain() {
            self.effects.push(Effect::Cancel { token });
        }
        self.effects.push(Effect::Remove(reason));
    }

    fn give_up_questions(&mut self) {
        for asked in self.outgoing.drain() {
            match asked.what {
                RequestKind::CallTool { call } => self.app_answer(call, Err(AppCallError::Closed)),
                RequestKind::Ping => self.effects.push(Effect::Alive(false)),
                RequestKind::Teardown | RequestKind::ListTools => {}
            }
        }
        if self.app_tools.clear() {
            self.effects.push(Effect::AppTools(Vec::new()));
        }
    }
}
