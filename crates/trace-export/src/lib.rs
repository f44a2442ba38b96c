#![doc = include_str!("../README.md")]

mod client;
mod exporter;
mod sampling;

pub use crate::exporter::{TraceExportError, TraceExporter};
