#![doc = include_str!("../README.md")]

mod blocking;
mod error;
mod label;
#[cfg(feature = "libsql")]
pub mod libsql;
#[cfg(feature = "postgres")]
pub mod postgres;

pub use crate::{
    blocking::blocking,
    error::{DatabaseError, DatabaseStoreError},
    label::label_hash,
};
