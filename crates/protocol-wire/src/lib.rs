#![doc = include_str!("../README.md")]

pub mod auth;
mod comparable;
mod descriptions;
pub mod downgrade;
pub mod envelope;
mod error;
mod feature;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod header_arguments;
#[cfg(feature = "line")]
pub mod line;
pub mod members;
mod nesting;
pub mod null_members;
mod numbers;
pub mod object;
mod page;
mod parsed_size;
pub mod question;
mod result_kind;
mod revision;
mod scan;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "http")]
pub mod standard_headers;
mod surrogates;
#[cfg(feature = "schema")]
mod tool_schema;
pub mod types;

#[cfg(feature = "schema")]
pub use crate::tool_schema::{SchemaError, ToolSchema};
pub use crate::{
    comparable::comparable,
    descriptions::join_description_lines,
    envelope::{
        Batch, DEFAULT_MAX_NESTING, EnvelopeError, Incoming, Message, Notification, Request,
        RequestId, Response, write_error, write_notification, write_request, write_result,
    },
    error::{RpcError, error_code, shortened},
    feature::Feature,
    nesting::{nested_deeper_than, without_deep_values},
    numbers::{has_long_integers, with_finite_numbers, without_non_numbers},
    page::page,
    parsed_size::parsed_size,
    result_kind::ResultKind,
    revision::{Era, Revision, UnknownRevision},
    surrogates::without_unpaired_surrogates,
};
