//! Limits of the console.

use std::{path::PathBuf, time::Duration};

use marquetry_apps_ext::{
    host::Limits,
    types::{Permission, Permissions},
};

/// The limits of the console.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Calls that are kept: 1,000.
    pub max_calls: usize,
    /// Maximum size of all stored calls together, in bytes: 64 MiB. Arguments, an answer or a
    /// report may take an eighth of it; of a larger one only the size is kept.
    pub max_calls_bytes: usize,
    /// Events that are kept for pages that lost their connection: 10,000.
    pub max_events: usize,
    /// Messages that are kept: 2,000.
    pub max_messages: usize,
    /// Maximum size of all stored messages together, in bytes: 16 MiB. The first 64 KiB of a
    /// message are kept.
    pub max_messages_bytes: usize,
    /// Pages that may read events at a time: 64. One viewer may have a quarter of them.
    pub max_streams: usize,
    /// The folder in which administrators save calls as scenarios. With `None` they cannot.
    pub scenarios_directory: Option<PathBuf>,
    /// Options of Views.
    pub views: ViewOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_calls: 1_000,
            max_calls_bytes: 64 << 20,
            max_events: 10_000,
            max_messages: 2_000,
            max_messages_bytes: 16 << 20,
            max_streams: 64,
            scenarios_directory: None,
            views: ViewOptions::default(),
        }
    }
}

/// Options of Views: their number, sizes and times.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ViewOptions {
    /// The most Views that are open: 32. One viewer may have a quarter of them.
    pub max_views: usize,
    /// The largest document of a View, in bytes: 10 MiB.
    pub max_html_bytes: usize,
    /// A View whose page answers nothing for this long is removed: 60 s. The page is asked three
    /// times in it.
    pub idle: Duration,
    /// Time in which the page has to open the socket of a View: 30 s.
    pub ticket_time: Duration,
    /// Browser permissions that Views may ask for: writing to the clipboard.
    pub permissions: Permissions,
    /// Limits of one View.
    pub limits: Limits,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            max_views: 32,
            max_html_bytes: 10 << 20,
            idle: Duration::from_mins(1),
            ticket_time: Duration::from_secs(30),
            permissions: Permissions::NONE.with(Permission::ClipboardWrite),
            limits: Limits::default(),
        }
    }
}
