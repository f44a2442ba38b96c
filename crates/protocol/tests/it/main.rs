//! Client and server against each other, over every transport and in both eras.

mod asking;
mod bad_input;
mod bad_server;
mod caching;
mod child;
mod direct;
mod header_arguments;
mod http2;
mod http_client;
mod http_fallbacks;
mod http_heads;
mod http_rules;
mod inner;
mod load;
mod matrix;
mod metadata;
mod revisions;
mod schemas;
#[cfg(feature = "skills")]
mod skills;
mod support;
mod tasks;
#[cfg(feature = "tls")]
mod tls;
mod toolbox;
mod typed_client;
mod upgrade;
