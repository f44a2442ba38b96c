#![doc = include_str!("../README.md")]

mod files;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(feature = "protocol")]
mod handshake;
mod tls;
mod validity;

pub use tokio_rustls::server::TlsStream;

#[cfg(feature = "protocol")]
pub use crate::handshake::TlsHandshake;
pub use crate::{
    files::{TlsError, TlsFiles},
    tls::{Refresh, Tls},
};
