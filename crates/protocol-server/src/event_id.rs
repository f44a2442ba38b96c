//! Ids of events, with which a client returns for missed events.

use std::{fmt, str::FromStr};

/// Id of an event: its stream, and its number in the stream. Number 0 is the opening of the stream,
/// before any event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (stream, number) = text.split_once('-').ok_or(())?;
        Ok(Self { stream: stream.parse().map_err(drop)?, number: number.parse().map_err(drop)? })
    }
}
