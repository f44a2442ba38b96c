#![doc = include_str!("../README.md")]

mod byte_rate;
mod log_limit;
mod token_bucket;

pub use crate::{byte_rate::ByteRate, log_limit::LogLimit, token_bucket::TokenBucket};
