//! A store with faults: those that a scenario describes, or a defect that scenarios must notice.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use clap::ValueEnum;
use marquetry_artifacts::{
    Artifact, ArtifactName, ArtifactStore, NewArtifact, Record, Scope, StoreError, Version,
    store::{Listing, Page, Versions},
};
use marquetry_scenarios::given::{StoreCall, StoreFault};

/// A store with faults.
pub(crate) struct FaultyStore {
    inner: Arc<dyn ArtifactStore>,
    faults: Vec<(StoreFault, AtomicU32)>,
    defect: Option<Defect>,
}

/// A defect in the server's store, or in its messages, which a proxy alters. Every scenario that
/// the defect affects must fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Defect {
    /// One bit of every artifact differs.
    ChangedByte,
    /// Artifacts are reported as saved, but do not exist.
    MissingArtifact,
    /// For each artifact there is a second one.
    ExtraArtifact,
    /// Artifacts have another MIME type.
    WrongMimeType,
    /// Capture reports and HTTP answers have another status.
    WrongStatus,
    /// Tool answers have an additional item.
    ExtraContent,
    /// Tool answers lack their last item.
    MissingContent,
    /// The notice in a captured answer has another text.
    WrongNotice,
    /// Text that the model sees has another end.
    WrongText,
    /// The last message of each stream and of each batch's answer is missing.
    LostMessage,
    /// The server, and so its upstreams, receive neither cancellations nor answers of the agent.
    LostClientMessages,
}

impl Defect {
    /// Returns whether the defect is injected into the store. A proxy between the server and its
    /// clients injects the others.
    pub(crate) fn affects_store(self) -> bool {
        match self {
            Self::ChangedByte
            | Self::MissingArtifact
            | Self::ExtraArtifact
            | Self::WrongMimeType => true,
            Self::WrongStatus
            | Self::ExtraContent
            | Self::MissingContent
            | Self::WrongNotice
            | Self::WrongText
            | Self::LostMessage
            | Self::LostClientMessages => false,
        }
    }
}

impl FaultyStore {
    pub(crate) fn new(
        inner: Arc<dyn ArtifactStore>,
        faults: &[StoreFault],
        defect: Option<Defect>,
    ) -> Self {
        let faults = faults.iter().map(|fault| (fault.clone(), AtomicU32::new(0))).collect();
        Self { inner, faults, defect }
    }

    /// Applies the faults of this call.
    async fn apply_faults(&self, call: StoreCall) -> Result<(), StoreError> {
        for (fault, calls) in self.faults.iter().filter(|(fault, _)| fault.call == call) {
            let before = calls.fetch_add(1, Ordering::Relaxed);
            let is_over =
                fault.times.is_some_and(|times| before >= fault.after.saturating_add(times));
            if before < fault.after || is_over {
                continue;
            }
            if let Some(delay) = fault.delay {
                tokio::time::sleep(delay.0).await;
            }
            if let Some(message) = &fault.fail {
                return Err(StoreError::Backend(message.clone()));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl marquetry_artifacts::store::DelegatingStore for FaultyStore {
    fn inner(&self) -> &dyn ArtifactStore {
        &*self.inner
    }

    async fn put(&self, scope: &Scope, mut artifact: NewArtifact) -> Result<Record, StoreError> {
        self.apply_faults(StoreCall::Put).await?;
        match self.defect {
            None
            | Some(
                Defect::WrongStatus
                | Defect::ExtraContent
                | Defect::MissingContent
                | Defect::WrongNotice
                | Defect::WrongText
                | Defect::LostMessage
                | Defect::LostClientMessages,
            ) => {}
            Some(Defect::MissingArtifact) => return Ok(Record::new(&artifact, 0)),
            Some(Defect::WrongMimeType) => artifact.mime_type = "application/x-sabotage".into(),
            Some(Defect::ChangedByte) => {
                let NewArtifact { name, mime_type, created_at, metadata, .. } = artifact.clone();
                let mut content = artifact.content().to_vec();
                if let Some(last) = content.last_mut() {
                    *last ^= 1;
                }
                artifact = NewArtifact::new(name, mime_type, created_at, content.into());
                artifact.metadata = metadata;
            }
            Some(Defect::ExtraArtifact) => {
                let mut extra = artifact.clone();
                extra.name = ArtifactName::parse(&format!("extra_{}", artifact.name))
                    .map_err(|error| StoreError::Backend(error.to_string()))?;
                self.inner.put(scope, extra).await?;
            }
        }
        self.inner.put(scope, artifact).await
    }

    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError> {
        self.apply_faults(StoreCall::Record).await?;
        self.inner.record(scope, name, version).await
    }

    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError> {
        self.apply_faults(StoreCall::Get).await?;
        self.inner.get(scope, name, version).await
    }

    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError> {
        self.apply_faults(StoreCall::ReadRange).await?;
        self.inner.read_range(scope, name, version, range).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.apply_faults(StoreCall::List).await?;
        self.inner.list(scope, page).await
    }

    async fn versions(
        &self,
        scope: &Scope,
        name: &ArtifactName,
    ) -> Result<Vec<Record>, StoreError> {
        self.apply_faults(StoreCall::Versions).await?;
        self.inner.versions(scope, name).await
    }

    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError> {
        self.apply_faults(StoreCall::Delete).await?;
        self.inner.delete(scope, name, which).await
    }
}

#[cfg(test)]
mod tests {
    use marquetry_artifacts::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn a_fault_spares_the_first_calls_and_ends_after_its_times() {
        let faults: Vec<StoreFault> =
            serde_yaml::from_str("[{call: list, fail: no disk, after: 1, times: 2}]").unwrap();
        let store = FaultyStore::new(Arc::new(MemoryStore::default()), &faults, None);
        let mut outcomes = Vec::new();
        for _ in 0..5 {
            let listed = store.list(&Scope::local(), &Page::default()).await;
            outcomes.push(listed.map(|_| ()).map_err(|error| error.to_string()));
        }
        let failed = Err("no disk".to_owned());
        assert_eq!(outcomes, [Ok(()), failed.clone(), failed, Ok(()), Ok(())]);
    }
}
