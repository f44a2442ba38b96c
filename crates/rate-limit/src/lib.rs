#![doc = include_str!("../README.md")]

mod log_limit;
mod token_bucket;

pub use crate::{log_limit::LogLimit, token_bucket::TokenBucket};
