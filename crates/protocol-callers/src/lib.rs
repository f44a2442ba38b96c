#![doc = include_str!("../README.md")]

mod caller;
pub mod fair;
mod principal;

pub use crate::{caller::Caller, principal::Principal};
