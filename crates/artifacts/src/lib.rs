//! Large and binary MCP tool answers become named, versioned artifacts, and the model sees what fits.
//!
//! ```
//! use std::sync::Arc;
//!
//! use marquetry_artifacts::{ArtifactName, ArtifactStore, Capturer, MemoryStore, Scope, Settings, ToolCall, Version};
//! use serde_json::value::RawValue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(MemoryStore::default());
//! let capturer = Capturer::new(store.clone());
//! let scope = Scope::local();
//!
//! // What a tool answered: a picture, in base64.
//! let answer = r#"{"content":[{"type":"image","mimeType":"image/gif","data":"R0lGODlhAQABAAAAACw="}]}"#;
//! let answer = RawValue::from_string(answer.to_owned())?;
//! let call = ToolCall::new(&scope, "draw");
//!
//! let captured = capturer.capture(call, &Settings::default(), answer).await;
//!
//! // The model still sees the picture, and gets a link and a notice; the bytes are in the store.
//! let saved = captured.report().unwrap().save.artifacts[0].clone();
//! assert!(captured.into_result().get().contains(&saved.uri));
//! let artifact = store.get(&scope, &saved.name, Version::Latest).await?;
//! assert!(artifact.content.starts_with(b"GIF89a"));
//! assert_eq!(artifact.record.mime_type, "image/gif");
//! # Ok(())
//! # }
//! ```
//!
//! An answer that is small and all text passes through byte for byte. Of any other, each item becomes an artifact of
//! its own: text under the format that it turns out to have, pictures, sounds and resources decoded. The new answer
//! holds the text as far as it fits, pictures up to a limit, links in place of what else is binary, a notice for the
//! model, and in `_meta` under [`META_KEY`] a [`Report`] for programs. [`Settings`] has the thresholds and switches.
//!
//! # Limits
//!
//! - An answer of more than [`mcp_tool_llm_return_max_bytes`](Settings::mcp_tool_llm_return_max_bytes) shows at most
//!   that much of its text. The notice comes on top: at most 4 KiB, 10 artifacts and 10 unsaved items by name.
//!   So do at most 2 KiB of other members of the answer and of its `_meta`: of those, what does not fit is left out,
//!   told, and saved with the whole answer.
//! - Of an answer, the first [`max_content_items`](Processing::max_content_items) are saved one by one, each up to
//!   [`max_single_item_size_mb`](Processing::max_single_item_size_mb), and the rest together. The report lists 1000
//!   items and counts the rest.
//! - `structuredContent` that does not fit is shortened so that it still satisfies the tool's output schema, where
//!   [`is_shortenable`] says that this can be done; otherwise a note that names its artifact stands in its place.
//! - JSON is read whole to know it as such. CSV and NDJSON are judged by the first 256 KiB, Markdown and YAML by the
//!   first 32 KiB. JSON and CSV up to 16 MiB and YAML up to 256 KiB are looked into for their outline, of which at most
//!   1000 keys and 256 columns are kept.
//! - What is kept of a call's arguments is 2 KiB or so, with the values of telling keys (`password`, `token`, …)
//!   replaced. Secrets under other names, or within prose, are not recognised.
//! - A whole answer is in memory, and its artifacts as well while it is captured: about three times its size at most.
//!   [`Capturer::capture`] must run in a tokio runtime; heavy work runs on its threads for blocking work.
//! - An upstream that puts a report under our key into a small answer is not found out: an answer that is passed
//!   through says what its upstream says.
//!
//! # Features
//!
//! `directory` (default): `DirectoryStore`. `conformance`: the tests that every [`ArtifactStore`] must pass.

mod base64;
mod capture;
mod detect;
mod item;
mod json;
mod measure;
mod metadata;
mod mime;
mod name;
mod notice;
mod plan;
mod redact;
mod report;
mod settings;
mod shape;
mod shorten;
mod source;
mod store;
mod structure;
pub mod view;

#[cfg(feature = "conformance")]
pub use crate::store::conformance;
#[cfg(feature = "directory")]
pub use crate::store::{DirectoryOptions, DirectoryStore};
pub use crate::{
    capture::{Captured, Capturer, META_KEY, ToolCall},
    detect::TextFormat,
    metadata::{ContentType, Metadata, ResourceMetadata, Schema, Summary},
    mime::is_text,
    name::{ArtifactName, ArtifactUri, NameError, UriError},
    report::{
        ItemReport, LeftOut, Outcome, Report, Save, SaveStatus, SavedArtifact, Status,
        StructuredReport, StructuredShown, Truncated,
    },
    settings::{
        InferenceDepth, InferenceDepthError, Oversize, Processing, ProcessingPatch, ResourceLinks,
        Settings, SettingsPatch, SizeMeasure, TextResources, YamlMimeType,
    },
    shorten::is_shortenable,
    source::{Clock, FixedClock, Ids, RandomIds, SeededIds, SystemClock},
    store::{
        Artifact, ArtifactStore, ContentHash, DelegatingStore, HashError, Listing, MemoryLimits,
        MemoryStore, NewArtifact, Page, Record, Scope, ScopeError, StoreError, Usage, Version,
        Versions,
    },
    structure::Structure,
};
