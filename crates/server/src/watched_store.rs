//! An artifact store whose failures show in health.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use marquetry_artifacts::{
    Artifact, ArtifactName, ArtifactStore, Listing, NewArtifact, Page, Record, Scope, StoreError,
    Usage, Version, Versions,
};

use crate::{gateway::Rate, health::Faults};

/// The name of the part in health.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// Another store, of which a failed save is a fault until the next one succeeds.
pub(crate) struct WatchedStore {
    inner: Arc<dyn ArtifactStore>,
    faults: Arc<Faults>,
    logged: Rate,
}

impl WatchedStore {
    pub(crate) fn new(inner: Arc<dyn ArtifactStore>, faults: Arc<Faults>) -> Self {
        Self { inner, faults, logged: Rate::new(1) }
    }
}

#[async_trait]
impl ArtifactStore for WatchedStore {
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        let kept = self.inner.put(scope, artifact).await;
        match &kept {
            Ok(_) => self.faults.clear(ARTIFACTS),
            // One artifact that is too large says nothing about the others.
            Err(error @ StoreError::TooLarge { .. }) => {
                if let Some(suppressed) = self.logged.admit() {
                    tracing::warn!(%error, suppressed, "artifact was not saved");
                }
            }
            Err(error) => {
                self.faults.raise(ARTIFACTS, format!("the last artifact was not saved: {error}"));
            }
        }
        kept
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        self.inner.record(scope, name, version).await
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        self.inner.get(scope, name, version).await
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        self.inner.read_range(scope, name, version, range).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.inner.list(scope, page).await
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        self.inner.versions(scope, name).await
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        self.inner.delete(scope, name, which).await
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }
}
