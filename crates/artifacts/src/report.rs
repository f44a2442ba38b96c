//! The machine-readable account of one capture.

use serde::{Deserialize, Serialize};

use crate::{
    metadata::Metadata,
    name::{ArtifactName, ArtifactUri},
    store::{ContentHash, Record},
};

/// The most items that a report names one by one.
pub(crate) const MAX_LISTED_ITEMS: usize = 1000;

/// What a capture did, as it stands in the answer's `_meta` under [`META_KEY`](crate::META_KEY).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The outcome in a word.
    pub status: Status,
    /// Size of the upstream's answer, in bytes as the settings measure it.
    pub size_bytes: u64,
    /// A rough estimate of the tokens that the upstream's answer would cost a model: a quarter of its size.
    pub estimated_tokens: u64,
    /// The outcome in a few sentences: the beginning of the notice that the model reads.
    pub message: String,
    /// How much text is shown; only when the answer was over the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// What the upstream's answer had beside its content that is not in the answer now; only when the answer was over
    /// the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// What was saved.
    pub save: Save,
    /// One record for each item of the answer, in order; the first 1000.
    pub items: Vec<ItemReport>,
    /// Items beyond these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items_not_listed: usize,
    /// What became of the answer's `structuredContent`, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<StructuredReport>,
}

/// The outcome of a capture in a word.
///
/// An answer that was not touched would be `processed`; such an answer carries no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Saved; its text is shown whole.
    ProcessedAndSaved,
    /// Saved; the beginning of its text is shown.
    ProcessedSavedAndTruncated,
    /// Saved; nothing of it is shown.
    ProcessedSavedAndWithheld,
    /// Not saved; its text is shown whole.
    ProcessedSaveFailed,
    /// Not saved; the beginning of its text is shown.
    ProcessedTruncatedSaveFailed,
    /// Not saved; nothing of it is shown.
    ProcessedWithheldSaveFailed,
}

/// How much text of an answer is shown. Bytes of UTF-8, without our own marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Truncated {
    /// All text items and texts of embedded resources together.
    pub total_bytes: u64,
    /// What of them is in the answer now; never more than the limit.
    pub shown_bytes: u64,
}

/// Members of an answer and of its `_meta` that are not in the answer now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// How many there are.
    pub count: usize,
    /// Names and values together, in bytes of JSON as sent.
    pub bytes: u64,
    /// The names of the first 8, long ones shortened; those of `_meta` begin with `_meta/`.
    pub names: Vec<String>,
}

impl LeftOut {
    /// The most names.
    pub(crate) const MAX_NAMES: usize = 8;
    /// The longest name.
    pub(crate) const MAX_NAME_BYTES: usize = 40;
}

/// What was saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Save {
    /// Whether all of it was.
    pub status: SaveStatus,
    /// The same in a sentence, with the first error.
    pub message: String,
    /// The artifacts of single items and of `structuredContent`, in order.
    pub artifacts: Vec<SavedArtifact>,
    /// The answer as a whole, if it was saved so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_artifact: Option<SavedArtifact>,
}

/// Whether everything was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SaveStatus {
    /// Everything that was to be saved.
    Success,
    /// Some of it, or only the answer as a whole.
    PartialSuccess,
    /// Nothing.
    Error,
}

/// An artifact that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedArtifact {
    /// Its name.
    pub name: ArtifactName,
    /// Its version.
    pub version: u64,
    /// Its address, version included.
    pub uri: String,
    /// What its bytes are.
    pub mime_type: String,
    /// How many they are.
    pub size_bytes: u64,
    /// Their hash.
    pub hash: ContentHash,
    /// What else is known, apart from the tool's arguments: these stay in the store.
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

/// What became of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ItemReport {
    /// Its position, from 0.
    pub index: usize,
    /// Its type as sent; empty when it had none.
    #[serde(rename = "type")]
    pub kind: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why; absent for what was simply saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was odd about it: it was understood all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The address of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// What became of `structuredContent`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StructuredReport {
    /// What became of it.
    pub outcome: Outcome,
    /// How much of it is in the answer now.
    #[serde(default)]
    pub shown: StructuredShown,
    /// Why; absent for what was simply saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The address of its artifact, or of the text item's that says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

/// How much of `structuredContent` is in the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StructuredShown {
    /// All of it, as sent.
    #[default]
    Whole,
    /// A part that still satisfies the tool's output schema: shorter strings, lists and maps.
    Shortened,
    /// None of it: a note that names the artifact stands in its place.
    Replaced,
}

/// What became of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It is an artifact now.
    Saved,
    /// It needs no artifact and stays where it was.
    Inlined,
    /// It was not to be saved.
    Skipped,
    /// It could not be saved.
    Failed,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
