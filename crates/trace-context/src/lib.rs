#![doc = include_str!("../README.md")]

mod context;

pub use crate::context::TraceContext;
