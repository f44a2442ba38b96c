//! State that all messages of one client share.

use std::sync::{Arc, Mutex, OnceLock};

use marquetry_protocol_wire::{
    Revision,
    types::{ClientCapabilities, Implementation, LogLevel},
};
use tokio_util::sync::CancellationToken;

use super::{
    Peer, Principal, ask::session::Questions, conversation_id::ConversationId, in_flight::InFlight,
    notifier::Listener, subscriptions::Subscriptions,
};

/// The messages of one pipe, of one HTTP session, or of all stateless HTTP requests.
pub(super) struct Conversation {
    /// Set by `initialize`, once.
    pub(super) session: OnceLock<SessionFacts>,
    pub(super) id: Option<Arc<str>>,
    /// The owner. Only HTTP checks it.
    pub(super) principal: Option<Arc<Principal>>,
    /// The selected profile of the server; see [`Peer::in_profile`](super::Peer::in_profile).
    pub(super) profile: Option<Arc<str>>,
    pub(super) number: ConversationId,
    pub(super) in_flight: Arc<InFlight>,
    /// Questions to the client.
    pub(super) questions: Arc<Questions>,
    /// The lowest level of log messages that the client wants; `info` by default.
    pub(super) log_level: Mutex<LogLevel>,
    /// Cancelled when the conversation ends, to end everything that would run for ever.
    pub(super) ending: CancellationToken,
}

/// The description that a client gives of itself. Shared, because it has many members, which are
/// the same in each request of a session.
#[derive(Default)]
pub(super) struct ClientFacts {
    /// Its name and version, which stateless clients may leave out.
    pub(super) info: Option<Implementation>,
    pub(super) capabilities: ClientCapabilities,
}

/// The facts that `initialize` has agreed on.
pub(super) struct SessionFacts {
    pub(super) revision: Revision,
    pub(super) client: Arc<ClientFacts>,
    /// Announcements that wait for the client.
    pub(super) listener: Arc<Listener>,
    pub(super) subscriptions: Arc<Subscriptions>,
}

impl Conversation {
    pub(super) fn new(id: Option<Arc<str>>, max_in_flight: usize) -> Self {
        let in_flight = Arc::new(InFlight::new(max_in_flight));
        Self {
            session: OnceLock::new(),
            id,
            principal: None,
            profile: None,
            number: ConversationId::next(),
            in_flight,
            questions: Arc::default(),
            log_level: Mutex::new(LogLevel::Info),
            ending: CancellationToken::new(),
        }
    }
}

impl Conversation {
    /// Sets the owner and the profile.
    pub(super) fn of_peer(self, peer: &Peer) -> Self {
        Self { principal: peer.principal.clone(), profile: peer.profile.clone(), ..self }
    }

    /// Ends the conversation: cancels requests in flight and drops waiting messages.
    pub(super) fn end(&self) {
        self.ending.cancel();
        self.in_flight.cancel_all();
        self.questions.give_up();
    }
}
