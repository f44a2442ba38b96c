#![doc = include_str!("../README.md")]

mod alphabet;
mod decode;
mod deflate;
mod encode;
#[cfg(feature = "engine")]
pub mod engine;
mod inflate;
mod source;
mod url;
mod wrapper;

pub use crate::{
    decode::{DecodeError, DecodeOptions, decode},
    encode::{Code, EncodeOptions, encode},
    inflate::Compression,
    source::{Source, SourceError},
    url::{DiagramUrl, Format, LongUrl, Server, ServerError, UnknownFormat},
};

/// Internal functions for tests and fuzz targets. Not part of the API.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::{alphabet::encode as write_alphabet, deflate::fixed_block};
}
