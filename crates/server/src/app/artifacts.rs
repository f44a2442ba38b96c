//! The artifact store, its tools, and the capture of answers.

use std::sync::Arc;

use marquetry_artifact_bucket::{BucketOptions, BucketSettings, BucketStore, ObjectStore, connect};
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

/// Opens the store of `[artifacts]`. A bucket is tried.
pub(super) async fn open_store(config: &Config) -> Result<Arc<dyn ArtifactStore>, StartError> {
    if let Some(settings) = config.artifact_bucket()? {
        let bucket = connect_bucket(&settings)?;
        let options = bucket_options(&config.artifacts);
        let store = BucketStore::open(bucket, &settings.address, options).await;
        return match store {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(StartError::Bucket { problem: error.to_string() }),
        };
    }
    let config = &config.artifacts;
    match (config.store, &config.directory) {
        (StoreKind::Directory, None) => Err(StartError::NoDirectory),
        (_, path) => config.open_store().map_err(|error| StartError::Store {
            path: path.clone().unwrap_or_default(),
            problem: error.to_string(),
        }),
    }
}

/// Tries the bucket of `[artifacts]`, if the store is one, without changing it.
#[cfg(feature = "cli")]
pub(crate) async fn try_bucket(config: &Config) -> Result<(), StartError> {
    let Some(settings) = config.artifact_bucket()? else { return Ok(()) };
    let options = bucket_options(&config.artifacts);
    let store = BucketStore::new(connect_bucket(&settings)?, &settings.address, options);
    store.check().await.map_err(|error| StartError::Bucket { problem: error.to_string() })
}

fn connect_bucket(settings: &BucketSettings) -> Result<Arc<dyn ObjectStore>, StartError> {
    // Values that are not UTF-8 are no keys of a bucket.
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    connect(settings, variables).map_err(|error| StartError::Bucket { problem: error.to_string() })
}

fn bucket_options(config: &ArtifactsConfig) -> BucketOptions {
    BucketOptions::default().with_max_total_bytes(config.bucket_max_bytes)
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
