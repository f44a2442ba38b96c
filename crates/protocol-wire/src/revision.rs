//! Revisions of the protocol.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A published revision of the Model Context Protocol, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Revision {
    /// The first one: `tools/call` answers with `toolResult`.
    #[serde(rename = "2024-10-07")]
    V2024_10_07,
    /// The first stable one.
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// Streamable HTTP, authorization, batches.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// Structured output, elicitation, resource links.
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// The last one with sessions.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// The first one without sessions: each request carries all that it needs.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// The era of a revision: with or without sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` opens a session that later messages belong to (until 2025-11-25).
    Session,
    /// Every request names its revision and the client's capabilities (since 2026-07-28).
    Stateless,
}

impl Revision {
    /// All published revisions, oldest first.
    pub const ALL: [Self; 6] = [
        Self::V2024_10_07,
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The revisions that this crate's server speaks, oldest first.
    pub const SERVED: [Self; 6] = Self::ALL;

    /// The revision that a session-era server offers if it does not speak the requested one.
    pub const LATEST_SESSION: Self = Self::V2025_11_25;

    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;

    /// Returns the date that names the revision in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_10_07 => "2024-10-07",
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the era, which says whether the revision has sessions.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Stateless,
            _ => Era::Session,
        }
    }

    /// Returns the revision with which to answer an `initialize` that asks for `asked`: the same
    /// one if we speak it, else our latest revision of the session era (2025-11-25, "Version
    /// Negotiation").
    #[must_use]
    pub fn negotiate(asked: &str) -> Self {
        match asked.parse() {
            Ok(revision) if Self::SERVED.contains(&revision) && revision.era() == Era::Session => {
                revision
            }
            _ => Self::LATEST_SESSION,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not the date of a published revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol revision '{0}'")]
pub struct UnknownRevision(pub String);

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|revision| revision.as_str() == text)
            .ok_or_else(|| UnknownRevision(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_variants_agree() {
        for revision in Revision::ALL {
            assert_eq!(revision.as_str().parse(), Ok(revision));
            assert_eq!(serde_json::to_value(revision).unwrap(), revision.as_str());
        }
        assert!("2025-11-26".parse::<Revision>().is_err());
        assert!(Revision::ALL.is_sorted());
    }

    #[test]
    fn initialize_is_answered_with_a_revision_of_the_session_era() {
        for revision in Revision::ALL.into_iter().filter(|revision| revision.era() == Era::Session)
        {
            assert_eq!(Revision::negotiate(revision.as_str()), revision);
        }
        assert_eq!(Revision::negotiate("2026-07-28"), Revision::V2025_11_25);
        assert_eq!(Revision::negotiate("1.0"), Revision::V2025_11_25);
    }
}
