//! The bytes of an artifact in parts, for a person who saves them as a file.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use marquetry_artifacts::{ArtifactName, ArtifactStore, Record, Scope, StoreError, Version};

use super::ArtifactTools;

/// Size of one part: a download of any size holds at most this many bytes in memory.
const PART: u64 = 1 << 20;

/// One version of an artifact, whose bytes are read in parts of up to 1 MiB.
pub struct Download {
    store: Arc<dyn ArtifactStore>,
    scope: Scope,
    record: Record,
    /// Bytes that are still to be read.
    rest: Range<u64>,
}

impl ArtifactTools {
    /// Finds an artifact of the caller.
    ///
    /// # Errors
    /// Returns an error if the caller has no such artifact, if it has expired, or if the store
    /// cannot be read.
    pub async fn download(
        &self,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Download, StoreError> {
        let record = self.store.record(&self.scope, name, version).await?;
        let rest = 0..record.size_bytes;
        Ok(Download { store: self.store.clone(), scope: self.scope.clone(), record, rest })
    }
}

impl Download {
    /// Returns the facts about the artifact.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Reads only these bytes, as far as the artifact has them.
    #[must_use]
    pub fn with_range(self, range: Range<u64>) -> Self {
        let end = range.end.min(self.record.size_bytes);
        Self { rest: range.start.min(end)..end, ..self }
    }

    /// Returns the next part; `None` after the last one.
    ///
    /// # Errors
    /// Returns an error if the artifact was removed in the meantime, or if the store cannot be
    /// read.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let version = Version::Number(self.record.version);
        let range = self.rest.start..self.rest.end.min(self.rest.start + PART);
        let part = self.store.read_range(&self.scope, &self.record.name, version, range).await?;
        self.rest.start += part.len() as u64;
        Ok(Some(part).filter(|part| !part.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use marquetry_artifacts::{MemoryStore, NewArtifact};
    use marquetry_protocol::server::Principal;

    use super::*;

    async fn collected(mut download: Download) -> Vec<u8> {
        let mut parts = Vec::new();
        while let Some(part) = download.next().await.unwrap() {
            assert!(part.len() as u64 <= PART);
            parts.extend_from_slice(&part);
        }
        parts
    }

    #[tokio::test]
    async fn a_download_has_all_bytes_of_its_version_and_of_the_caller_alone() {
        let store = Arc::new(MemoryStore::default());
        let ada = Arc::new(Principal::new(None, "ada"));
        let tools = ArtifactTools::new(store.clone());
        let of_ada = tools.for_principal(Some(&ada));
        let name = ArtifactName::parse("a.bin").unwrap();
        let content: Vec<u8> = (0..PART as usize * 2 + 7).map(|at| (at % 251) as u8).collect();
        for content in [content.clone(), b"new".to_vec()] {
            let kind = "application/octet-stream";
            let new = NewArtifact::new(name.clone(), kind, SystemTime::UNIX_EPOCH, content.into());
            store.put(&of_ada.scope, new).await.unwrap();
        }
        let download = of_ada.download(&name, Version::Number(0)).await.unwrap();
        assert_eq!(download.record().version, 0);
        assert_eq!(collected(download).await, content);
        let part = of_ada.download(&name, Version::Number(0)).await.unwrap().with_range(5..9);
        assert_eq!(collected(part).await, content[5..9]);
        let part = of_ada.download(&name, Version::Number(0)).await.unwrap();
        assert_eq!(collected(part.with_range(PART..u64::MAX)).await, content[PART as usize..]);
        let mut newest = of_ada.download(&name, Version::Latest).await.unwrap();
        assert_eq!(newest.next().await.unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(newest.next().await.unwrap(), None);
        let grace = Arc::new(Principal::new(None, "grace"));
        for other in [tools.for_principal(None), tools.for_principal(Some(&grace))] {
            assert!(other.download(&name, Version::Latest).await.is_err());
        }
    }
}
