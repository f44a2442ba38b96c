//! The section `[artifacts]`: its settings are declared by the crate that uses them.

pub use marquetry_artifacts::settings::{
    ArtifactOptions as ArtifactsConfig, ArtifactPreset, ArtifactScope, StoreKind,
};
