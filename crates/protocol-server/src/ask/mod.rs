//! Questions of a server to its client: what can be asked, and how in each era.

pub(super) mod question;
pub(super) mod session;
pub(super) mod stateless;
