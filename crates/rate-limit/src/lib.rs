#![doc = include_str!("../README.md")]

mod byte_rate;
mod keyed_rate;
mod log_limit;
mod token_bucket;

pub use crate::{
    byte_rate::ByteRate, keyed_rate::KeyedRate, log_limit::LogLimit, token_bucket::TokenBucket,
};
