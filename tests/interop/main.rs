//! The built binary together with other programs: official clients in front of it, real servers
//! behind it, PlantUML beside it.
//!
//! `tests/interop/install` installs what these tests need. A test whose program is missing prints a
//! line and is skipped; with `CI=true` it fails.

mod approvals;
mod clients;
mod corpus;
mod diagrams;
mod finding;
#[cfg(target_os = "linux")]
mod isolation;
mod knowledge;
mod matrix;
mod programs;
mod seven;
mod traces;
mod upstreams;
mod views;
