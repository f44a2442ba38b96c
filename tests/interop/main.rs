//! The built binary against programs that others wrote: the official clients in front of it, real servers behind it,
//! PlantUML beside it.
//!
//! `tests/interop/install` fetches what these tests need. What is missing is skipped, loudly; with `CI=true` it fails.

mod clients;
mod corpus;
mod diagrams;
mod knowledge;
mod matrix;
mod programs;
mod seven;
mod upstreams;
