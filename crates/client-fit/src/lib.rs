#![doc = include_str!("../README.md")]

mod clients;
#[cfg(test)]
mod views;

pub use crate::clients::{Client, Clients};
