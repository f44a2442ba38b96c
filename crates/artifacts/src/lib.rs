//! …
mod base64;
mod detect;
mod json;
mod measure;
mod metadata;
mod mime;
mod name;
mod redact;
mod settings;
mod source;
mod store;
mod structure;

#[cfg(feature = "conformance")]
pub use crate::store::conformance;
#[cfg(feature = "directory")]
pub use crate::store::{DirectoryOptions, DirectoryStore};
pub use crate::{
    detect::TextFormat,
    metadata::{ContentType, Metadata, ResourceMetadata, Schema, Summary},
    name::{ArtifactName, ArtifactUri, NameError, UriError},
    settings::{
        InferenceDepth, InferenceDepthError, Oversize, Processing, ProcessingPatch, ResourceLinks,
        Settings, SettingsPatch, SizeMeasure, YamlMimeType,
    },
    source::{Clock, FixedClock, Ids, RandomIds, SeededIds, SystemClock},
    store::{
        Artifact, ArtifactStore, ContentHash, HashError, Listing, MemoryLimits, MemoryStore,
        NewArtifact, Page, Record, Scope, ScopeError, StoreError, Version, Versions,
    },
    structure::Structure,
};
