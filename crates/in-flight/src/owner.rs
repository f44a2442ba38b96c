//! The user that calls and links belong to.

use marquetry_protocol::server::{Caller, ConversationId, RequestContext};

/// The user that calls and links belong to, as far as requests tell users apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// An authenticated principal; or a client without a token and a session, by its address.
    Caller(Caller),
    /// One session of a client without a token: behind a proxy, several users have one address.
    Session(ConversationId),
}

impl Owner {
    /// Returns the owner of a request.
    #[must_use]
    pub fn of(cx: &RequestContext) -> Self {
        // A stateless request is a conversation of its own, which owns nothing beyond itself.
        match (cx.principal(), cx.announcer()) {
            (None, Some(_)) => Self::Session(cx.conversation()),
            _ => Self::Caller(cx.caller().clone()),
        }
    }
}
