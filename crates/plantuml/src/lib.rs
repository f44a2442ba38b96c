//! PlantUML diagram text to and from the codes that stand in diagram URLs.
//!
//! ```
//! use marquetry_plantuml::{DecodeOptions, EncodeOptions, Format, Server, Source, decode, encode};
//!
//! let source = Source::new("@startuml\nA --> B\n@enduml")?;
//! let code = encode(source, &EncodeOptions::default());
//! let url = Server::default().url(&code, Format::Svg);
//! assert_eq!(url.as_str(), "https://www.plantuml.com/plantuml/svg/SrJGrRLJS080");
//! assert_eq!(url.warning(), None);
//!
//! // A code says nothing of a bare wrapper; servers put it back, and so does this option.
//! let options = DecodeOptions { restore_wrapper: true, ..DecodeOptions::default() };
//! assert_eq!(decode(url.as_str(), &options)?, source.as_str());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a code is
//!
//! UTF-8, compressed as raw DEFLATE, written in PlantUML's own alphabet (`0-9A-Za-z-_`), four characters for three
//! bytes. A [`Code`] is always padded to a multiple of four characters and never starts with `0`: some decoders need
//! the padding, and PlantUML 1.2020 takes a leading `0` for Brotli. Equal text gives equal codes.
//!
//! # Limits
//!
//! - A [`Source`] is not blank and has at most [`Source::MAX_BYTES`] of UTF-8.
//! - [`decode`] gives at most [`DecodeOptions::max_bytes`], whatever its input unpacks to, and never panics.
//! - DEFLATE carries no checksum. A code that was cut short is refused in most cases, but one that lost only its last
//!   few characters may decode to damaged text, here as on a server.
//! - A server trims white space around the diagram and forgets what follows `@startuml` on its line. [`decode`] keeps
//!   both.
//! - Long URLs are refused by servers; [`DiagramUrl::warning`] tells from [`DiagramUrl::WARN_LENGTH`] on.
//!
//! The crate is pure: it opens no socket and no file, reads no clock and starts no process.

mod alphabet;
mod decode;
mod deflate;
mod encode;
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

/// For the fuzz targets alone, which need to reach below the public functions. Not part of the API.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::{alphabet::encode as write_alphabet, deflate::fixed_block};
}
