//! What becomes of large and binary tool answers.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// Thresholds, the store, and how answers are taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ArtifactsConfig {
    /// "memory" keeps artifacts until the server ends, "directory" keeps them in `directory`.
    pub store: StoreKind,
    /// Where the directory store keeps its files; created when missing.
    #[schemars(example = &"artifacts")]
    pub directory: Option<PathBuf>,
    /// A text answer larger than this is saved, in bytes of its JSON.
    pub mcp_tool_response_save_threshold_bytes: usize,
    /// An answer larger than this is saved and shown shortened to this, in bytes of its JSON.
    pub mcp_tool_llm_return_max_bytes: usize,
    /// What is shown of an answer that is too large: "truncate" its beginning, "withhold" all of it.
    pub oversize: Oversize,
    /// How an answer is measured: "compact" is its JSON without spaces in UTF-8; "sam-compatible" counts as Solace Agent Mesh does, with
    /// spaces after separators and `\uXXXX` for everything that is not ASCII.
    pub size_measure: SizeMeasure,
    /// MIME type of YAML artifacts, "application/x-yaml" or "application/yaml" (RFC 9512).
    pub yaml_mime_type: YamlMimeType,
    /// Keys of one object that an artifact's inferred schema lists.
    pub schema_max_keys: usize,
    /// Levels of nesting that an artifact's inferred schema shows, 1 to 10.
    #[serde(deserialize_with = "inference_depth")]
    pub schema_inference_depth: usize,
    /// What becomes of a link to a resource: "keep" leaves it in the answer, "placeholder" saves its URI as an artifact as well.
    pub resource_links: ResourceLinks,
    /// Images up to this size stay in the answer beside their artifact, for models that see, in bytes after decoding; 0 is none.
    pub inline_image_max_bytes: usize,
    /// Turn the two characters `\n` in CSV into line ends, for servers that escape twice; it changes the bytes that are saved.
    pub unescape_csv_newlines: bool,
    /// How answers are taken apart into artifacts.
    pub mcp_intelligent_processing: IntelligentProcessing,
}

impl Default for ArtifactsConfig {
    fn default() -> Self {
        Self {
            store: StoreKind::Memory,
            directory: None,
            mcp_tool_response_save_threshold_bytes: 2_048,
            mcp_tool_llm_return_max_bytes: 4_096,
            oversize: Oversize::Truncate,
            size_measure: SizeMeasure::Compact,
            yaml_mime_type: YamlMimeType::XYaml,
            schema_max_keys: 20,
            schema_inference_depth: 4,
            resource_links: ResourceLinks::Keep,
            inline_image_max_bytes: 0,
            unescape_csv_newlines: false,
            mcp_intelligent_processing: IntelligentProcessing::default(),
        }
    }
}

/// Where artifacts are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// In this process, gone when it ends.
    #[default]
    Memory,
    /// Files below a directory.
    Directory,
}

/// What is shown of an answer larger than the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Oversize {
    /// As much of its beginning as the limit allows.
    #[default]
    Truncate,
    /// Nothing but where it was saved.
    Withhold,
}

fn inference_depth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let depth = usize::deserialize(deserializer)?;
    if (1..=10).contains(&depth) {
        return Ok(depth);
    }
    Err(D::Error::custom(format!("{depth} is out of range; expected 1 to 10")))
}

/// How answers are taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct IntelligentProcessing {
    /// One artifact an item with its own type; off saves the whole answer as one JSON artifact.
    pub enable_intelligent_processing: bool,
    /// When nothing of an answer could be saved item by item, save the whole as one JSON artifact.
    pub fallback_to_raw_on_error: bool,
    /// Save the whole answer as JSON beside its items.
    pub save_raw_alongside_intelligent: bool,
    /// Tell JSON, YAML, CSV and Markdown from plain text.
    pub enable_text_format_detection: bool,
    /// Put a summary of JSON, YAML and CSV in the artifact's metadata.
    pub enable_content_parsing: bool,
    /// Items of one answer that become artifacts; further ones are skipped, and said to be.
    pub max_content_items: usize,
    /// Largest item that is saved, in MiB after decoding.
    pub max_single_item_size_mb: usize,
}

impl Default for IntelligentProcessing {
    fn default() -> Self {
        Self {
            enable_intelligent_processing: true,
            fallback_to_raw_on_error: true,
            save_raw_alongside_intelligent: false,
            enable_text_format_detection: true,
            enable_content_parsing: true,
            max_content_items: 50,
            max_single_item_size_mb: 100,
        }
    }
}

/// See `artifacts.size_measure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SizeMeasure {
    /// JSON without spaces, in UTF-8.
    #[default]
    Compact,
    /// As Solace Agent Mesh measures.
    SamCompatible,
}

/// See `artifacts.yaml_mime_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum YamlMimeType {
    /// The older, unregistered name.
    #[default]
    #[serde(rename = "application/x-yaml")]
    XYaml,
    /// RFC 9512.
    #[serde(rename = "application/yaml")]
    Yaml,
}

/// See `artifacts.resource_links`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceLinks {
    /// Links stay in the answer.
    #[default]
    Keep,
    /// Their URIs are saved as artifacts as well.
    Placeholder,
}
