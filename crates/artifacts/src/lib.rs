//! …
mod base64;
mod detect;
mod json;
mod measure;
mod mime;
mod name;
mod redact;
mod settings;
mod structure;

pub use crate::{
    name::{ArtifactName, ArtifactUri, NameError, UriError},
    settings::{
        InferenceDepth, InferenceDepthError, Oversize, Processing, ProcessingPatch, ResourceLinks,
        Settings, SettingsPatch, SizeMeasure, YamlMimeType,
    },
};
