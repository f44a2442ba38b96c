//! The one MCP server that an agent connects to instead of its MCP servers.
//!
//! [`App`] is the whole server: the gateway to the upstream servers of its [`Config`], the capture of large and binary answers as artifacts,
//! the diagram tools, REST and health. The program `marquetry` is [`cli::run`] and nothing else.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let config = marquetry::Config::from_toml("[server]\nlisten = '127.0.0.1:0'", "example")?;
//! let listener = tokio::net::TcpListener::bind(config.server.listen).await?;
//! let app = marquetry::App::builder(config).start().await?;
//! let serving = tokio::spawn({
//!     let app = app.clone();
//!     async move { app.serve_http(listener).await }
//! });
//! app.shutdown().await;
//! serving.await??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Limits
//!
//! Every bound is a key of `[limits]`, `[gateway]` or `[server]` with a stated default; `marquetry.example.toml` lists them all. Without
//! `[auth]` the server lets everybody in who reaches it: it belongs on a loopback address then.
#![cfg_attr(
    not(feature = "cli"),
    expect(dead_code, unused_imports, reason = "the command line alone uses some of it")
)]

mod app;
mod changes;
#[cfg(feature = "cli")]
pub mod cli;
mod config;
mod front;
mod health;
mod home;
mod http;
mod knowledge;
#[cfg(feature = "cli")]
mod logging;
mod rest;
mod tools;
mod watched_store;

#[cfg(feature = "knowledge")]
pub use crate::config::{ChatConfig, EmbeddingConfig, EmbeddingProvider, KnowledgeConfig};
pub use crate::{
    app::{App, AppBuilder, StartError},
    config::{
        ArtifactPreset, ArtifactScope, ArtifactsConfig, AuthConfig, Capture, Config, ConfigError,
        GatewayConfig, Limits, LogConfig, LogFormat, LoginConfig, LoginGrant, Place,
        PlantUmlConfig, Prefix, Separator, ServerConfig, StoreKind, TestingConfig, TokenConfig,
        ToolConfig, ToolFilter, ToolsConfig, Transport, UpstreamConfig,
    },
};
