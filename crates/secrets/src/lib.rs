#![doc = include_str!("../README.md")]

pub mod expand;
mod keyring;
mod problem;
mod process;
mod reference;
mod secrets;

pub use crate::{
    problem::{MAX_BYTES, SecretError, SecretProblem},
    reference::{Reference, ReferenceError},
    secrets::{Commands, Secrets},
};
