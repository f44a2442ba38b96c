#![doc = include_str!("../README.md")]

pub mod expand;
mod keyring;
mod process;
mod reference;
mod secrets;

pub use crate::{
    reference::{Reference, ReferenceError},
    secrets::{Commands, MAX_BYTES, SecretError, SecretProblem, Secrets},
};
