//! What client and server share of authorization: challenges, metadata, signed tokens.
//!
//! The client's half is `client::oauth` (feature `oauth`), the server's is `server::auth` (feature `resource-server`).

mod challenge;

pub use self::challenge::Challenge;
