//! Decisions, and the sentences that explain them.

use std::{collections::BTreeSet, fmt};

use crate::{Caller, Item, Patterns, Policy, place};

/// Whether an item may be used, and what decides that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// There are no rules.
    Unrestricted,
    /// A rule allows it; the first one, if several do.
    Allowed {
        /// Number of the rule.
        rule: usize,
    },
    /// It is listed, and a call needs these scopes.
    StepUp {
        /// Number of the rule.
        rule: usize,
        /// The scopes of the rule, and those of the caller that its other rules need.
        scopes: BTreeSet<String>,
    },
    /// A rule denies it.
    Denied {
        /// Number of the rule.
        rule: usize,
    },
    /// No rule allows it.
    NotAllowed,
    /// The profile does not have it, or there is no such profile.
    OutsideProfile,
}

impl Decision {
    /// Returns whether the item is listed.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.is_allowed() || matches!(self, Self::StepUp { .. })
    }

    /// Returns whether the item may be used.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Unrestricted | Self::Allowed { .. })
    }

    /// Returns the place of the rule that decides, or what else decides.
    #[must_use]
    pub fn rule(&self) -> String {
        match self {
            Self::Allowed { rule } | Self::StepUp { rule, .. } | Self::Denied { rule } => {
                place(*rule)
            }
            Self::Unrestricted | Self::NotAllowed => "policy.rules".to_owned(),
            Self::OutsideProfile => "profiles".to_owned(),
        }
    }
}

/// The decision about one item, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The pattern that decides, if a rule does.
    pub pattern: Option<String>,
}

impl Policy {
    /// Explains whether a caller may use an item.
    #[must_use]
    pub fn explain(&self, caller: &Caller, item: &Item<'_>) -> Explanation {
        let decision = self.decide(&self.grants(caller), item);
        let pattern = match &decision {
            Decision::Allowed { rule } | Decision::StepUp { rule, .. } => {
                let allowed = self.rules[*rule].access(item.kind()).allow.as_ref();
                let mut patterns = allowed.into_iter().flat_map(Patterns::iter);
                patterns.find(|pattern| pattern.matches(item.name()))
            }
            Decision::Denied { rule } => {
                let mut patterns = self.rules[*rule].access(item.kind()).deny.iter();
                patterns.find(|pattern| item.forms().any(|form| pattern.matches(form)))
            }
            _ => None,
        };
        let pattern = pattern.map(ToString::to_string);
        Explanation { decision, pattern }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.decision {
            Decision::Unrestricted => f.write_str("allowed: there are no rules"),
            Decision::Allowed { rule } => write!(f, "allowed by {}", place(*rule)),
            Decision::StepUp { rule, scopes } => {
                let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
                let scopes = scopes.join(" ");
                write!(f, "listed by {}; a call needs the scopes \"{scopes}\"", place(*rule))
            }
            Decision::Denied { rule } => write!(f, "denied by {}", place(*rule)),
            Decision::NotAllowed => f.write_str("denied: no rule of this caller allows it"),
            Decision::OutsideProfile => f.write_str("denied: it is not in the profile"),
        }?;
        match &self.pattern {
            Some(pattern) => write!(f, ", pattern \"{pattern}\""),
            None => Ok(()),
        }
    }
}
