//! Questions that a server asks its client: their kinds, and how each protocol era transports them
//! (as requests in a session, or stateless in `input_required` results).

pub(super) mod session;
pub(super) mod stateless;
