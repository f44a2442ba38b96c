//! What a decision is about: a tool, a prompt or a resource of an upstream.

use std::{borrow::Cow, fmt};

use crate::uri;

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource or a resource template.
    Resource,
}

impl ItemKind {
    /// Returns its name in settings.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
        }
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        })
    }
}

/// A tool, a prompt or a resource of an upstream, under the upstream's own name.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    kind: ItemKind,
    upstream: &'a str,
    name: Cow<'a, str>,
    /// What a server may make of a URI that decodes it further.
    decoded: Option<String>,
}

impl<'a> Item<'a> {
    /// Returns a tool.
    #[must_use]
    pub fn tool(upstream: &'a str, name: &'a str) -> Self {
        Self { kind: ItemKind::Tool, upstream, name: Cow::Borrowed(name), decoded: None }
    }

    /// Returns a prompt.
    #[must_use]
    pub fn prompt(upstream: &'a str, name: &'a str) -> Self {
        Self { kind: ItemKind::Prompt, upstream, name: Cow::Borrowed(name), decoded: None }
    }

    /// Returns a resource, or the template of resources. The URI is normalised.
    #[must_use]
    pub fn resource(upstream: &'a str, uri: &str) -> Self {
        let (name, decoded) = uri::forms(uri);
        Self { kind: ItemKind::Resource, upstream, name: Cow::Owned(name), decoded }
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> ItemKind {
        self.kind
    }

    /// Returns the name of its upstream.
    #[must_use]
    pub fn upstream(&self) -> &str {
        self.upstream
    }

    /// Returns its name, or its normalised URI.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the texts that patterns are compared with.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.decoded.as_deref())
    }
}
