//! Questions of a server to its client: their kinds, and how each era transports them.

pub(super) mod question;
pub(super) mod session;
pub(super) mod stateless;
