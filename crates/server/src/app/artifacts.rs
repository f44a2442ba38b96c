//! The artifact store, its tools, and the capture of answers.

use std::sync::Arc;

use marquetry_artifact_tools::ArtifactTools;
use marquetry_artifacts::{
    ArtifactStore, Capturer,
    source::{FixedClock, SeededIds},
};
use marquetry_config::{
    Config,
    sections::{ArtifactsConfig, StoreKind},
};

use super::StartError;
use crate::{changes::Changes, console::Recorder, limits::read_limits};

/// Opens the store of `[artifacts]`.
pub(super) fn open_store(config: &ArtifactsConfig) -> Result<Arc<dyn ArtifactStore>, StartError> {
    match (config.store, &config.directory) {
        (StoreKind::Directory, None) => Err(StartError::NoDirectory),
        (_, path) => config.open_store().map_err(|error| StartError::Store {
            path: path.clone().unwrap_or_default(),
            problem: error.to_string(),
        }),
    }
}

/// Returns the artifacts of all callers. Changed lists are announced to the clients that see them
/// and to the console.
pub(super) fn artifact_tools(
    config: &Config,
    store: Arc<dyn ArtifactStore>,
    changes: Arc<Changes>,
    recorder: Recorder,
) -> ArtifactTools {
    ArtifactTools::new(store)
        .with_scope(config.artifacts.scope)
        .with_limits(read_limits(&config.limits))
        .on_change(move |whose| {
            recorder.artifacts_changed(&whose);
            changes.artifacts_changed(whose);
        })
}

/// Returns what captures large answers, with the ids and the clock of `[testing]`.
pub(super) fn capturer(store: Arc<dyn ArtifactStore>, config: &Config) -> Capturer {
    let testing = &config.testing;
    let mut capturer = Capturer::new(store);
    if !config.tools.artifacts {
        // Answers do not mention tools that are switched off.
        capturer = capturer.tools("", "").find_tools("", "");
    }
    if let Some(seed) = testing.seed {
        capturer = capturer.ids(Arc::new(SeededIds::new(seed)));
    }
    if let Some(clock) = testing.clock {
        capturer = capturer.clock(Arc::new(FixedClock(clock)));
    }
    capturer
}
