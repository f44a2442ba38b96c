#![doc = include_str!("../README.md")]

mod caller;
mod decision;
mod inventory;
mod item;
mod patterns;
mod rule;
mod uri;

use std::collections::{BTreeMap, BTreeSet};

use marquetry_approvals::ToolHints;
pub use marquetry_glob::{Glob, GlobError};

pub use crate::{
    caller::{Caller, Grants},
    decision::{Decision, Explanation},
    inventory::{Inventory, Warning},
    item::{Item, ItemKind},
    patterns::{Access, Patterns},
    rule::{Profile, Rule},
};

/// The name under which rules know the tools, prompts and resources of this server itself.
pub const OWN_UPSTREAM: &str = "marquetry";

/// Rules and profiles. The default has none of them, and allows everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    profiles: BTreeMap<String, Profile>,
}

/// Why rules or profiles cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A pattern is not one.
    #[error("{pattern:?} is not a pattern: {problem}")]
    Pattern {
        /// The text.
        pattern: String,
        /// What is wrong with it.
        problem: GlobError,
    },
    /// A pattern for URIs has a segment that no normalised URI has.
    #[error("{pattern:?} has the segment {segment:?}, which no normalised URI has; leave it out")]
    DotSegment {
        /// The text.
        pattern: String,
        /// The segment.
        segment: String,
    },
    /// A list has too many patterns.
    #[error("the list has more than {} patterns", Patterns::MAX)]
    TooManyPatterns,
    /// There are too many rules or profiles.
    #[error("there are more than {} of them", Policy::MAX)]
    TooMany,
    /// The name of a profile cannot be in a URL.
    #[error("{0:?} is not a name of a profile: expected up to 64 of a-z, A-Z, 0-9, -, _")]
    ProfileName(String),
    /// A rule steps up to no scopes.
    #[error("\"step_up\" needs \"scopes\": the scopes that a call needs")]
    StepUpWithoutScopes,
}

impl Policy {
    /// Maximum number of rules, and of profiles.
    pub const MAX: usize = 256;

    /// Creates a policy with these rules.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect(), profiles: BTreeMap::new() }
    }

    /// Adds a profile.
    #[must_use]
    pub fn with_profile(mut self, name: impl Into<String>, profile: Profile) -> Self {
        self.profiles.insert(name.into(), profile);
        self
    }

    /// Checks bounds, names of profiles, and combinations.
    ///
    /// # Errors
    /// Returns an error with the place in the settings, such as `policy.rules[0]`.
    pub fn check(&self) -> Result<(), (String, PolicyError)> {
        if self.rules.len() > Self::MAX {
            return Err(("policy.rules".to_owned(), PolicyError::TooMany));
        }
        if self.profiles.len() > Self::MAX {
            return Err(("profiles".to_owned(), PolicyError::TooMany));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.step_up && rule.scopes.is_empty() {
                return Err((place(index), PolicyError::StepUpWithoutScopes));
            }
        }
        for name in self.profiles.keys() {
            let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || "-_".contains(it));
            if name.is_empty() || name.len() > 64 || !is_plain {
                return Err(("profiles".to_owned(), PolicyError::ProfileName(name.clone())));
            }
        }
        Ok(())
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns whether there is a profile with this name.
    #[must_use]
    pub fn has_profile(&self, name: &str) -> bool {
        self.profiles.contains_key(name)
    }

    /// Returns the profile with this name.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// Returns the names of the profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// Returns whether there are neither rules nor profiles.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.profiles.is_empty()
    }

    /// Returns whether nothing is restricted for callers in this profile, or without one.
    #[must_use]
    pub fn is_open_in(&self, profile: Option<&str>) -> bool {
        self.rules.is_empty() && profile.is_none()
    }

    /// Returns the rules of a caller. Callers with equal grants see the same.
    #[must_use]
    pub fn grants(&self, caller: &Caller) -> Grants {
        let mut grants = Grants::in_profile(caller.profile());
        let mut needed = BTreeSet::new();
        for (index, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.is_for(caller)) {
            if rule.scopes.iter().all(|scope| caller.has_scope(scope)) {
                grants.rules.push(index);
            } else if rule.step_up {
                grants.step_up.push(index);
            }
            needed.extend(rule.scopes.iter().filter(|scope| caller.has_scope(scope)).cloned());
        }
        if !grants.step_up.is_empty() {
            grants.scopes = needed;
        }
        grants
    }

    /// Decides whether the owner of these grants may use an item.
    #[must_use]
    pub fn decide(&self, grants: &Grants, item: &Item<'_>) -> Decision {
        if let Some(name) = &grants.profile
            && !self.profiles.get(name).is_some_and(|profile| profile.includes(item))
        {
            return Decision::OutsideProfile;
        }
        if self.rules.is_empty() {
            return Decision::Unrestricted;
        }
        let granted =
            grants.rules.iter().filter_map(|&index| Some((index, self.rules.get(index)?)));
        let mut allowed = None;
        for (index, rule) in granted {
            if rule.denies(item) {
                return Decision::Denied { rule: index };
            }
            if allowed.is_none() && rule.allows(item) {
                allowed = Some(index);
            }
        }
        if let Some(rule) = allowed {
            return Decision::Allowed { rule };
        }
        let stepping =
            grants.step_up.iter().filter_map(|&index| Some((index, self.rules.get(index)?)));
        let mut stepping = stepping.filter(|(_, rule)| rule.allows(item) && !rule.denies(item));
        match stepping.next() {
            Some((index, rule)) => {
                // A client asks for these scopes alone, and must not lose those that it has.
                let scopes = rule.scopes.union(&grants.scopes).cloned().collect();
                Decision::StepUp { rule: index, scopes }
            }
            None => Decision::NotAllowed,
        }
    }

    /// Returns the setting that demands a question to a person before the owner of these grants
    /// calls a tool; `None` if no rule does. The strictest rule applies.
    #[must_use]
    pub fn question_before(
        &self,
        grants: &Grants,
        tool: &Item<'_>,
        hints: &ToolHints,
    ) -> Option<String> {
        let rules = grants.rules.iter().filter_map(|&index| Some((index, self.rules.get(index)?)));
        let mut asking = rules.filter(|(_, rule)| rule.asks(tool, hints));
        let (index, rule) = asking.next()?;
        Some(format!("{}.ask = {}", place(index), rule.ask))
    }

    /// Returns whether the owner of these grants may see that an upstream exists: any of its items
    /// may be allowed.
    #[must_use]
    pub fn shows_upstream(&self, grants: &Grants, upstream: &str) -> bool {
        if let Some(name) = &grants.profile
            && !self.profiles.get(name).is_some_and(|it| it.includes_upstream(upstream))
        {
            return false;
        }
        let mut rules = grants.rules.iter().chain(&grants.step_up);
        self.rules.is_empty()
            || rules.any(|&index| {
                let rule = self.rules.get(index);
                rule.is_some_and(|rule| rule.allows_something() && rule.is_about(upstream))
            })
    }
}

/// Returns the place of a rule in the settings.
pub(crate) fn place(rule: usize) -> String {
    format!("policy.rules[{rule}]")
}

#[cfg(test)]
mod tests;
