//! Limits of reading artifacts.

use std::num::NonZeroUsize;

use tokio::sync::Semaphore;

use crate::kib;

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
}

impl ReadLimits {
    /// Returns the budget of whole reads: a permit for each KiB.
    pub(crate) fn whole_reads(&self) -> Semaphore {
        Semaphore::new(kib(self.max_resource_reads_bytes.get() as u64) as usize)
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
        }
    }
}

fn nonzero(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("every default above is more than zero")
}
