//! The report of one capture, for programs.

use serde::{Deserialize, Serialize};

use crate::{
    metadata::Metadata,
    name::{ArtifactName, ArtifactUri},
    store::{ContentHash, Record},
};

/// Items that a report lists.
pub(crate) const MAX_LISTED_ITEMS: usize = 1000;

/// Key of the report in the answer's `_meta`, and in `structuredContent` that was replaced.
pub const META_KEY: &str = "marquetry/capture";

/// The report of one capture, in the answer's `_meta` under [`META_KEY`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The outcome in one word.
    pub status: Status,
    /// Size of the upstream's answer in bytes, measured by `size_measure`.
    pub size_bytes: u64,
    /// Estimate of the tokens that the upstream's answer would cost a model. A long answer is
    /// estimated by its first 16 KiB.
    pub estimated_tokens: u64,
    /// The part of the answer that the model does not get.
    #[serde(default, skip_serializing_if = "KeptFromModel::is_nothing")]
    pub kept_from_model: KeptFromModel,
    /// The outcome in a few sentences: the beginning of the notice that the model reads.
    pub message: String,
    /// Size of the text that is shown; only for answers over the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// Members beside the content that were left out; only for answers over the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<OmittedMembers>,
    /// The artifacts that were saved.
    pub save: Save,
    /// Outcomes of the first 1000 items, in order.
    pub items: Vec<ItemReport>,
    /// Number of further items, and of items that were left out because of `report_max_bytes`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items_not_listed: usize,
    /// Outcome of `structuredContent`, if the answer has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<StructuredReport>,
    /// Name of the client profile that decided what is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

impl Report {
    /// Returns the report as JSON, shortened to `max_bytes` if possible: first without the metadata
    /// of artifacts, then with shorter lists. Only the message and the counts are never shortened;
    /// they have less than 4 KiB.
    #[must_use]
    pub fn json_within(&self, max_bytes: u64) -> String {
        let whole = self.whole_json();
        if whole.len() as u64 <= max_bytes {
            return whole;
        }
        let mut short = self.clone();
        for artifact in short.save.artifacts.iter_mut().chain(&mut short.save.fallback_artifact) {
            artifact.metadata = Metadata::default();
        }
        let mut shortened = short.whole_json();
        while shortened.len() as u64 > max_bytes {
            let longest = short.items.len().max(short.save.artifacts.len());
            if longest == 0 {
                break;
            }
            let items = &mut short.items;
            let artifacts = &mut short.save.artifacts;
            short.items_not_listed += keep_first(items, longest / 2);
            short.save.artifacts_not_listed += keep_first(artifacts, longest / 2);
            shortened = short.whole_json();
        }
        shortened
    }

    fn whole_json(&self) -> String {
        serde_json::to_string(self).expect("a report has only text keys")
    }
}

/// Shortens a list, and returns the number of removed elements.
fn keep_first<T>(list: &mut Vec<T>, count: usize) -> usize {
    let removed = list.len().saturating_sub(count);
    list.truncate(count);
    removed
}

/// The outcome of a capture in one word.
///
/// An unchanged answer has no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Saved; its text is shown whole.
    ProcessedAndSaved,
    /// Saved; the beginning and the end of its text are shown.
    ProcessedSavedAndTruncated,
    /// Saved; nothing of it is shown.
    ProcessedSavedAndWithheld,
    /// Not saved; its text is shown whole.
    ProcessedSaveFailed,
    /// Not saved; the beginning and the end of its text are shown.
    ProcessedTruncatedSaveFailed,
    /// Not saved; nothing of it is shown.
    ProcessedWithheldSaveFailed,
    /// Not saved, because the setting `save` is off; its text is shown whole.
    Processed,
    /// Not saved, because the setting `save` is off; the beginning and the end of its text are
    /// shown.
    ProcessedTruncated,
    /// Not saved, because the setting `save` is off; nothing of it is shown.
    ProcessedWithheld,
}

/// Size of the text of an answer and of its shown part, in bytes of UTF-8 without added marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Truncated {
    /// Size of all text items and texts of embedded resources.
    pub total_bytes: u64,
    /// Size of the parts in the new answer; at most the limit.
    pub shown_bytes: u64,
    /// Size of the part before the first gap.
    pub head_bytes: u64,
}

/// The part of an answer that the model does not get: the answer of the upstream without the new
/// one, and without the report.
///
/// The tokens are estimated: those bytes, at the tokens per byte of the answer's first 16 KiB.
/// Images, sounds and other binary data count as bytes alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KeptFromModel {
    /// Bytes of JSON.
    pub bytes: u64,
    /// Estimated tokens.
    pub tokens: u64,
}

impl KeptFromModel {
    /// Returns whether the new answer is as long as the answer, or longer.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the difference between an answer with these bytes and tokens and what is shown of
    /// it, of which `media` bytes are binary data in Base64.
    pub(crate) fn of(answer: u64, tokens: u64, shown: u64, media: u64) -> Self {
        let bytes = answer.saturating_sub(shown);
        let text = u128::from(bytes.saturating_sub(media));
        let tokens = u128::from(tokens) * text / u128::from(answer.max(1));
        Self { bytes, tokens: u64::try_from(tokens).unwrap_or(u64::MAX) }
    }
}

/// Members of an answer and of its `_meta` that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OmittedMembers {
    /// Number of members.
    pub count: usize,
    /// Size of names and values, in bytes of JSON as sent.
    pub bytes: u64,
    /// Names of the first 8, shortened if they are long. Names in `_meta` begin with `_meta/`.
    pub names: Vec<String>,
}

impl OmittedMembers {
    /// Number of names that are listed.
    pub(crate) const MAX_NAMES: usize = 8;
    /// Longest name that is listed whole, in bytes.
    pub(crate) const MAX_NAME_BYTES: usize = 40;
}

/// The artifacts of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Save {
    /// Whether everything was saved.
    pub status: SaveStatus,
    /// The status as a sentence, with the first error.
    pub message: String,
    /// The artifacts of single items and of `structuredContent`, in order.
    pub artifacts: Vec<SavedArtifact>,
    /// Number of further artifacts that were left out because of `report_max_bytes`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub artifacts_not_listed: usize,
    /// The artifact of the whole answer, if it was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_artifact: Option<SavedArtifact>,
}

impl Save {
    /// Returns the outcome without saving.
    pub(crate) fn off() -> Self {
        Self {
            status: SaveStatus::Off,
            message: "The setting save is false.".to_owned(),
            artifacts: Vec::new(),
            artifacts_not_listed: 0,
            fallback_artifact: None,
        }
    }
}

/// Result of the saves of one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SaveStatus {
    /// Every save succeeded.
    Success,
    /// Some saves failed, or only the whole answer was saved.
    PartialSuccess,
    /// Nothing was saved.
    Error,
    /// The setting `save` is off.
    Off,
}

/// A saved artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedArtifact {
    /// Its name.
    pub name: ArtifactName,
    /// Its version.
    pub version: u64,
    /// Its `artifact://` URI with the version.
    pub uri: String,
    /// Its MIME type.
    pub mime_type: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Hash of its bytes.
    pub hash: ContentHash,
    /// Its metadata without the tool's arguments, which only the store has.
    pub metadata: Metadata,
}

impl From<Record> for SavedArtifact {
    fn from(record: Record) -> Self {
        let Record { name, version, mime_type, size_bytes, hash, metadata, .. } = record;
        let uri = ArtifactUri { name: name.clone(), version: Some(version) }.to_string();
        let metadata = Metadata { source_tool_args: None, ..metadata };
        Self { name, version, uri, mime_type, size_bytes, hash, metadata }
    }
}

/// Outcome of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ItemReport {
    /// Its position, from 0.
    pub index: usize,
    /// Its type as sent; empty without one.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// Reason of an outcome other than saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Oddities of the item that did not prevent its outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// URI of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// Outcome of `structuredContent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StructuredReport {
    /// Its outcome.
    pub outcome: Outcome,
    /// Part of it in the new answer.
    #[serde(default)]
    pub shown: StructuredShown,
    /// Reason of an outcome other than saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// URI of its artifact, or of the artifact of a text item with the same content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// Part of `structuredContent` in the new answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StructuredShown {
    /// All of it, as sent.
    #[default]
    Whole,
    /// Shorter strings, lists and maps that still satisfy the tool's output schema.
    Shortened,
    /// None of it: a note with the name of the artifact replaces it.
    Replaced,
    /// None of it: the client shows structured content in place of text, and the text has the
    /// notice; or it shows both, and the text says the same.
    Dropped,
}

/// Outcome of one item or of `structuredContent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It is an artifact.
    Saved,
    /// It stays in the answer without an artifact.
    Inlined,
    /// It is of a kind that is not saved, or saving is switched off.
    Skipped,
    /// Saving it failed.
    Failed,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_data_cost_no_tokens() {
        let text = KeptFromModel::of(1_000, 250, 200, 0);
        assert_eq!(text, KeptFromModel { bytes: 800, tokens: 200 });
        let picture = KeptFromModel::of(1_000, 600, 200, 800);
        assert_eq!(picture, KeptFromModel { bytes: 800, tokens: 0 });
        assert!(KeptFromModel::of(100, 25, 300, 0).is_nothing());
    }
}
