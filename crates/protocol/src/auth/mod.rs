//! What client and server share of authorization: challenges, metadata, signed tokens.
//!
//! The client's half is `client::oauth` (feature `oauth`), the server's is `server::auth` (feature `resource-server`).

mod challenge;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod fetch;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod metadata;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod provider;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
mod secret;
#[cfg(feature = "oauth")]
mod signing_key;

pub use self::challenge::Challenge;
#[cfg(any(feature = "oauth", feature = "resource-server"))]
pub(crate) use self::fetch::{Fetcher, Reach};
#[cfg(feature = "resource-server")]
pub(crate) use self::provider::verify;
#[cfg(feature = "oauth")]
pub use self::signing_key::{Algorithm, SigningKey, SigningKeyError};
#[cfg(feature = "oauth")]
pub(crate) use self::{fetch::Answer, signing_key::base64url};
#[cfg(any(feature = "oauth", feature = "resource-server"))]
pub use self::{metadata::ResourceMetadata, secret::Secret};
