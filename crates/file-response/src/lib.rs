#![doc = include_str!("../README.md")]

mod headers;
mod range;

pub use crate::{
    headers::{InlineDisplay, set_file_headers},
    range::{Part, is_known},
};
