//! Tests of the server from outside: real sockets, real child processes, real MCP servers as
//! upstreams.

mod approvals;
mod artifacts;
mod asking;
mod audit;
mod auth;
mod book;
mod bridge;
mod command_line;
mod connect;
mod console_chat;
mod console_events;
mod embed_tool;
#[cfg(feature = "transformer")]
mod embedding;
mod engine;
mod environment;
mod gateway;
mod gateway_rules;
mod health;
mod inbound_tls;
mod indexing;
mod knowledge;
mod library;
mod media;
mod metrics;
mod operation;
mod pins;
mod policy;
mod program;
mod reload;
mod rest;
mod sampling;
mod sampling_stream;
mod scripted;
#[cfg(unix)]
mod shell;
mod shutdown;
mod support;
mod test_command;
mod tool_search;
mod tools;
mod traces;
mod upstream;
