//! Files and folders into records and chunks.

#![cfg(unix)]

mod bad;
mod change;
#[expect(dead_code, reason = "not every kind of document is needed here")]
#[path = "../../../extract/tests/extraction/support/mod.rs"]
mod documents;
#[cfg(feature = "libsql")]
mod full;
mod walk;
mod world;
