//! The routes of the console, the data that it shows, and the recording of calls for it.

mod artifacts;
mod backend;
mod chat;
mod decision;
mod options;
mod recorder;
mod upstreams;

pub(crate) use self::{
    artifacts::artifact_routes,
    backend::{ListListener, ServerBackend},
    chat::chat_routes,
    options::console_options,
    recorder::{CallRecord, ConsoleLoginAuthenticator, Recorder},
    upstreams::UpstreamObserver,
};
