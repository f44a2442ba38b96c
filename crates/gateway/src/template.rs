//! Matches URIs against templates (RFC 6570), well enough to find the upstream of a URI.

/// The literal parts of a template, and the gaps between them.
///
/// Names and modifiers of variables do not matter. `{var}` matches text without a slash; `{+var}`,
/// `{#var}`, `{/var}`, `{?var}`, `{&var}`, `{;var}`, `{.var}` and every exploded `{var*}` match any
/// text, including none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UriPattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Segment,
    Anything,
}

impl UriPattern {
    /// Parses a template; after an unclosed brace the rest is literal text.
    pub(crate) fn new(template: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((text, (expression, after))) =
            rest.split_once('{').and_then(|(text, from)| Some((text, from.split_once('}')?)))
        {
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            let simple = expression.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
                && !expression.contains('*');
            parts.push(if simple { Part::Segment } else { Part::Anything });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Self { parts }
    }

    /// Returns whether the template has a literal scheme. A template without one could match URIs
    /// of any upstream.
    pub(crate) fn has_scheme(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Text(text)) if text.contains(':'))
    }

    /// Returns the length of the literal text, in bytes.
    pub(crate) fn fixed_bytes(&self) -> usize {
        let lengths = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.len(),
            Part::Segment | Part::Anything => 0,
        });
        lengths.sum()
    }

    /// Returns whether the template matches `uri`.
    pub(crate) fn matches(&self, uri: &str) -> bool {
        // For each part, the offsets at which the parts so far can end: linear in parts × length
        // for every template.
        let mut ends = vec![0];
        for part in &self.parts {
            ends = match part {
                Part::Text(text) => ends
                    .into_iter()
                    .filter(|&at| uri[at..].starts_with(text.as_str()))
                    .map(|at| at + text.len())
                    .collect(),
                Part::Segment | Part::Anything => reachable(uri, &ends, *part == Part::Anything),
            };
            if ends.is_empty() {
                return false;
            }
        }
        ends.last() == Some(&uri.len())
    }
}

/// Returns the offsets at which a gap can end that starts at one of `starts`. Both are ascending.
fn reachable(uri: &str, starts: &[usize], anything: bool) -> Vec<usize> {
    let mut starts = starts.iter().copied().peekable();
    let mut open = false;
    let mut ends = Vec::new();
    for (at, c) in uri.char_indices().map(|(at, c)| (at, Some(c))).chain([(uri.len(), None)]) {
        let starts_here = starts.next_if_eq(&at).is_some();
        // A segment has at least one character, so it cannot end at its start.
        if open || (anything && starts_here) {
            ends.push(at);
        }
        open |= starts_here;
        if !anything && c.is_some_and(|c| matches!(c, '/' | '?' | '#')) {
            open = false;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_find_their_uris() {
        for (template, uri, want) in [
            ("test://static", "test://static", true),
            ("test://static", "test://static/x", false),
            ("test://{id}/data", "test://123/data", true),
            ("test://{id}/data", "test:///data", false),
            ("test://{id}/data", "test://1/2/data", false),
            ("file:///{+path}", "file:///a/b/c.txt", true),
            ("file:///{+path}", "file:///", true),
            ("db://{table}/{row}", "db://t/é", true),
            ("db://{table}/{row}", "db://t/1?x", false),
            ("db://t{?limit,page}", "db://t?limit=3", true),
            ("db://t{?limit}", "db://t", true),
            ("db://x{/parts*}", "db://x/a/b", true),
            ("a{x}a{y}a", "aaaaa", true),
            ("{a}{b}", "xy", true),
            ("{a}{b}", "x", false),
            ("un{closed", "un{closed", true),
            ("", "", true),
        ] {
            assert_eq!(UriPattern::new(template).matches(uri), want, "{template} {uri}");
        }
    }

    #[test]
    fn a_hostile_template_costs_little() {
        let pattern = UriPattern::new(&"{+a}x".repeat(200));
        assert!(!pattern.matches(&"x".repeat(10_000).replace("xx", "xy")[..8_000]));
    }
}
