#![doc = include_str!("../README.md")]

mod audience;
mod base64;
mod capture;
mod elide;
#[cfg(all(any(test, fuzzing), feature = "detection"))]
#[doc(hidden)]
pub mod fuzz;
pub mod glob;
mod item;
mod json;
mod measure;
pub mod metadata;
pub mod mime;
pub mod name;
mod notice;
mod options;
mod plan;
mod proposal;
mod redact;
pub mod report;
pub mod settings;
mod shape;
pub mod shorten;
pub mod source;
pub mod store;

#[cfg(feature = "directory")]
pub use crate::store::{DirectoryOptions, DirectoryStore};
pub use crate::{
    audience::{Audience, ViewUse},
    capture::{Captured, Capturer, ToolCall},
    metadata::Metadata,
    name::{ArtifactName, ArtifactUri},
    report::{META_KEY, Report},
    settings::Settings,
    store::{
        Artifact, ArtifactStore, MemoryLimits, MemoryStore, NewArtifact, Record, Scope, StoreError,
        Version,
    },
};
