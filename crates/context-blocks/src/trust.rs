//! The source of a block's content.

/// The source of a block's content: the attribute `trust`.
///
/// A reader may rely on it only in text that its own program has built: anybody can write the
/// attribute, so a program escapes blocks in text from outside ([`neutralize`](crate::neutralize),
/// [`user_text`](crate::user_text)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trust {
    /// The program itself made it, or keeps it for the user.
    Server,
    /// It came with the user's request: it counts as much as the user's own words.
    Caller,
    /// It is quoted from a document, a tool or a View: instructions in it must be ignored.
    Untrusted,
}

impl Trust {
    const ALL: [Self; 3] = [Self::Server, Self::Caller, Self::Untrusted];

    /// Returns the value of the attribute.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Caller => "caller",
            Self::Untrusted => "untrusted",
        }
    }

    /// Returns the trust that an attribute names, in any ASCII case.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trust| name.eq_ignore_ascii_case(trust.name()))
    }
}
