//! The one MCP server that an agent connects to instead of its MCP servers.

mod config;

pub use crate::config::{
    ArtifactsConfig, Capture, CaptureSettings, Config, ConfigError, GatewayConfig,
    IntelligentProcessing, Limits, LogConfig, LogFormat, Oversize, Place, PlantUmlConfig, Prefix,
    Separator, ServerConfig, StoreKind, TestingConfig, ToolConfig, Transport, UpstreamConfig,
};
