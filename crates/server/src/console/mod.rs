//! The console of this server. Without the feature `console`, the module has the same functions, which do nothing.

#[cfg(not(feature = "console"))]
mod absent;
#[cfg(feature = "console")]
mod artifacts;
#[cfg(feature = "console")]
mod backend;
#[cfg(all(feature = "console", feature = "knowledge"))]
mod chat;
#[cfg(feature = "console")]
mod decision;
#[cfg(feature = "console")]
mod options;
#[cfg(feature = "console")]
mod present;
#[cfg(feature = "console")]
mod upstreams;

#[cfg(not(feature = "console"))]
pub(crate) use self::absent::{CallRecord, ListListener, Recorder};
#[cfg(all(feature = "console", feature = "knowledge"))]
pub(crate) use self::chat::chat_routes;
#[cfg(feature = "console")]
pub(crate) use self::{
    artifacts::artifact_routes,
    backend::{ListListener, ServerBackend, watch_upstreams},
    options::console_options,
    present::{CallRecord, Recorder, WithLogins},
    upstreams::UpstreamObserver,
};
