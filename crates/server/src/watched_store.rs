//! An artifact store that reports failed saves to `/healthz`.

use std::sync::Arc;

use async_trait::async_trait;
use marquetry_artifacts::{
    ArtifactStore, NewArtifact, Record, Scope, StoreError, store::DelegatingStore,
};
use marquetry_rate_limit::LogLimit;

use crate::faults::{ARTIFACTS, Faults};

/// Raises a fault when a save fails, and clears it when a save succeeds.
pub(crate) struct WatchedStore {
    inner: Arc<dyn ArtifactStore>,
    faults: Arc<Faults>,
    logged: LogLimit,
}

impl WatchedStore {
    pub(crate) fn new(inner: Arc<dyn ArtifactStore>, faults: Arc<Faults>) -> Self {
        Self { inner, faults, logged: LogLimit::new(1) }
    }
}

#[async_trait]
impl DelegatingStore for WatchedStore {
    fn inner(&self) -> &dyn ArtifactStore {
        &*self.inner
    }

    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        let saved = self.inner.put(scope, artifact).await;
        match &saved {
            Ok(_) => self.faults.clear(ARTIFACTS),
            // The store works: only this artifact is too large.
            Err(error @ StoreError::TooLarge { .. }) => {
                if let Some(suppressed) = self.logged.admit() {
                    tracing::warn!(%error, suppressed, "artifact was not saved");
                }
            }
            Err(error) => {
                self.faults.raise(ARTIFACTS, format!("the last artifact was not saved: {error}"));
            }
        }
        saved
    }
}
