//! The Model Context Protocol.
//!
//! …

mod envelope;
mod error;
mod nesting;
mod revision;
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
