//! Settings of captures and stores, with their defaults.

mod policy;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::policy::{Capture, CaptureLevel, CapturePolicy};
use crate::glob::Glob;

/// Settings for splitting answers into items: the keys under `mcp_intelligent_processing`.
///
/// With the feature `schema`, a server can generate the documentation of its settings from these
/// comments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Processing {
    /// Saves each item as a separate artifact with its own type; off saves the whole answer as one
    /// JSON artifact.
    pub enable_intelligent_processing: bool,
    /// Saves the whole answer as one JSON artifact if no item of it could be saved.
    pub fallback_to_raw_on_error: bool,
    /// Saves the whole answer as JSON besides its items.
    pub save_raw_alongside_intelligent: bool,
    /// Detects JSON, YAML, CSV and Markdown in text.
    pub enable_text_format_detection: bool,
    /// Adds a summary of JSON, YAML and CSV to the artifact's metadata.
    pub enable_content_parsing: bool,
    /// Items of one answer that become separate artifacts; further ones are saved together, in one
    /// JSON artifact.
    pub max_content_items: usize,
    /// Items of one answer that are examined separately; further ones are saved with the others,
    /// unexamined.
    pub max_examined_items: usize,
    /// Largest item that is saved, in MiB after decoding.
    pub max_single_item_size_mb: u64,
}

/// Part of an answer over the limit that the model sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Oversize {
    /// The beginning and the end, up to the limit.
    #[default]
    Truncate,
    /// Only the names of the artifacts.
    Withhold,
}

/// How the size of an answer is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SizeMeasure {
    /// UTF-8 bytes of the answer as compact JSON: no white space between tokens, and only the
    /// escapes that JSON requires.
    #[default]
    Compact,
    /// As Solace Agent Mesh counts: `", "` and `": "` as separators, everything outside ASCII
    /// escaped as `\uXXXX`. Null members count, and numbers count as sent.
    SamCompatible,
}

/// The MIME type of YAML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum YamlMimeType {
    /// The unregistered name, which seed 000/2.1.4 requires.
    #[default]
    #[serde(rename = "application/x-yaml")]
    XYaml,
    /// The registered name, RFC 9512.
    #[serde(rename = "application/yaml")]
    Yaml,
}

impl YamlMimeType {
    /// Returns the MIME type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::XYaml => "application/x-yaml",
            Self::Yaml => "application/yaml",
        }
    }
}

/// Handling of a `resource_link` item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ResourceLinks {
    /// Leaves the link in the answer, without an artifact: it has no content, and the agent can
    /// follow it.
    #[default]
    Keep,
    /// Leaves the link in the answer, and saves an artifact `Resource reference: <uri>` (the
    /// literal reading of seed 000/2.4.1).
    Placeholder,
}

/// When the text of an embedded resource is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TextResources {
    /// When the answer exceeds the save threshold, as for text items.
    #[default]
    AsText,
    /// Always (the literal reading of seed 000/2.4.2). Small texts beside an item that is saved are
    /// saved, too (5.1).
    Always,
}

/// Store of artifacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StoreKind {
    /// Memory of this process.
    #[default]
    Memory,
    /// Files in a directory.
    Directory,
    /// Objects in a bucket, by the crate `marquetry-artifact-bucket`.
    Bucket,
}

impl StoreKind {
    /// Returns the name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Directory => "directory",
            Self::Bucket => "bucket",
        }
    }
}

/// Artifacts that a caller can list, read and delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ArtifactScope {
    /// Artifacts of its own calls.
    #[default]
    Principal,
    /// Artifacts of its own HTTP session. Without a session, as `Principal`.
    Session,
    /// All artifacts.
    Shared,
}

/// Defaults that belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ArtifactPreset {
    /// For agents that read code.
    #[default]
    Standard,
    /// For models with a small context.
    SmallContext,
}

/// A depth from 1 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct InferenceDepth(u8);

/// Error for a number that is not an [`InferenceDepth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema_inference_depth is {0}, not one of 1 to 10")]
pub struct InferenceDepthError(u64);

impl InferenceDepth {
    /// Returns the depth, 1 to 10.
    pub fn levels(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for InferenceDepth {
    fn default() -> Self {
        Self(4)
    }
}

impl TryFrom<u64> for InferenceDepth {
    type Error = InferenceDepthError;

    fn try_from(levels: u64) -> Result<Self, Self::Error> {
        match u8::try_from(levels) {
            Ok(small @ 1..=10) => Ok(Self(small)),
            _ => Err(InferenceDepthError(levels)),
        }
    }
}

impl From<InferenceDepth> for u64 {
    fn from(depth: InferenceDepth) -> Self {
        Self::from(depth.0)
    }
}

impl Default for Processing {
    fn default() -> Self {
        Self {
            enable_intelligent_processing: true,
            fallback_to_raw_on_error: true,
            save_raw_alongside_intelligent: false,
            enable_text_format_detection: true,
            enable_content_parsing: true,
            max_content_items: 50,
            max_examined_items: 4096,
            max_single_item_size_mb: 100,
        }
    }
}

impl Settings {
    /// Returns the settings for models with a small context, as in seed 000: save above 2048 bytes,
    /// show 4096, replace images by links, and save all embedded resources.
    ///
    /// The other settings are the defaults.
    #[must_use]
    pub fn small_context() -> Self {
        Self {
            mcp_tool_response_save_threshold_bytes: 2048,
            mcp_tool_llm_return_max_bytes: 4096,
            text_resources: TextResources::Always,
            inline_image_max_bytes: 0,
            ..Self::default()
        }
    }
}

impl Processing {
    /// Returns the largest item that is saved, in bytes.
    pub fn max_single_item_bytes(&self) -> u64 {
        self.max_single_item_size_mb.saturating_mul(1024 * 1024)
    }
}

/// Defines a patch type with every field optional, and the method that applies it.
macro_rules! patch {
    ($(#[$meta:meta])* $patch:ident for $target:ident { $($key:ident: $type:ty),* $(,)? } nested { $($inner:ident: $inner_type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct $patch {
            $(
                #[doc = concat!("Replaces [`", stringify!($target), "::", stringify!($key), "`].")]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $key: Option<$type>,
            )*
            $(
                #[doc = concat!("Replaces keys of [`", stringify!($target), "::", stringify!($inner), "`].")]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $inner: Option<$inner_type>,
            )*
        }

        impl $target {
            /// Returns the settings with the keys of the patch replaced.
            #[must_use]
            pub fn patched(&self, patch: &$patch) -> Self {
                Self {
                    $($key: patch.$key.clone().unwrap_or_else(|| self.$key.clone()),)*
                    $($inner: patch.$inner.as_ref().map_or_else(|| self.$inner.clone(), |inner| self.$inner.patched(inner)),)*
                }
            }
        }
    };
}

/// Declares each setting once, with its documentation and its default, for three types:
///
/// - [`Settings`], which a capture uses,
/// - [`SettingsPatch`], for single servers and tools,
/// - [`ArtifactOptions`], the table of a configuration file, in which a preset decides the defaults
///   of some settings.
///
/// `[…]` has attributes for the JSON schema of [`ArtifactOptions`].
macro_rules! settings {
    (
        of_preset {$(
            $(#[$preset_doc:meta])* [$($preset_schema:tt)*]
            $preset_key:ident: $preset_type:ty = $preset_default:expr;
        )*}
        $(
            $(#[$doc:meta])* [$($schema:tt)*]
            $key:ident: $type:ty = $default:expr;
        )*
    ) => {
        /// Settings of a capture: which answers are saved, how much of them the model sees, and how
        /// they are taken apart.
        ///
        /// Unknown keys are refused; missing keys have their defaults. To let upstreams or tools
        /// differ, keep a [`SettingsPatch`] for each and call [`Settings::patched`].
        ///
        /// ```
        /// use marquetry_artifacts::{Settings, settings::SettingsPatch};
        ///
        /// let base = Settings::default();
        /// let patch: SettingsPatch = serde_json::from_str(r#"{"mcp_tool_llm_return_max_bytes": 100000}"#)?;
        /// assert_eq!(base.patched(&patch).mcp_tool_llm_return_max_bytes, 100_000);
        /// assert_eq!(base.mcp_tool_response_save_threshold_bytes, 32_768);
        /// # Ok::<(), serde_json::Error>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct Settings {
            $($(#[$preset_doc])* pub $preset_key: $preset_type,)*
            $($(#[$doc])* pub $key: $type,)*
            /// How answers are split into artifacts.
            pub mcp_intelligent_processing: Processing,
        }

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    $($preset_key: $preset_default,)*
                    $($key: $default,)*
                    mcp_intelligent_processing: Processing::default(),
                }
            }
        }

        patch! {
            /// Settings of one upstream server or one tool: only the keys that differ.
            SettingsPatch for Settings {
                $($preset_key: $preset_type,)*
                $($key: $type,)*
            } nested {
                mcp_intelligent_processing: ProcessingPatch,
            }
        }

        /// Artifacts: where they are stored, and which answers become artifacts.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct ArtifactOptions {
            /// "memory" keeps artifacts until the server ends; "directory" keeps them in
            /// `directory`, "bucket" in `bucket`. Without this setting, a `directory` or a `bucket`
            /// decides.
            pub store: StoreKind,
            /// Directory of the directory store. It is created if it is missing, and must be empty
            /// at first.
            #[cfg_attr(feature = "schema", schemars(example = &"artifacts"))]
            pub directory: Option<PathBuf>,
            /// Bucket of the bucket store, and the prefix of its keys, which must be empty at
            /// first: "s3://bucket/prefix" (S3), "gs://…" (Google) or "az://…" (Azure). Several
            /// servers may share it. Credentials are taken from the environment, such as
            /// `AWS_ACCESS_KEY_ID`, or from the role of the machine.
            #[cfg_attr(feature = "schema", schemars(example = &"s3://bucket/marquetry"))]
            pub bucket: Option<String>,
            /// URL of the bucket's server. Without it, `AWS_ENDPOINT_URL`, or that of Amazon,
            /// Google or Microsoft.
            #[cfg_attr(feature = "schema", schemars(example = &"https://minio.example.com:9000"))]
            pub bucket_endpoint: Option<String>,
            /// Region of an S3 bucket. Without it, `AWS_REGION`, or "us-east-1".
            #[cfg_attr(feature = "schema", schemars(example = &"eu-central-1"))]
            pub bucket_region: Option<String>,
            /// Artifacts that a caller can list, read and delete: "principal", from its own calls;
            /// "session", from its own HTTP session, if it has one; "shared", all artifacts.
            /// Without `[auth]`, all callers are the principal `local`.
            pub scope: ArtifactScope,
            /// Size of all artifacts in the memory store, in bytes. A full store removes the least
            /// recently used artifacts of the principal who holds the most; reading a removed
            /// artifact says that it has expired.
            pub memory_max_bytes: u64,
            /// Size of the directory store on disk, in bytes. A full store makes room as the memory
            /// store does.
            pub directory_max_bytes: u64,
            /// Largest artifact in the directory store, in bytes.
            pub directory_max_artifact_bytes: u64,
            /// Size of all artifacts in the bucket store, in bytes. A full store makes room as the
            /// memory store does.
            pub bucket_max_bytes: u64,
            /// Waits for the disk at each artifact in the directory store, so that it survives a
            /// power failure.
            pub durable: bool,
            /// Tools of upstreams take the argument `_select`, a jq program over their answer, so
            /// that one call gets a few fields of a large answer. Their output schemas are not
            /// listed then.
            pub projections: bool,
            /// File for the daily figures of what shortened answers kept from models, which
            /// `marquetry stats` and the console show. By default `savings.db` in the user's data
            /// folder.
            #[cfg_attr(feature = "schema", schemars(example = &"savings.db"))]
            pub savings_database: Option<PathBuf>,
            /// Defaults of the four settings below: "standard" is for agents that read code;
            /// "small-context" saves above 2048 bytes, shows 4096, replaces images by links and
            /// saves text resources of any size.
            pub preset: ArtifactPreset,
            $(
                $(#[$preset_doc])*
                #[cfg_attr(feature = "schema", schemars($($preset_schema)*))]
                pub $preset_key: Option<$preset_type>,
            )*
            $(
                $(#[$doc])*
                #[cfg_attr(feature = "schema", schemars($($schema)*))]
                pub $key: $type,
            )*
            /// Settings that differ for some servers or tools, by patterns for their names. The
            /// first policy that matches a tool applies; `capture` of the server and of the tool in
            /// `[mcp_servers]` override it. For example `[[artifacts.policies]]`, `server =
            /// "git*"`, `tool = "read_*"`, `capture = { save = false }`.
            pub policies: Vec<CapturePolicy>,
            /// How answers are split into artifacts.
            pub mcp_intelligent_processing: Processing,
        }

        impl Default for ArtifactOptions {
            fn default() -> Self {
                Self {
                    store: StoreKind::Memory,
                    directory: None,
                    bucket: None,
                    bucket_endpoint: None,
                    bucket_region: None,
                    scope: ArtifactScope::Principal,
                    memory_max_bytes: 256 << 20,
                    directory_max_bytes: 10 << 30,
                    directory_max_artifact_bytes: 1 << 30,
                    bucket_max_bytes: 10 << 30,
                    durable: true,
                    projections: false,
                    savings_database: None,
                    preset: ArtifactPreset::Standard,
                    $($preset_key: None,)*
                    $($key: $default,)*
                    policies: Vec::new(),
                    mcp_intelligent_processing: Processing::default(),
                }
            }
        }

        impl ArtifactOptions {
            /// Returns the settings of captures: those of the preset, with the given keys replaced.
            #[must_use]
            pub fn settings(&self) -> Settings {
                let preset = match self.preset {
                    ArtifactPreset::Standard => Settings::default(),
                    ArtifactPreset::SmallContext => Settings::small_context(),
                };
                Settings {
                    $($preset_key: self.$preset_key.unwrap_or(preset.$preset_key),)*
                    $($key: self.$key.clone(),)*
                    mcp_intelligent_processing: self.mcp_intelligent_processing.clone(),
                }
            }
        }
    };
}

settings! {
    of_preset {
        /// Answers larger than this are saved, in bytes of JSON; of an answer with several items,
        /// those that are larger by themselves or not shown whole. 32768, unless `preset` has
        /// another default.
        [example = 32_768]
        mcp_tool_response_save_threshold_bytes: u64 = 32 * 1024;
        /// Answers larger than this are saved, and their text is shown up to this size, in bytes of
        /// JSON. 65536, unless `preset` has another default.
        [example = 65_536]
        mcp_tool_llm_return_max_bytes: u64 = 64 * 1024;
        /// Images up to this size stay in the answer, for vision models, in bytes after decoding;
        /// those over the save threshold become artifacts as well. 0 keeps no image. 1048576,
        /// unless `preset` has another default.
        [example = 1_048_576]
        inline_image_max_bytes: u64 = 1024 * 1024;
        /// When the text of an embedded resource is saved: "as-text", when the answer exceeds the
        /// save threshold, or "always", which also saves small texts beside an item that is saved.
        /// "as-text", unless `preset` has another default.
        [with = "Option<String>", example = &"as-text"]
        text_resources: TextResources = TextResources::AsText;
    }
    /// Saves what does not fit. With false, answers are cut to the limits, and the rest is lost.
    [with = "bool"]
    save: bool = true;
    /// Answers with more tokens than this are saved, and their text is shown up to it; tokens are
    /// estimated. It replaces the default of the client's profile, but not the limit of the client.
    [with = "Option<u64>", example = 4_000]
    mcp_tool_llm_return_max_tokens: Option<u64> = None;
    /// Types of images that stay in the answer, of those that the client shows its model; `*` is
    /// any text. Without it, all that the client shows.
    [with = "Option<Vec<String>>", example = ["image/png", "image/jpeg"]]
    inline_image_types: Option<Vec<Glob>> = None;
    /// Arguments of calls whose values are not saved with the artifact, at any depth; `*` is any
    /// text. Arguments with names of secrets, and values that look like secrets, never are.
    [with = "Vec<String>"]
    redact_arguments: Vec<Glob> = Vec::new();
    /// Replaces what looks like a token, a key or a password in the texts and the structured
    /// content of answers, before they are shown or saved.
    [with = "bool"]
    redact_values: bool = false;
    /// Images of one answer that stay in it have at most this size together, in bytes after
    /// decoding; later ones become links.
    [with = "u64"]
    inline_images_total_max_bytes: u64 = 4 * 1024 * 1024;
    /// The report for programs in `_meta` of an answer is shortened to this size, in bytes of JSON.
    [with = "u64"]
    report_max_bytes: u64 = 32 * 1024;
    /// Shown part of an answer over the limit: "truncate" shows its beginning and its end,
    /// "withhold" only the names of its artifacts.
    [with = "String"]
    oversize: Oversize = Oversize::Truncate;
    /// Measure of an answer's size: "compact" is compact JSON in UTF-8; "sam-compatible" counts as
    /// Solace Agent Mesh does, with spaces after separators and `\uXXXX` for every character that
    /// is not ASCII.
    [with = "String"]
    size_measure: SizeMeasure = SizeMeasure::Compact;
    /// MIME type of YAML artifacts: "application/x-yaml" or "application/yaml" (RFC 9512).
    [with = "String"]
    yaml_mime_type: YamlMimeType = YamlMimeType::XYaml;
    /// Keys of an object that the inferred schema of an artifact lists.
    [with = "usize"]
    schema_max_keys: usize = 20;
    /// Levels of nesting that the inferred schema of an artifact shows, 1 to 10.
    [with = "u64"]
    schema_inference_depth: InferenceDepth = InferenceDepth::default();
    /// Handling of links to resources: "keep" leaves them in the answer, "placeholder" saves their
    /// URIs as artifacts as well.
    [with = "String"]
    resource_links: ResourceLinks = ResourceLinks::Keep;
    /// Replaces the two characters `\n` in CSV by line breaks, for servers that escape twice. It
    /// changes the saved bytes.
    [with = "bool"]
    unescape_csv_newlines: bool = false;
}

patch! {
    /// The part of a [`SettingsPatch`] under `mcp_intelligent_processing`.
    ProcessingPatch for Processing {
        enable_intelligent_processing: bool,
        fallback_to_raw_on_error: bool,
        save_raw_alongside_intelligent: bool,
        enable_text_format_detection: bool,
        enable_content_parsing: bool,
        max_content_items: usize,
        max_examined_items: usize,
        max_single_item_size_mb: u64,
    } nested {}
}
