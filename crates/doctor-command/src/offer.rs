//! The lists of a server that runs, and their entries that clients refuse.

use std::collections::HashSet;

use marquetry_gateway::{Listing, names::is_name_char};
use marquetry_protocol::types::Tool;

use crate::cause::{Cause, Finding};

/// Longest name of a tool that the APIs of models take.
const MAX_NAME_CHARS: usize = 64;
/// The number of tools that Claude Code and VS Code show to a model.
const MAX_TOOLS: usize = 128;
/// Keywords at the root of a schema for which some clients refuse the tool, and some all tools.
const COMBINATORS: [&str; 6] = ["anyOf", "oneOf", "allOf", "not", "if", "$ref"];

/// Returns the problem of the list of tools that makes the server useless.
pub(crate) fn failure(listing: &Listing) -> Option<Finding> {
    let (_, why) = listing.left_out.iter().find(|(list, _)| *list == "tools")?;
    // A list that ends early has its first items.
    listing.tools.is_empty().then(|| {
        Finding::new(
            Cause::List,
            format!("its tools could not be listed: {why}"),
            "mend what the message says, or update the server",
        )
    })
}

/// Returns what clients refuse, or what was left out.
pub(crate) fn warnings(listing: &Listing) -> Vec<Finding> {
    let mut found = Vec::new();
    for (list, why) in &listing.left_out {
        let problem = format!("its list of {list} is not complete: {why}");
        let advice = "mend what the message says, or update the server";
        found.push(Finding::new(Cause::List, problem, advice));
    }
    found.extend(invalid_tools(listing));
    found.extend(names(&listing.tools));
    found.extend(duplicates(&listing.tools));
    found.extend(schemas(&listing.tools));
    let count = listing.tools.len();
    if count > MAX_TOOLS {
        found.push(Finding::new(
            Cause::ManyTools,
            format!("it has {count} tools, and some clients take {MAX_TOOLS} of all servers"),
            "leave out tools with \"enabled_tools\" or \"disabled_tools\"",
        ));
    }
    let Listing { tools, prompts, resources, templates, .. } = listing;
    let is_empty = tools.is_empty()
        && prompts.is_empty()
        && resources.is_empty()
        && templates.is_empty()
        && found.is_empty();
    if is_empty {
        found.push(Finding::new(
            Cause::Empty,
            "it offers neither tools nor prompts nor resources",
            "it may need a setting or a login before it offers them",
        ));
    }
    found
}

fn invalid_tools(listing: &Listing) -> Option<Finding> {
    let first = listing.skipped_tools.first()?;
    let names = listing.skipped_tools.iter().map(|tool| tool.name.as_deref().unwrap_or("?"));
    Some(Finding::new(
        Cause::ToolSchemas,
        format!(
            "tools are left out, because they are invalid: {}: {}",
            shown(names),
            first.problem
        ),
        "update the server, or report the fault to its authors",
    ))
}

fn names(tools: &[Tool]) -> Option<Finding> {
    let refused: Vec<&str> = tools
        .iter()
        .map(|tool| &*tool.name)
        .filter(|name| name.len() > MAX_NAME_CHARS || !name.chars().all(is_name_char))
        .collect();
    if refused.is_empty() {
        return None;
    }
    Some(Finding::new(
        Cause::ToolNames,
        format!("clients refuse the names of these tools: {}", shown(refused.into_iter())),
        "Marquetry offers them under other names; a client that uses the server directly may fail",
    ))
}

fn duplicates(tools: &[Tool]) -> Option<Finding> {
    let mut seen = HashSet::new();
    let twice: Vec<&str> =
        tools.iter().map(|tool| &*tool.name).filter(|name| !seen.insert(*name)).collect();
    if twice.is_empty() {
        return None;
    }
    Some(Finding::new(
        Cause::DuplicateTools,
        format!("it lists several tools with the same name: {}", shown(twice.into_iter())),
        "only the first one of each name is offered; update the server, or report the fault to its authors",
    ))
}

fn schemas(tools: &[Tool]) -> Option<Finding> {
    let refused: Vec<&str> = tools
        .iter()
        .filter(|tool| COMBINATORS.iter().any(|key| tool.input_schema.get(key).is_some()))
        .map(|tool| &*tool.name)
        .collect();
    if refused.is_empty() {
        return None;
    }
    let shown = shown(refused.into_iter());
    Some(Finding::new(
        Cause::ToolSchemas,
        format!(
            "the schemas of these tools have anyOf, oneOf, allOf, not, if or $ref at the root, which some clients and models refuse: {shown}"
        ),
        "describe the arguments as one plain object; until then leave the tools out with \"disabled_tools\" if a client fails",
    ))
}

/// Returns the first names, and how many others there are.
pub(crate) fn shown<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX: usize = 5;
    let names: Vec<&str> = names.collect();
    let first: Vec<String> = names.iter().take(MAX).map(|name| format!("{name:?}")).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
