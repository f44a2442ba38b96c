//! The crate from outside: answers in, artifacts and answers out.

mod bad_input;
mod decision;
mod hostile;
mod images;
#[cfg(feature = "directory")]
mod killed;
mod outcomes;
mod properties;
mod proposals;
mod seed;
mod shared_directory;
mod snapshots;
mod support;
