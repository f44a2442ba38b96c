#![doc = include_str!("../README.md")]

mod caller;
pub mod fair;
mod in_place;
mod memory;
mod principal;
pub mod session_slots;

pub use crate::{caller::Caller, in_place::in_place, memory::RequestMemory, principal::Principal};
