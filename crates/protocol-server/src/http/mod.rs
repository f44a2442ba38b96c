//! Streamable HTTP: one endpoint for both eras.
//!
//! A session-era client opens a session with `initialize` and names it in `Mcp-Session-Id`; a
//! stateless client sends everything with each request. An answer without messages before it is
//! plain JSON, any other is a stream of server-sent events.

mod accept;
mod authentication;
mod body;
mod client_stream;
mod connection;
mod endpoint;
#[cfg(test)]
mod ends;
mod guard;
mod legacy;
mod paced_body;
mod pulse;
mod receive;
mod replay;
mod request_body;
mod response;
mod running;
mod sessions;

pub use self::{
    accept::{Handshake, Secured, Serve, ServeOptions, serve},
    authentication::{Authenticator, Denial},
    body::ResponseBody,
    client_stream::ClientSocket,
    connection::ConnectionInfo,
    endpoint::{HttpEndpoint, HttpOptions, SelectedProfile},
    guard::{HostGuard, Refusal},
    legacy::LegacySseEndpoint,
    receive::{ReceiveError, Received},
    request_body::RequestBody,
};
