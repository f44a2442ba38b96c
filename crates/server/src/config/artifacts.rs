//! What becomes of large and binary tool answers.

use std::path::PathBuf;

use marquetry_artifacts::{
    DirectoryOptions, MemoryLimits, Settings,
    settings::{
        InferenceDepth, Oversize, Processing, ResourceLinks, SizeMeasure, TextResources,
        YamlMimeType,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Whose artifacts a caller can list, read and delete: "principal", those of its own calls; "session", those of its own HTTP session
    /// where there is one; "shared", everybody's. Without `[auth]` all callers are one principal, `local`.
    pub scope: ArtifactScope,
    /// Bytes that the memory store keeps, of all artifacts together. When it is full, the principal who holds the most loses what was
    /// written or read the longest ago; whoever asks for it is told that it has expired.
    pub memory_max_bytes: u64,
    /// Bytes that the directory store takes on the disk. When it is full, it makes room as the memory store does.
    pub directory_max_bytes: u64,
    /// The largest artifact that the directory store takes, in bytes.
    pub directory_max_artifact_bytes: u64,
    /// Whether the directory store waits for the disk at each artifact, so that it survives a power failure.
    pub durable: bool,
    /// The defaults of the four settings below: "standard" is for agents that read code; "small-context" saves above 2048 bytes, shows
    /// 4096, replaces images by links and saves text resources however small they are.
    pub preset: ArtifactPreset,
    /// A text answer larger than this is saved, in bytes of its JSON: 32768, unless `preset` says otherwise.
    #[schemars(example = 32_768)]
    pub mcp_tool_response_save_threshold_bytes: Option<u64>,
    /// An answer larger than this is saved and shown shortened to this, in bytes of its JSON: 65536, unless `preset` says otherwise.
    #[schemars(example = 65_536)]
    pub mcp_tool_llm_return_max_bytes: Option<u64>,
    /// Images up to this size stay in the answer beside their artifact, for models that see, in bytes after decoding; 0 is none. 1048576,
    /// unless `preset` says otherwise.
    #[schemars(example = 1_048_576)]
    pub inline_image_max_bytes: Option<u64>,
    /// Images of one answer that stay in it have at most so many bytes together, after decoding; later ones become links.
    pub inline_images_total_max_bytes: u64,
    /// When the text of an embedded resource is saved: "as-text", when the answer exceeds the save threshold, or "always". "as-text",
    /// unless `preset` says otherwise.
    #[schemars(with = "Option<String>", example = &"as-text")]
    pub text_resources: Option<TextResources>,
    /// What is shown of an answer that is too large: "truncate" its beginning, "withhold" all of it.
    #[schemars(with = "String")]
    pub oversize: Oversize,
    /// How an answer is measured: "compact" is its JSON without spaces in UTF-8; "sam-compatible" counts as Solace Agent Mesh does, with
    /// spaces after separators and `\uXXXX` for everything that is not ASCII.
    #[schemars(with = "String")]
    pub size_measure: SizeMeasure,
    /// MIME type of YAML artifacts, "application/x-yaml" or "application/yaml" (RFC 9512).
    #[schemars(with = "String")]
    pub yaml_mime_type: YamlMimeType,
    /// Keys of one object that an artifact's inferred schema lists.
    pub schema_max_keys: usize,
    /// Levels of nesting that an artifact's inferred schema shows, 1 to 10.
    #[schemars(with = "u64")]
    pub schema_inference_depth: InferenceDepth,
    /// What becomes of a link to a resource: "keep" leaves it in the answer, "placeholder" saves its URI as an artifact as well.
    #[schemars(with = "String")]
    pub resource_links: ResourceLinks,
    /// Turn the two characters `\n` in CSV into line ends, for servers that escape twice; it changes the bytes that are saved.
    pub unescape_csv_newlines: bool,
    /// How answers are taken apart into artifacts.
    pub mcp_intelligent_processing: Processing,
}

impl Default for ArtifactsConfig {
    fn default() -> Self {
        Self {
            store: StoreKind::Memory,
            directory: None,
            scope: ArtifactScope::Principal,
            memory_max_bytes: 256 << 20,
            directory_max_bytes: 10 << 30,
            directory_max_artifact_bytes: 1 << 30,
            durable: true,
            preset: ArtifactPreset::Standard,
            mcp_tool_response_save_threshold_bytes: None,
            mcp_tool_llm_return_max_bytes: None,
            inline_image_max_bytes: None,
            inline_images_total_max_bytes: 4 << 20,
            text_resources: None,
            oversize: Oversize::Truncate,
            size_measure: SizeMeasure::Compact,
            yaml_mime_type: YamlMimeType::XYaml,
            schema_max_keys: 20,
            schema_inference_depth: InferenceDepth::default(),
            resource_links: ResourceLinks::Keep,
            unescape_csv_newlines: false,
            mcp_intelligent_processing: Processing::default(),
        }
    }
}

impl StoreKind {
    /// The name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Directory => "directory",
        }
    }
}

impl ArtifactsConfig {
    pub(crate) fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits::default().with_max_total_bytes(self.memory_max_bytes)
    }

    pub(crate) fn directory_options(&self) -> DirectoryOptions {
        DirectoryOptions::default()
            .with_durable(self.durable)
            .with_max_artifact_bytes(self.directory_max_artifact_bytes)
            .with_max_total_bytes(self.directory_max_bytes)
    }

    /// Says why the directory cannot hold artifacts, as far as that shows without making it.
    pub(crate) fn check_directory(&self) -> Result<(), String> {
        let Some(directory) = &self.directory else {
            return Err("the directory store needs a directory".to_owned());
        };
        // What is missing is made, below the nearest that there is.
        let nearest = directory.ancestors().find_map(|path| Some((path, path.metadata().ok()?)));
        match nearest {
            Some((path, found)) if !found.is_dir() => Err(format!("{path:?} is not a directory")),
            Some((path, found)) if found.permissions().readonly() => {
                Err(format!("{path:?} cannot be written"))
            }
            _ => Ok(()),
        }
    }

    /// The part that the capture step acts on.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = match self.preset {
            ArtifactPreset::Standard => Settings::default(),
            ArtifactPreset::SmallContext => Settings::small_context(),
        };
        let set = |setting: &mut u64, value: Option<u64>| *setting = value.unwrap_or(*setting);
        set(
            &mut settings.mcp_tool_response_save_threshold_bytes,
            self.mcp_tool_response_save_threshold_bytes,
        );
        set(&mut settings.mcp_tool_llm_return_max_bytes, self.mcp_tool_llm_return_max_bytes);
        set(&mut settings.inline_image_max_bytes, self.inline_image_max_bytes);
        settings.text_resources = self.text_resources.unwrap_or(settings.text_resources);
        settings.inline_images_total_max_bytes = self.inline_images_total_max_bytes;
        settings.oversize = self.oversize;
        settings.size_measure = self.size_measure;
        settings.yaml_mime_type = self.yaml_mime_type;
        settings.schema_max_keys = self.schema_max_keys;
        settings.schema_inference_depth = self.schema_inference_depth;
        settings.resource_links = self.resource_links;
        settings.unescape_csv_newlines = self.unescape_csv_newlines;
        settings.mcp_intelligent_processing = self.mcp_intelligent_processing.clone();
        settings
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

/// Whose artifacts a caller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactScope {
    /// Those that its own calls made.
    #[default]
    Principal,
    /// Those that its own HTTP session made; without a session, as `Principal`.
    Session,
    /// All there are.
    Shared,
}

/// Defaults that belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactPreset {
    /// For agents that read code.
    #[default]
    Standard,
    /// For models with a small context.
    SmallContext,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_capture_step() {
        let config = ArtifactsConfig::default();
        assert_eq!(config.settings(), Settings::default());
        assert_eq!(config.memory_limits().max_total_bytes, MemoryLimits::default().max_total_bytes);
        let (ours, theirs) = (config.directory_options(), DirectoryOptions::default());
        assert_eq!(ours, theirs);
    }

    #[test]
    fn a_preset_gives_defaults_and_no_more() {
        let config = |toml: &str| toml::from_str::<ArtifactsConfig>(toml).unwrap().settings();
        let small = config("preset = 'small-context'");
        assert_eq!(small, Settings::small_context());
        let figures =
            (small.mcp_tool_response_save_threshold_bytes, small.mcp_tool_llm_return_max_bytes);
        assert_eq!(figures, (2048, 4096));
        let mixed = config("preset = 'small-context'\nmcp_tool_llm_return_max_bytes = 7");
        assert_eq!(mixed.mcp_tool_llm_return_max_bytes, 7);
        assert_eq!(mixed.inline_image_max_bytes, 0);
    }
}
