#![doc = include_str!("../README.md")]

mod chain;
mod error;
mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod log;
mod options;
mod queue;
mod shared;
mod tail;
mod verify;
mod writer;

pub use crate::{
    chain::LineHash,
    error::AuditError,
    log::{AuditLog, AuditStatus},
    options::{AuditOptions, OnError, OnFull},
    verify::{LineProblem, Verified, VerifyError, files_of, verify, verify_log},
};
