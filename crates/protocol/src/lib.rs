//! The Model Context Protocol: server and client, over pipes, Streamable HTTP and HTTP+SSE, in every
//! revision from 2024-10-07 on: with sessions (until 2025-11-25) and without (2026-07-28).
//!
//! ```toml
//! [dependencies]
//! marquetry-protocol = { version = "0.1", default-features = false, features = ["stdio", "typed"] } # or all, by default
//! schemars = "1"
//! serde = { version = "1", features = ["derive"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! A server with one typed tool; its schema comes from the type, and arguments are checked against it:
//!
//! ```no_run
//! use marquetry_protocol::server::{Server, Toolbox, serve_stdio};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     let tools = Toolbox::new("adder", "1.0.0").tool("add", "Adds two numbers.", async |add: Add, _| {
//!         add.a.checked_add(add.b).map(|sum| sum.to_string()).ok_or("the sum is too large")
//!     });
//!     serve_stdio(&Server::new(tools), Default::default()).await
//! }
//! ```
//!
//! And a client, here of that server, on a pipe in the same process:
//!
//! ```
//! # #[derive(serde::Deserialize, schemars::JsonSchema)]
//! # struct Add { a: i64, b: i64 }
//! # use marquetry_protocol::{client::{CallOptions, Client, ClientOptions}, server::{Server, Toolbox, serve_pipe}, types::CallToolParams};
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let tools = Toolbox::new("adder", "1.0.0").tool("add", "Adds.", async |add: Add, _| Ok::<_, String>((add.a + add.b).to_string()));
//! # let (reader, output) = tokio::io::simplex(4096);
//! # let (input, writer) = tokio::io::simplex(4096);
//! # tokio::spawn(async move { serve_pipe(&Server::new(tools), input, output, Default::default()).await });
//! let client = Client::connect(reader, writer, ClientOptions::default()).await?;
//! let call = CallToolParams::new("add", &serde_json::json!({ "a": 1, "b": 2 }))?;
//! let answer = client.call_tool(&call, CallOptions::default()).await?;
//! assert!(answer.get().contains(r#""text":"3""#));
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//! - One server answers both eras on one endpoint: a request that names a stateless revision in its `_meta` is
//!   stateless, one that starts with `initialize` opens a session. Handlers see no difference but
//!   [`RequestContext::revision`](server::RequestContext::revision).
//! - A handler speaks the newest revision; what an older one lacks is left out of what its client gets, with the
//!   nearest text instead ([`Feature`] has the table).
//! - [`RequestContext::elicit`](server::RequestContext::elicit) and its like ask the client, in both eras.
//! - Long calls can go on as tasks: a server says so of a tool ([`Toolbox::task_tool`](server::Toolbox::task_tool),
//!   [`Handler::task_options`](server::Handler::task_options)) or in the middle of a call
//!   ([`RequestContext::run_as_task`](server::RequestContext::run_as_task)); a client follows them to their end, or
//!   holds them ([`Client::start_tool`](client::Client::start_tool)).
//! - Arguments and results of tools are checked against their JSON Schemas (2020-12), compiled once: a server's by
//!   [`Handler::tool_schema`](server::Handler::tool_schema), a client's from the tools that it has listed.
//! - With the feature `skills` a client lists skills of servers and loads them (`Client::list_skills`): each file when
//!   it is needed, and only if it is what it was listed as.
//! - Every queue and size is bounded: see [`server::Limits`] and [`client::ClientOptions`]. Over a limit there is an
//!   error that names it, and the connection goes on.
//! - Dropping the future of a call cancels it at the other side, all the way down.
//! - Results can pass through as raw JSON ([`server::Reply::raw`]): they are not parsed again.
//! - Without features there are the [`types`] and the [envelope](Message) alone, on serde.

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
    Request, RequestId, Response, Revision, RpcError, UnknownRevision, error_code,
    nested_deeper_than, shortened, write_error, write_notification, write_request, write_result,
};
