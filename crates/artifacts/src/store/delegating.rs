//! Stores that change some calls of another store.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Artifact, ArtifactStore, Listing, NewArtifact, Page, Record, Scope, StoreError, Usage, Version,
    Versions,
};
use crate::name::ArtifactName;

/// A store that forwards calls to another one, for wrappers and test doubles.
///
/// Every implementation is an [`ArtifactStore`]. Override the methods that should do something
/// else. Name the trait by its path, or import it alone: with both traits in scope, calls by method
/// syntax are ambiguous.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use async_trait::async_trait;
/// use marquetry_artifacts::{
///     ArtifactStore, MemoryStore, NewArtifact, Record, Scope, StoreError, store::Page,
/// };
///
/// /// A store that takes no more artifacts.
/// struct ReadOnly(MemoryStore);
///
/// #[async_trait]
/// impl marquetry_artifacts::store::DelegatingStore for ReadOnly {
///     fn inner(&self) -> &dyn ArtifactStore {
///         &self.0
///     }
///
///     async fn put(&self, _: &Scope, _: NewArtifact) -> Result<Record, StoreError> {
///         Err(StoreError::Backend("the store is read-only".to_owned()))
///     }
/// }
///
/// let store = ReadOnly(MemoryStore::default());
/// assert!(store.list(&Scope::local(), &Page::default()).await.unwrap().records.is_empty());
/// # }
/// ```
#[async_trait]
pub trait DelegatingStore: Send + Sync + 'static {
    /// Returns the store to which calls are forwarded.
    fn inner(&self) -> &dyn ArtifactStore;

    /// See [`ArtifactStore::put`].
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        self.inner().put(scope, artifact).await
    }

    /// See [`ArtifactStore::record`].
    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        self.inner().record(scope, name, version).await
    }

    /// See [`ArtifactStore::get`].
    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        self.inner().get(scope, name, version).await
    }

    /// See [`ArtifactStore::read_range`].
    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        self.inner().read_range(scope, name, version, range).await
    }

    /// See [`ArtifactStore::list`].
    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.inner().list(scope, page).await
    }

    /// See [`ArtifactStore::versions`].
    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        self.inner().versions(scope, name).await
    }

    /// See [`ArtifactStore::delete`].
    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        self.inner().delete(scope, name, which).await
    }

    /// See [`ArtifactStore::check`].
    async fn check(&self) -> Result<(), StoreError> {
        self.inner().check().await
    }

    /// See [`ArtifactStore::usage`].
    fn usage(&self) -> Usage {
        self.inner().usage()
    }
}

#[async_trait]
impl<S: DelegatingStore> ArtifactStore for S {
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        DelegatingStore::put(self, scope, artifact).await
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        DelegatingStore::record(self, scope, name, version).await
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        DelegatingStore::get(self, scope, name, version).await
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        DelegatingStore::read_range(self, scope, name, version, range).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        DelegatingStore::list(self, scope, page).await
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        DelegatingStore::versions(self, scope, name).await
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        DelegatingStore::delete(self, scope, name, which).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        DelegatingStore::check(self).await
    }

    fn usage(&self) -> Usage {
        DelegatingStore::usage(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::{ArtifactStore, MemoryLimits, MemoryStore, conformance};

    struct Unchanged(MemoryStore);

    impl super::DelegatingStore for Unchanged {
        fn inner(&self) -> &dyn ArtifactStore {
            &self.0
        }
    }

    #[tokio::test]
    async fn conforms() {
        conformance::check(async || Unchanged(MemoryStore::default())).await;
        conformance::check_limit(async |max_total_bytes| {
            Unchanged(MemoryStore::new(MemoryLimits { max_total_bytes }))
        })
        .await;
    }
}
