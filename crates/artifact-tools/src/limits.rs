//! Limits of reading artifacts.

use std::{num::NonZeroUsize, time::Duration};

use marquetry_tokens::beginning_within;
use tokio::sync::Semaphore;

use crate::{DEFAULT_TOKENS, permits_for};

/// Limits of `read_artifact` and `resources/read`: the largest answers, and the memory that all
/// `resources/read` may use together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadLimits {
    /// Text that `read_artifact` returns when a call names no limit, in bytes; 16 KiB by default.
    pub default_bytes: NonZeroUsize,
    /// Largest limit that a call of `read_artifact` may name, in bytes; 256 KiB by default.
    pub max_bytes: NonZeroUsize,
    /// Largest image that `read_artifact` returns as an image, in bytes after decoding; 3.75 MiB by
    /// default. Models do not accept much larger ones.
    pub max_image_bytes: NonZeroUsize,
    /// Largest artifact that `resources/read` returns whole, in bytes; 16 MiB by default.
    pub max_resource_bytes: NonZeroUsize,
    /// Artifacts in memory for `resources/read`, for all callers together, in bytes; 64 MiB by
    /// default. Further reads wait.
    pub max_resource_reads_bytes: NonZeroUsize,
    /// Time that a read or query waits for the memory of others before it fails; 10 seconds by
    /// default.
    pub max_wait: Duration,
    /// Time of one search or query with the reading of its artifact; 30 seconds by default. Queries
    /// end earlier, except inside of a function of SQL, which cannot be stopped.
    pub max_work: Duration,
}

impl ReadLimits {
    /// Returns the budget of whole reads: a permit for each KiB.
    pub(crate) fn whole_reads(&self) -> Semaphore {
        Semaphore::new(permits_for(self.max_resource_reads_bytes.get() as u64) as usize)
    }
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            default_bytes: nonzero(16 << 10),
            max_bytes: nonzero(256 << 10),
            max_image_bytes: nonzero(3_932_160),
            max_resource_bytes: nonzero(16 << 20),
            max_resource_reads_bytes: nonzero(64 << 20),
            max_wait: Duration::from_secs(10),
            max_work: Duration::from_secs(30),
        }
    }
}

fn nonzero(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("every default above is more than zero")
}

/// How much text an answer shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TextLimit {
    /// The call asks for at most this many bytes.
    Bytes(usize),
    /// The call asks for no size: at most this many bytes, and at most [`DEFAULT_TOKENS`] with the
    /// note.
    Default(usize),
}

impl TextLimit {
    /// Returns the limit of a call that may ask for a size.
    pub(crate) fn new(asked: Option<u64>, default: NonZeroUsize, max: NonZeroUsize) -> Self {
        match asked {
            Some(asked) => {
                Self::Bytes(usize::try_from(asked).unwrap_or(max.get()).clamp(1, max.get()))
            }
            None => Self::Default(default.min(max).get()),
        }
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Bytes(bytes) | Self::Default(bytes) => bytes,
        }
    }

    /// Returns the limit for bytes that are shown as base64, which has 2 tokens for 3 characters.
    pub(crate) fn in_binary_bytes(self) -> usize {
        const DEFAULT_BYTES: usize = 2_048;
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Default(bytes) => bytes.min(DEFAULT_BYTES),
        }
    }

    /// Returns the limit in bytes for a text.
    pub(crate) fn in_bytes_of(self, text: &str) -> usize {
        /// Tokens of the longest note.
        const NOTE_TOKENS: u64 = 200;
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Default(bytes) => {
                let fitting = beginning_within(text, DEFAULT_TOKENS - NOTE_TOKENS);
                bytes.min(fitting.len())
            }
        }
    }

    /// Returns whether an answer shows all of a text.
    pub(crate) fn fits(self, text: &str) -> bool {
        text.len() <= self.in_bytes_of(text)
    }
}
