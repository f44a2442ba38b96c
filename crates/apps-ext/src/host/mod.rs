//! The host half, for programs that show Views.
//!
//! [`Bridge`] is the state machine between a View and a host. [`Sandbox`] turns the metadata of a
//! View into a policy that a browser enforces. [`repair`] completes JSON that is still being
//! written.

mod app_tools;
mod audit;
mod bridge;
mod call_delivery;
mod consent;
mod context;
mod document;
mod download;
mod effect;
mod incoming;
mod limits;
mod link;
mod log;
mod model_context;
mod outgoing;
mod repair;
mod sampling;
mod sandbox;
mod server_tools;
mod size;
mod user_message;

pub use self::{
    app_tools::{AppCallError, AppTool},
    audit::{AuditRecord, Direction, MessageKind, Verdict},
    bridge::{Bridge, BridgeOptions, Phase},
    document::{ViewDocument, ViewDocumentError},
    download::{DownloadContent, DownloadFile},
    effect::{Effect, Event, HostRequest, Lists, RemoveReason, RequestToken},
    limits::Limits,
    link::{LinkError, check_link},
    log::LogEntry,
    model_context::ModelContext,
    repair::repair,
    sandbox::{
        DEFAULT_SANDBOX_ATTRIBUTE, OriginError, Sandbox, SandboxOptions, SandboxProblem,
        SandboxResource,
    },
    server_tools::{model_content, model_tools},
    size::Size,
    user_message::UserMessage,
};
