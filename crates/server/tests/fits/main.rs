//! Tests of answers that fit: those of the built-in tools, projections of upstreams' answers, and
//! what both keep from models.

mod own_answers;
mod projections;
mod savings;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "the other tests of this crate use the rest")]
mod support;
mod upstream;
