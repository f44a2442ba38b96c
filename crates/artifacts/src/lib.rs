//! …
mod base64;
mod json;
mod measure;
mod mime;
mod name;
mod redact;
mod settings;

pub use crate::{
    name::{ArtifactName, ArtifactUri, NameError, UriError},
    settings::{
        InferenceDepth, InferenceDepthError, Oversize, Processing, ProcessingPatch, ResourceLinks,
        Settings, SettingsPatch, SizeMeasure, YamlMimeType,
    },
};
