//! The decision of a person about a call.

/// The decision of a person about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call is allowed, this time.
    Once,
    /// The tool is allowed for the rest of the session; without sessions, for this caller until the
    /// program ends.
    Session,
    /// The tool is allowed from now on.
    Always,
    /// The call is not allowed.
    Declined,
}

/// The callers for whom [`Decision::Session`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionScope {
    /// One session of a client.
    #[default]
    Session,
    /// A caller without sessions: all of its clients, until the program ends.
    Caller,
}

impl Decision {
    /// The decisions that allow a call, in the order in which a form offers them.
    pub const ALLOWING: [Self; 3] = [Self::Once, Self::Session, Self::Always];

    /// Returns the decision with this name: `once`, `session`, `always` or `decline`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let known = [Self::Once, Self::Session, Self::Always, Self::Declined];
        known.into_iter().find(|decision| decision.name() == name)
    }

    /// Returns its name in forms and requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Always => "always",
            Self::Declined => "decline",
        }
    }

    /// Returns its name for people, of a call that is made in a session or without one.
    #[must_use]
    pub fn title(self, scope: SessionScope) -> &'static str {
        match self {
            Self::Once => "Allow once",
            Self::Session => match scope {
                SessionScope::Session => "Allow for this session",
                SessionScope::Caller => "Allow until the server ends, for all clients of yours",
            },
            Self::Always => "Always allow",
            Self::Declined => "Decline",
        }
    }

    /// Returns whether the call may be made.
    #[must_use]
    pub fn allows(self) -> bool {
        self != Self::Declined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_have_names() {
        for decision in Decision::ALLOWING {
            assert_eq!(Decision::of_name(decision.name()), Some(decision));
            assert!(decision.allows());
        }
        assert_eq!(Decision::of_name("decline"), Some(Decision::Declined));
        assert!(!Decision::Declined.allows());
        assert_eq!(Decision::of_name("Once"), None);
    }
}
