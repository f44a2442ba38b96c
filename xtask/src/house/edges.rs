//! The edges between crates: those in `ARCHITECTURE.md`, and those in the manifests.

use std::collections::{BTreeMap, BTreeSet};

/// The edges in the document: each crate with one that it may depend on.
pub(super) type EdgeSet = BTreeSet<(String, String)>;

const FENCE: &str = "```";

/// Parses the block of edges: lines `a -> b` or `a -> b, c`. Empty lines and lines that begin with
/// `#` are ignored.
///
/// # Errors
///
/// Returns an error if a line is invalid: a message about the first such line.
pub(super) fn parse(document: &str) -> Result<EdgeSet, String> {
    let mut lines = document.lines().skip_while(|line| line.trim() != "```edges");
    if lines.next().is_none() {
        return Err("ARCHITECTURE.md has no block of edges, which begins with ```edges".to_owned());
    }
    let mut listed = EdgeSet::new();
    for line in lines.take_while(|line| line.trim() != FENCE) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((from, to)) = line.split_once("->") else {
            return Err(format!(
                "the block of edges in ARCHITECTURE.md has a line without `->`: {line}"
            ));
        };
        for to in to.split(',') {
            let from = from.trim();
            let to = to.trim();
            if from.is_empty() || to.is_empty() {
                return Err(format!(
                    "the block of edges in ARCHITECTURE.md has a line with only one side: {line}"
                ));
            }
            listed.insert((from.to_owned(), to.to_owned()));
        }
    }
    Ok(listed)
}

/// Returns the edges that are not listed, and the listed ones that do not exist.
pub(super) fn compare(actual: &BTreeMap<&str, &BTreeSet<String>>, listed: &EdgeSet) -> Vec<String> {
    let actual: EdgeSet = actual
        .iter()
        .flat_map(|(from, to)| to.iter().map(|to| ((*from).to_owned(), to.clone())))
        .collect();
    let unlisted = actual.difference(listed).map(|(from, to)| {
        format!("{from} depends on {to}, and the block of edges in ARCHITECTURE.md does not list `{from} -> {to}`")
    });
    let stale = listed.difference(&actual).map(|(from, to)| {
        format!("the block of edges in ARCHITECTURE.md lists `{from} -> {to}`, and {from} does not depend on {to}")
    });
    unlisted.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_read() {
        let document = "```\nx -> y\n```\n```edges\n# why\na -> b, c\n\nb -> c\n```\nd -> e\n";
        let edges = [("a", "b"), ("a", "c"), ("b", "c")];
        let want = edges.map(|(from, to)| (from.to_owned(), to.to_owned()));
        assert_eq!(parse(document), Ok(EdgeSet::from(want)));
        assert!(parse("```edges\na b\n```").is_err());
        assert!(parse("```edges\na -> b,\n```").is_err());
    }
}
