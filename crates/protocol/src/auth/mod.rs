//! What client and server share of authorization: challenges, metadata, signed tokens.
//!
//! The client's half is `client::oauth` (feature `oauth`), the server's is `server::auth` (feature `resource-server`).

mod challenge;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod fetch;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod jose;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod metadata;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod secret;

pub use self::challenge::Challenge;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
pub(crate) use self::fetch::{Answer, Fetcher, Reach};
#[cfg(feature = "oauth")]
pub(crate) use self::jose::base64url;
#[cfg(feature = "oauth")]
pub use self::jose::{Algorithm, SigningKey, SigningKeyError};
#[cfg(any(feature = "oauth", feature = "resource-server"))]
pub use self::{metadata::ResourceMetadata, secret::Secret};
