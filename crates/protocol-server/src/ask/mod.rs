//! Questions of a server to its client: their kinds, and their transport in each era (with sessions
//! and stateless).

pub(super) mod question;
pub(super) mod session;
pub(super) mod stateless;
