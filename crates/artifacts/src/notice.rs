//! Writes the notice that describes the changes of an answer to a model.

use std::fmt::Write;

use crate::{
    metadata::{ContentType, Summary},
    name::is_deceptive,
    proposal::{FindTools, proposal},
    report::{Outcome, Report, SaveStatus, SavedArtifact, Status, StructuredShown},
};

/// Longest notice, in bytes.
pub(crate) const MAX_BYTES: usize = 4096;
/// Artifacts, and items that were not saved, that a notice lists.
const MAX_NAMED: usize = 10;
/// Keys or columns of one artifact that a notice lists, and the longest one.
const MAX_KEYS: usize = 8;
const MAX_KEY_BYTES: usize = 40;
/// Longest URI that a notice has whole.
const MAX_URI_BYTES: usize = 500;

/// Facts for the notice beside the report.
pub(crate) struct Facts<'a> {
    pub(crate) tool: &'a str,
    pub(crate) limit: u64,
    pub(crate) list_tool: &'a str,
    pub(crate) read_tool: &'a str,
    pub(crate) find_tools: FindTools<'a>,
    /// Part of the structured content in the new answer, if the answer has any.
    pub(crate) structured: Option<StructuredShown>,
    /// The artifact with all of it.
    pub(crate) whole_structured: Option<&'a SavedArtifact>,
    /// Everything of the answer is shown.
    pub(crate) is_whole: bool,
    /// Something of the answer is neither shown nor saved.
    pub(crate) is_lossy: bool,
}

/// Returns the head of the notice: the outcome in a few sentences.
pub(crate) fn message(report: &Report, facts: &Facts<'_>) -> String {
    let tool = plain(facts.tool, 100);
    let size = report.size_bytes;
    let mut text = match (report.truncated, report.status) {
        (None, _) => format!("The answer of tool '{tool}' has {size} bytes."),
        (
            Some(_),
            Status::ProcessedSavedAndWithheld
            | Status::ProcessedWithheldSaveFailed
            | Status::ProcessedWithheld,
        ) => {
            format!(
                "The answer of tool '{tool}' has {size} bytes, more than the limit of {}: none of it is shown.",
                facts.limit
            )
        }
        (Some(cut), _) if cut.total_bytes == 0 => format!(
            "The answer of tool '{tool}' has {size} bytes, more than the limit of {}; it has no text that could be shown.",
            facts.limit
        ),
        (Some(cut), _) if cut.shown_bytes == cut.total_bytes => {
            let is_whole = facts.structured.is_none_or(|shown| shown == StructuredShown::Whole);
            let rest = if is_whole { "" } else { ", its structured content is not" };
            format!(
                "The answer of tool '{tool}' has {size} bytes, more than the limit of {}: its text is shown whole{rest}.",
                facts.limit
            )
        }
        (Some(cut), _) => format!(
            "The answer of tool '{tool}' has {size} bytes, more than the limit of {}: {} of the {} bytes of its text are shown.",
            facts.limit, cut.shown_bytes, cut.total_bytes
        ),
    };
    if let Some(left_out) = &report.left_out {
        let names: Vec<_> = left_out.names.iter().map(|name| plain(name, MAX_KEY_BYTES)).collect();
        let more = if left_out.count > names.len() { ", …" } else { "" };
        let _ = write!(
            text,
            " Left out are {} bytes beside the content ({}{more}).",
            left_out.bytes,
            names.join(", ")
        );
    }
    let save = &report.save;
    let single = match (&save.artifacts[..], &save.fallback_artifact) {
        ([single], None) | ([], Some(single)) => Some(single),
        _ => None,
    };
    match (save.status, single) {
        (SaveStatus::Error, _) => {
            let _ = write!(
                text,
                " Saving it failed, so there is no artifact to read: {}",
                save.message
            );
        }
        (SaveStatus::Off, _) => text.push_str(" It is not saved: the setting save is false."),
        (SaveStatus::Success, Some(one)) => {
            let _ =
                write!(text, " It is saved as artifact '{}' (version {}).", one.name, one.version);
        }
        (SaveStatus::PartialSuccess, Some(one)) => {
            let _ = write!(
                text,
                " {} It is artifact '{}' (version {}).",
                save.message, one.name, one.version
            );
        }
        (status, None) => {
            let count = save.artifacts.len() + usize::from(save.fallback_artifact.is_some());
            let _ = match status {
                SaveStatus::Success => write!(text, " It is saved as {count} artifacts."),
                _ => write!(text, " {}", save.message),
            };
            if let Some(first) = save.artifacts.first() {
                let _ = write!(text, " The first is '{}' (version {}).", first.name, first.version);
            }
        }
    }
    if facts.is_lossy {
        text.push_str(" What is neither shown nor saved is lost.");
    }
    let is_saved = !matches!(save.status, SaveStatus::Error | SaveStatus::Off);
    if is_saved && !facts.is_whole && !facts.read_tool.is_empty() {
        let tool = plain(facts.read_tool, 100);
        let _ = match single {
            Some(one) => {
                let start = shown_of(one, report)
                    .map(|shown| format!(" and start_byte={shown}"))
                    .unwrap_or_default();
                write!(text, " Read on with the tool '{tool}', name as above{start}.")
            }
            None => write!(text, " Read on with the tool '{tool}', name as below."),
        };
    }
    text
}

/// Returns the bytes at the start of an artifact that the answer shows; none if it shows none or
/// all of them, or another form of the content.
fn shown_of(artifact: &SavedArtifact, report: &Report) -> Option<u64> {
    let cut = report.truncated?;
    let is_partial = 0 < cut.shown_bytes && cut.shown_bytes < cut.total_bytes;
    let is_same = artifact.metadata.content_type != Some(ContentType::Raw)
        && artifact.size_bytes == cut.total_bytes;
    (is_partial && is_same).then_some(cut.head_bytes)
}

/// Returns the whole notice: the head, then a line for each artifact and for each item that was not
/// saved.
pub(crate) fn notice(report: &Report, facts: &Facts<'_>) -> String {
    let save = &report.save;
    let artifacts = save.artifacts.iter().chain(&save.fallback_artifact);
    let list = if facts.list_tool.is_empty() {
        String::new()
    } else {
        format!("; call '{}' for all", plain(facts.list_tool, 100))
    };
    let mut text = format!("[{}", report.message);
    text.push_str(&about_structured(facts));
    let lines = artifacts.map(|artifact| about(artifact, facts.find_tools));
    append(&mut text, lines, &format!("more artifacts{list}"));
    let unsaved = report.items.iter().filter_map(|item| {
        let outcome = match item.outcome {
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
            Outcome::Saved | Outcome::Inlined => return None,
        };
        let reason = plain(item.reason.as_deref().unwrap_or_default(), 200);
        let index = item.index;
        let kind = plain(&item.kind, 40);
        // Only an undecodable item has both an error and an artifact.
        let json = item.artifact.as_ref().map(|uri| format!("; its JSON is in {uri}"));
        Some(format!("item {index} ({kind}) {outcome}: {reason}{}", json.unwrap_or_default()))
    });
    append(&mut text, unsaved, "more items that were not saved");
    text.push(']');
    text
}

/// Returns the line that says how to get structured content that does not fit.
fn about_structured(facts: &Facts<'_>) -> String {
    let what = match facts.structured {
        Some(StructuredShown::Shortened) => "shortened here, as far as its schema allows",
        Some(StructuredShown::Replaced | StructuredShown::Dropped) => "left out here",
        Some(StructuredShown::Whole) | None => return String::new(),
    };
    match facts.whole_structured {
        Some(SavedArtifact { name, version, .. }) if !facts.read_tool.is_empty() => format!(
            "\n- structuredContent is {what}; '{}' with name '{name}' and version {version} gives all of it",
            plain(facts.read_tool, 100)
        ),
        Some(SavedArtifact { name, version, .. }) => {
            format!(
                "\n- structuredContent is {what}; artifact '{name}' version {version} has all of it"
            )
        }
        None => format!("\n- structuredContent is {what}, and saved nowhere"),
    }
}

/// Adds lines while there is room, then the number of the others.
fn append(text: &mut String, lines: impl Iterator<Item = String>, more: &str) {
    let mut left_out = 0;
    for (number, line) in lines.enumerate() {
        // Artifacts have at least half of the room, other items the rest. The last line always
        // fits.
        if left_out > 0 || number >= MAX_NAMED || text.len() + line.len() + 300 > MAX_BYTES {
            left_out += 1;
        } else {
            let _ = write!(text, "\n- {line}");
        }
    }
    if left_out > 0 {
        let _ = write!(text, "\n- and {left_out} {more}");
    }
}

/// Returns the line of one artifact.
fn about(artifact: &SavedArtifact, tools: FindTools<'_>) -> String {
    let SavedArtifact { name, version, mime_type, size_bytes, metadata, .. } = artifact;
    let mut line =
        format!("'{name}' version {version}: {}, {size_bytes} bytes", plain(mime_type, 100));
    if let Some(summary) = &metadata.parsed_data_summary {
        let _ = write!(line, ", {}", outline(summary));
    }
    if let Some(resource) = metadata.resource.as_ref().filter(|resource| resource.is_placeholder) {
        let uri = plain(&resource.resource_uri, MAX_URI_BYTES);
        let _ = write!(
            line,
            "; it holds no content, since the answer gave only the resource's URI: {uri}"
        );
    }
    if let Some(call) = proposal(artifact, tools) {
        let _ = write!(line, "; find in it with {call}");
    }
    line
}

fn outline(summary: &Summary) -> String {
    match summary.kind.as_str() {
        "object" => {
            let plural = if summary.key_count == Some(1) { "" } else { "s" };
            format!(
                "object with {} key{plural}{}",
                summary.key_count.unwrap_or_default(),
                outlined_names(summary.keys.as_deref())
            )
        }
        "array" => format!(
            "array of {}{}",
            summary.length.unwrap_or_default(),
            outlined_names(summary.first_item_keys.as_deref())
        ),
        "table" => format!(
            "table of {} rows and {} columns{}",
            summary.rows.unwrap_or_default(),
            summary.columns.unwrap_or_default(),
            outlined_names(summary.headers.as_deref())
        ),
        "lines" => format!(
            "{} lines{}",
            summary.rows.unwrap_or_default(),
            outlined_names(summary.first_item_keys.as_deref())
        ),
        other => other.to_owned(),
    }
}

/// Returns the first names after a colon; empty if there are none.
fn outlined_names(names: Option<&[String]>) -> String {
    let names = names
        .unwrap_or_default()
        .iter()
        .take(MAX_KEYS)
        .map(|name| plain(name, MAX_KEY_BYTES))
        .collect::<Vec<_>>()
        .join(", ");
    if names.is_empty() { names } else { format!(": {names}") }
}

/// Quotes text from outside: on one line, without our own marks, and short.
pub(crate) fn plain(text: &str, bytes: usize) -> String {
    let front = marquetry_text_format::shortened(text, bytes);
    let clean = front.chars().map(|char| match char {
        '\'' | '[' | ']' => ' ',
        char if is_deceptive(char) => ' ',
        char => char,
    });
    clean.collect()
}
