//! Warnings about rules and profiles that do not do what their author may think.

use std::{collections::BTreeMap, fmt};

use marquetry_approvals::AskWhen;
use marquetry_nearest::nearest;

use crate::{Access, Item, ItemKind, OWN_UPSTREAM, Patterns, Policy, Rule, place};

/// The upstreams and principals that exist, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    upstreams: BTreeMap<String, UpstreamItems>,
    /// The names of tokens; absent if callers may have others.
    principals: Option<Vec<String>>,
}

/// The items of one upstream, by their own names. An absent list is not known.
#[derive(Clone, Debug, Default)]
struct UpstreamItems {
    tools: Option<Vec<String>>,
    prompts: Option<Vec<String>>,
    resources: Option<Vec<String>>,
}

impl Inventory {
    /// Creates one with these upstreams, whose items are not known.
    #[must_use]
    pub fn of_upstreams(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let upstreams = names.into_iter().map(|name| (name.into(), UpstreamItems::default()));
        Self { upstreams: upstreams.collect(), principals: None }
    }

    /// Sets all names of tokens, if there are no other principals.
    #[must_use]
    pub fn with_principals(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { principals: Some(names.into_iter().map(Into::into).collect()), ..self }
    }

    /// Sets all items of one kind that an upstream has.
    #[must_use]
    pub fn with_items(
        mut self,
        upstream: &str,
        kind: ItemKind,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let items = self.upstreams.entry(upstream.to_owned()).or_default();
        let list = match kind {
            ItemKind::Tool => &mut items.tools,
            ItemKind::Prompt => &mut items.prompts,
            ItemKind::Resource => &mut items.resources,
        };
        *list = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the upstreams with their items of a kind.
    fn items(&self, kind: ItemKind) -> impl Iterator<Item = (&str, Option<&[String]>)> {
        self.upstreams.iter().map(move |(name, items)| {
            let list = match kind {
                ItemKind::Tool => &items.tools,
                ItemKind::Prompt => &items.prompts,
                ItemKind::Resource => &items.resources,
            };
            (name.as_str(), list.as_deref())
        })
    }
}

/// A part of a policy that has no effect, or not the one that its author may expect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The place in the settings, such as `policy.rules[0].tools.allow`.
    pub place: String,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

const KINDS: [ItemKind; 3] = [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource];

impl Policy {
    /// Returns warnings about parts that match nothing, or cancel each other.
    #[must_use]
    pub fn warnings(&self, known: &Inventory) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            self.check_rule(rule, &place(index), known, &mut warnings);
        }
        for (name, profile) in &self.profiles {
            check_upstreams(&profile.upstreams, &format!("profiles.{name}"), known, &mut warnings);
        }
        warnings.extend(self.unmatched_items(known));
        warnings
    }

    /// Returns warnings about patterns that match no tool or prompt of their upstreams, as far as
    /// all of these are known.
    #[must_use]
    pub fn unmatched_items(&self, known: &Inventory) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for kind in KINDS {
            for (index, rule) in self.rules.iter().enumerate() {
                let place = format!("{}.{}", place(index), kind.setting());
                let access = rule.access(kind);
                check_items(access, kind, &|it| rule.is_about(it), &place, known, &mut warnings);
            }
            for (name, profile) in &self.profiles {
                let place = format!("profiles.{name}.{}", kind.setting());
                let access = profile.access(kind);
                check_items(
                    access,
                    kind,
                    &|it| profile.includes_upstream(it),
                    &place,
                    known,
                    &mut warnings,
                );
            }
        }
        warnings
    }

    fn check_rule(&self, rule: &Rule, place: &str, known: &Inventory, warnings: &mut Vec<Warning>) {
        let denies = KINDS.iter().any(|kind| !rule.access(*kind).deny.is_empty());
        if !rule.allows_something() && !denies && rule.ask == AskWhen::Never {
            let problem = "it allows and denies nothing; add \"tools\", \"prompts\" or \
                           \"resources\", for example tools = { allow = [\"*\"] }";
            warnings.push(Warning { place: place.to_owned(), problem: problem.to_owned() });
        }
        if let (Some(principals), Some(tokens)) = (&rule.principals, &known.principals) {
            let names: Vec<&str> = tokens.iter().map(String::as_str).collect();
            for pattern in principals.iter() {
                if !names.iter().any(|name| pattern.matches(name)) {
                    let problem = unknown("token", pattern.as_str(), &names);
                    warnings.push(Warning { place: format!("{place}.principals"), problem });
                }
            }
        }
        check_upstreams(&rule.upstreams, place, known, warnings);
        for kind in KINDS {
            let access = rule.access(kind);
            let place = format!("{place}.{}", kind.setting());
            for pattern in access.allow.iter().flat_map(Patterns::iter) {
                let denied = self.rules.iter().enumerate().find(|(_, other)| {
                    let denied = other.access(kind).deny.iter().any(|deny| deny.covers(pattern));
                    denied && (std::ptr::eq(*other, rule) || applies_whenever(other, rule))
                });
                if let Some((denying, _)) = denied {
                    let problem = format!(
                        "{:?} allows nothing, because {} denies all of it",
                        pattern.as_str(),
                        crate::place(denying)
                    );
                    warnings.push(Warning { place: format!("{place}.allow"), problem });
                }
            }
        }
    }
}

/// Returns whether a rule is for every caller and about every upstream of another one.
fn applies_whenever(rule: &Rule, other: &Rule) -> bool {
    let for_callers = (rule.principals.is_none() || rule.principals == other.principals)
        && (rule.groups.is_none() || rule.groups == other.groups)
        && rule.scopes.is_subset(&other.scopes);
    let is_open = rule.upstreams == Access::default();
    for_callers && (is_open || rule.upstreams == other.upstreams)
}

fn check_upstreams(
    upstreams: &Access,
    place: &str,
    known: &Inventory,
    warnings: &mut Vec<Warning>,
) {
    let mut names: Vec<&str> = known.upstreams.keys().map(String::as_str).collect();
    names.push(OWN_UPSTREAM);
    let all = upstreams.allow.iter().flat_map(Patterns::iter).chain(upstreams.deny.iter());
    for pattern in all.filter(|pattern| !names.iter().any(|name| pattern.matches(name))) {
        let problem = unknown("server", pattern.as_str(), &names);
        warnings.push(Warning { place: format!("{place}.upstreams"), problem });
    }
}

/// Adds warnings for patterns that match no item, where all items are known.
fn check_items(
    access: &Access,
    kind: ItemKind,
    is_about: &dyn Fn(&str) -> bool,
    place: &str,
    known: &Inventory,
    warnings: &mut Vec<Warning>,
) {
    let mut items = Vec::new();
    for (upstream, list) in known.items(kind).filter(|(upstream, _)| is_about(upstream)) {
        let Some(list) = list else { return };
        items.extend(list.iter().map(|name| match kind {
            ItemKind::Tool => Item::tool(upstream, name),
            ItemKind::Prompt => Item::prompt(upstream, name),
            ItemKind::Resource => Item::resource(upstream, name),
        }));
    }
    // Our own items are not in the inventory unless somebody adds them; templates match more
    // resources than lists have.
    if items.is_empty()
        || kind == ItemKind::Resource
        || !known.upstreams.contains_key(OWN_UPSTREAM) && is_about(OWN_UPSTREAM)
    {
        return;
    }
    let names: Vec<&str> = items.iter().map(Item::name).collect();
    for (list, patterns) in [("allow", access.allow.as_ref()), ("deny", Some(&access.deny))] {
        for pattern in patterns.into_iter().flat_map(Patterns::iter) {
            if !names.iter().any(|name| pattern.matches(name)) {
                let problem = unknown(&kind.to_string(), pattern.as_str(), &names);
                warnings.push(Warning { place: format!("{place}.{list}"), problem });
            }
        }
    }
}

/// Returns the problem of a pattern that matches no name.
fn unknown(what: &str, pattern: &str, names: &[&str]) -> String {
    match nearest(pattern, names) {
        Some(name) => format!("{pattern:?} matches no {what}; did you mean {name:?}?"),
        None => format!("{pattern:?} matches no {what}"),
    }
}
