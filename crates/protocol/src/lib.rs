#![doc = include_str!("../README.md")]

#[cfg(feature = "client")]
#[doc(inline)]
pub use marquetry_protocol_client as client;
#[cfg(feature = "server")]
#[doc(inline)]
pub use marquetry_protocol_server as server;
#[cfg(any(feature = "http", feature = "http-client"))]
#[doc(inline)]
pub use marquetry_protocol_wire::auth;
#[doc(inline)]
pub use marquetry_protocol_wire::types;
pub use marquetry_protocol_wire::{
    Batch, DEFAULT_MAX_NESTING, EnvelopeError, Era, Feature, Incoming, Message, Notification,
    Request, RequestId, Response, ResultKind, Revision, RpcError, UnknownRevision, error_code,
    join_description_lines, nested_deeper_than, null_members::remove_null_members,
    object::ObjectText, parsed_size, shortened, write_error, write_notification, write_request,
    write_result,
};
