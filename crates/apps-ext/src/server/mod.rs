//! The server half: Views, the tools that are shown in them, and a
//! [`Handler`](marquetry_protocol::server::Handler) that adds the extension to any other handler.
//!
//! ```
//! use marquetry_apps_ext::server::{Apps, View};
//! use marquetry_protocol::server::{Server, Toolbox};
//!
//! # async fn _doc() {
//! let toolbox = Toolbox::new("clock", "1.0.0")
//!     .tool("clock", "Tells the time.", async |(): (), _| "12:00");
//! let html = "<!doctype html><title>Clock</title><h1>…</h1>";
//!
//! let apps = Apps::new()
//!     .view("ui://clock/page.html", View::html(html))
//!     .show("clock", "ui://clock/page.html");
//! let server = Server::new(apps.wrap(toolbox));
//! # }
//! ```
//!
//! # Clients with and without Views
//!
//! A client supports Views if it declares the extension with the MIME type of Views: in
//! `initialize`, or since 2026-07-28 in each request. [`AppsHandler`] then advertises the
//! extension, lists the Views among the resources, and links tools to them in the present form
//! (`_meta.ui`) and in the older one (`_meta["ui/resourceUri"]`).
//!
//! Other clients get neither the extension, nor Views in lists, nor metadata of Views in tools and
//! results, nor Views inside of results, nor the tools that only Views call, which they cannot call
//! either. But every client can read a View by its URI, because some hosts read Views without
//! declaring the extension.
//!
//! [`Gating::Always`] treats every client as one with Views, for hosts that do not declare the
//! extension.

mod apps;
mod compose;
mod content;
mod handler;
mod view;

pub use self::{
    apps::{AppOnlyTools, Apps, Gating},
    handler::AppsHandler,
    view::{View, ViewError},
};
