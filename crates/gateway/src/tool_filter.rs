//! Filters of an upstream's tools.

/// The offered tools of an upstream, by their names there; `*` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// If set, only these.
    pub enabled: Option<Vec<String>>,
    /// Never these.
    pub disabled: Vec<String>,
}

impl ToolFilter {
    const ALL: &str = "*";

    /// Returns whether a tool is offered.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.enabled.as_deref().is_none_or(|names| Self::names_tool(names, tool))
            && !Self::names_tool(&self.disabled, tool)
    }

    fn names_tool(names: &[String], tool: &str) -> bool {
        names.iter().any(|name| name == tool || name == Self::ALL)
    }

    /// Returns the names of single tools.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let all = self.enabled.iter().flatten().chain(&self.disabled);
        all.filter(|name| *name != Self::ALL)
    }

    /// Adds the filter of another source for the same upstream: a tool is offered if both allow it.
    pub fn narrow(&mut self, other: Self) {
        self.disabled.extend(other.disabled);
        self.enabled = match (self.enabled.take(), other.enabled) {
            (Some(mut ours), Some(theirs)) => {
                let theirs = Self { enabled: Some(theirs), disabled: Vec::new() };
                if ours.iter().any(|name| name == Self::ALL) {
                    theirs.enabled
                } else {
                    ours.retain(|name| theirs.allows(name));
                    Some(ours)
                }
            }
            (ours, theirs) => ours.or(theirs),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn filter(enabled: Option<&[&str]>, disabled: &[&str]) -> ToolFilter {
        ToolFilter { enabled: enabled.map(owned), disabled: owned(disabled) }
    }

    #[test]
    fn a_tool_is_offered_when_it_is_enabled_and_not_disabled() {
        for (filter, want) in [
            (filter(None, &[]), "abc"),
            (filter(None, &["a"]), "bc"),
            (filter(Some(&["a", "b"]), &["b"]), "a"),
            (filter(Some(&[]), &[]), ""),
            (filter(Some(&["*"]), &["c"]), "ab"),
            (filter(None, &["*"]), ""),
        ] {
            let offered: String =
                ["a", "b", "c"].into_iter().filter(|tool| filter.allows(tool)).collect();
            assert_eq!(offered, want, "{filter:?}");
        }
    }

    #[test]
    fn two_sources_narrow_each_other() {
        for (ours, theirs, want) in [
            (filter(None, &["a"]), filter(Some(&["a", "b"]), &[]), "b"),
            (filter(Some(&["a", "b"]), &[]), filter(Some(&["b", "c"]), &[]), "b"),
            (filter(Some(&["*"]), &[]), filter(Some(&["c"]), &[]), "c"),
            (filter(Some(&["a"]), &[]), filter(Some(&["*"]), &["a"]), ""),
        ] {
            let mut both = ours.clone();
            both.narrow(theirs);
            let offered: String =
                ["a", "b", "c"].into_iter().filter(|tool| both.allows(tool)).collect();
            assert_eq!(offered, want, "{ours:?}");
        }
    }
}
