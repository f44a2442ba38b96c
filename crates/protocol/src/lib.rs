//! The Model Context Protocol: server and client, every transport, session-era and stateless revisions.
//!
//! …

#[cfg(feature = "client")]
pub mod client;
mod envelope;
mod error;
#[cfg(any(feature = "server", feature = "client"))]
mod line;
mod nesting;
mod revision;
#[cfg(feature = "server")]
pub mod server;
pub mod types;

pub use crate::{
    envelope::{
        DEFAULT_MAX_NESTING, EnvelopeError, Message, Notification, Request, RequestId, Response, write_error,
        write_notification, write_request, write_result,
    },
    error::{RpcError, error_code},
    nesting::nested_deeper_than,
    revision::{Era, Revision, UnknownRevision},
};
