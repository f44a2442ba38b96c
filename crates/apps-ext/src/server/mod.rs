//! The server half: Views, the tools that are shown in them, and a
//! [`Handler`](marquetry_protocol::server::Handler) that adds the extension to any other handler.
//!
//! ```
//! use marquetry_apps_ext::server::{Apps, View};
//! use marquetry_protocol::server::{Server, Toolbox};
//!
//! # async fn _doc() {
//! let toolbox = Toolbox::new("clock", "1.0.0").tool("clock", "Tells the time.", async |(): (), _| "12:00");
//! let html = "<!doctype html><title>Clock</title><h1>…</h1>";
//!
//! let apps = Apps::new().view("ui://clock/page.html", View::html(html)).show("clock", "ui://clock/page.html");
//! let server = Server::new(apps.on(toolbox));
//! # }
//! ```
//!
//! # What clients get
//!
//! A client has Views when it declares the extension with the MIME type of Views: in `initialize`,
//! or since 2026-07-28 in each request. [`AppsHandler`] then advertises the extension, lists the
//! Views among the resources, and links tools to them in the present form (`_meta.ui`) and in the
//! older one (`_meta["ui/resourceUri"]`).
//!
//! A client without Views gets a server of texts: no extension, no View in lists, no metadata of
//! Views in tools and results, and no tool that only Views call. Two things are the same for both
//! kinds of clients: they can read a View by its URI, because some hosts read Views without
//! declaring anything, and they can call every tool.
//!
//! [`Gating::Always`] treats every client as one with Views, for hosts that declare nothing.

mod apps;
mod compose;
mod handler;
mod view;

pub use self::{
    apps::{AppOnlyTools, Apps, Gating},
    handler::AppsHandler,
    view::{View, ViewError},
};
