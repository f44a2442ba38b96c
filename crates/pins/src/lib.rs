#![doc = include_str!("../README.md")]

mod definition;
mod error;
mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod lock;
mod mode;
mod record;
mod snapshot;
mod store;

pub use crate::{
    definition::{Definition, DefinitionHash, Kind},
    error::{MAX_FILE_BYTES, PinError},
    file::{AcceptedPin, PinFile, PinnedItem, StoredDefinition},
    mode::PinMode,
    record::{PinChange, PinEvent},
    snapshot::Verdict,
    store::{PinStore, accept, forget},
};
