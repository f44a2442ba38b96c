//! Times in JSON and databases, and ids that sort by time.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A time, to the millisecond; RFC 3339 in JSON, such as `2026-11-22T21:50:00.000Z`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Timestamp(u64);

/// Year 9999: later times have no RFC 3339 form of the usual length.
const LAST: u64 = 253_402_300_799_999;

impl Timestamp {
    /// Returns the present time.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Returns the time that is this many milliseconds after the start of 1970 (UTC).
    pub fn from_millis(millis: u64) -> Self {
        Self(millis.min(LAST))
    }

    /// Returns the milliseconds since the start of 1970 (UTC).
    pub fn millis(self) -> u64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(u64::try_from(since.as_millis()).unwrap_or(LAST))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = UNIX_EPOCH + Duration::from_millis(self.0);
        humantime::format_rfc3339_millis(time).fmt(f)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let time = humantime::parse_rfc3339_weak(text);
        time.map(Self::from).map_err(|error| TimestampError(error.to_string()))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;

    fn try_from(text: String) -> Result<Self, TimestampError> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

/// A text is not a time in RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time such as 2026-11-22T21:50:00.000Z: {0}")]
pub struct TimestampError(String);

/// Returns an id that sorts by its creation time: exactly within a process, to the millisecond
/// between processes.
pub(crate) fn new_id() -> String {
    /// The last id: its time in milliseconds, and in the low 12 bits its number within that
    /// millisecond.
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = Timestamp::now().millis() << 12;
    let last = LAST
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 1)))
        .unwrap_or_default();
    let place = now.max(last + 1);
    let mut random = [0; 8];
    // Without random numbers ids of two processes may collide; the database then refuses the
    // second.
    _ = getrandom::fill(&mut random);
    format!("{place:014x}-{:016x}", u64::from_be_bytes(random))
}

/// Returns whether a text has the form of an id of [`new_id`].
pub(crate) fn is_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(time, random)| {
        time.len() >= 14 && random.len() == 16 && is_hex(time) && is_hex(random)
    })
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_json() {
        for millis in [0, 1, 1_795_384_200_123, LAST] {
            let time = Timestamp::from_millis(millis);
            let json = serde_json::to_string(&time).unwrap();
            assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time, "{json}");
        }
        assert_eq!(Timestamp::from_millis(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert!(serde_json::from_str::<Timestamp>("\"soon\"").is_err());
    }

    #[test]
    fn ids_sort_by_time() {
        let ids: Vec<_> = (0..10_000).map(|_| new_id()).collect();
        assert!(ids.is_sorted_by(|one, next| one < next));
    }
}
