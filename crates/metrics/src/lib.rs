#![doc = include_str!("../README.md")]

mod family;
mod format;
mod process;
mod registry;

pub use crate::{
    format::Format,
    process::process_metrics,
    registry::{Counter, Gauge, Histogram, Registry},
};
