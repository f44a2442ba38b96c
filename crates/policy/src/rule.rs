//! Rules and profiles.

use std::collections::BTreeSet;

use marquetry_approvals::{AskWhen, ToolHints};

use crate::{Access, Caller, Item, ItemKind, Patterns};

/// A rule: for which callers it is, and what it allows and denies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The callers, by the names of their tokens or "ISSUER SUBJECT". Absent: all.
    pub principals: Option<Patterns>,
    /// Groups, of which a caller must be in one. Absent: no group is needed.
    pub groups: Option<Patterns>,
    /// Scopes, all of which the caller's token must have.
    pub scopes: BTreeSet<String>,
    /// The upstreams that it is about. Absent: all.
    pub upstreams: Access,
    /// What it says about tools.
    pub tools: Access,
    /// What it says about prompts.
    pub prompts: Access,
    /// What it says about resources and templates.
    pub resources: Access,
    /// Whether callers who lack only the scopes see what it allows, and are asked for the scopes
    /// when they use it.
    pub step_up: bool,
    /// When a person is asked before a call of a tool that the rule is about.
    pub ask: AskWhen,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $argument:ty => $value:expr),* $(,)?) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(self, $name: $argument) -> Self {
            Self { $name: $value, ..self }
        })*
    };
}

impl Rule {
    /// Creates a rule for all callers that allows and denies nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the callers.
        principals: Patterns => Some(principals),
        /// Sets the groups.
        groups: Patterns => Some(groups),
        /// Sets what it says about tools.
        tools: Access => tools,
        /// Sets what it says about prompts.
        prompts: Access => prompts,
        /// Sets what it says about resources.
        resources: Access => resources,
        /// Sets when a person is asked before a call.
        ask: AskWhen => ask,
    }

    /// Sets the scopes that it needs.
    #[must_use]
    pub fn scopes(self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { scopes: scopes.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the upstreams that it is about.
    #[must_use]
    pub fn upstreams(self, upstreams: Patterns) -> Self {
        Self { upstreams: Access::new().allow(upstreams), ..self }
    }

    /// Lets callers who lack only the scopes see what it allows.
    #[must_use]
    pub fn with_step_up(self) -> Self {
        Self { step_up: true, ..self }
    }

    /// Returns whether the rule is for a caller, apart from the scopes.
    pub(crate) fn is_for(&self, caller: &Caller) -> bool {
        let groups = self.groups.as_ref();
        self.principals.as_ref().is_none_or(|names| names.matches(caller.principal()))
            && groups.is_none_or(|names| caller.groups().any(|group| names.matches(group)))
    }

    /// Returns whether the rule is about an upstream.
    pub(crate) fn is_about(&self, upstream: &str) -> bool {
        includes(&self.upstreams, upstream)
    }

    /// Returns what it says about items of a kind.
    #[must_use]
    pub fn access(&self, kind: ItemKind) -> &Access {
        match kind {
            ItemKind::Tool => &self.tools,
            ItemKind::Prompt => &self.prompts,
            ItemKind::Resource => &self.resources,
        }
    }

    pub(crate) fn allows(&self, item: &Item<'_>) -> bool {
        let allowed = self.access(item.kind()).allow.as_ref();
        self.is_about(item.upstream())
            && allowed.is_some_and(|allowed| item.forms().all(|form| allowed.matches(form)))
    }

    pub(crate) fn denies(&self, item: &Item<'_>) -> bool {
        let denied = &self.access(item.kind()).deny;
        !denied.is_empty()
            && self.is_about(item.upstream())
            && item.forms().any(|form| denied.matches(form))
    }

    /// Returns whether it demands a question to a person before a call of a tool. A rule that does
    /// not say which tools it allows is about all tools of its upstreams.
    pub(crate) fn asks(&self, item: &Item<'_>, hints: &ToolHints) -> bool {
        let is_about = match &self.tools.allow {
            None => self.is_about(item.upstream()),
            Some(_) => self.allows(item),
        };
        is_about && item.forms().any(|form| self.ask.asks(form, hints))
    }

    /// Returns whether it allows anything.
    pub(crate) fn allows_something(&self) -> bool {
        let kinds = [&self.tools, &self.prompts, &self.resources];
        kinds.into_iter().any(|access| access.allow.as_ref().is_some_and(|it| !it.is_empty()))
    }
}

/// A part of everything, for a client or a URL. It narrows what rules allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The upstreams in it.
    pub upstreams: Access,
    /// The tools in it.
    pub tools: Access,
    /// The prompts in it.
    pub prompts: Access,
    /// The resources in it.
    pub resources: Access,
}

impl Profile {
    /// Creates a profile with everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the upstreams in it.
        upstreams: Access => upstreams,
        /// Sets the tools in it.
        tools: Access => tools,
        /// Sets the prompts in it.
        prompts: Access => prompts,
        /// Sets the resources in it.
        resources: Access => resources,
    }

    /// Returns whether an upstream is in it.
    pub(crate) fn includes_upstream(&self, upstream: &str) -> bool {
        includes(&self.upstreams, upstream)
    }

    pub(crate) fn access(&self, kind: ItemKind) -> &Access {
        match kind {
            ItemKind::Tool => &self.tools,
            ItemKind::Prompt => &self.prompts,
            ItemKind::Resource => &self.resources,
        }
    }

    /// Returns whether an item is in it.
    pub(crate) fn includes(&self, item: &Item<'_>) -> bool {
        let access = self.access(item.kind());
        self.includes_upstream(item.upstream()) && item.forms().all(|form| includes(access, form))
    }
}

/// Returns whether a list that allows everything unless it names something includes a name.
fn includes(access: &Access, name: &str) -> bool {
    access.allow.as_ref().is_none_or(|allowed| allowed.matches(name)) && !access.deny.matches(name)
}
