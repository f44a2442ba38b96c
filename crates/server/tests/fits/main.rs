//! Tests of answers that fit: those of the built-in tools, and projections of upstreams' answers.

mod own_answers;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "the other tests of this crate use the rest")]
mod support;
