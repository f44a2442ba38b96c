//! The bytes of an artifact in parts, for a person who saves them as a file.

use std::sync::Arc;

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
    read: u64,
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
        Ok(Download { store: self.store.clone(), scope: self.scope.clone(), record, read: 0 })
    }
}

impl Download {
    /// Returns the facts about the artifact.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the next part; `None` after the last one.
    ///
    /// # Errors
    /// Returns an error if the artifact was removed in the meantime, or if the store cannot be
    /// read.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.read >= self.record.size_bytes {
            return Ok(None);
        }
        let version = Version::Number(self.record.version);
        let range = self.read..self.record.size_bytes.min(self.read + PART);
        let part = self.store.read_range(&self.scope, &self.record.name, version, range).await?;
        self.read += part.len() as u64;
        Ok(Some(part).filter(|part| !part.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use marquetry_artifacts::{MemoryStore, NewArtifact};
    use marquetry_protocol::server::Principal;

    use super::*;

    #[tokio::test]
    async fn a_download_has_all_bytes_of_its_version_and_of_the_caller_alone() {
        let store = Arc::new(MemoryStore::default());
        let ada = Arc::new(Principal::new(None, "ada"));
        let tools = ArtifactTools::new(store.clone());
        let of_ada = tools.of_principal(Some(&ada));
        let name = ArtifactName::parse("a.bin").unwrap();
        let content: Vec<u8> = (0..PART as usize * 2 + 7).map(|at| (at % 251) as u8).collect();
        for content in [content.clone(), b"new".to_vec()] {
            let kind = "application/octet-stream";
            let new = NewArtifact::new(name.clone(), kind, SystemTime::UNIX_EPOCH, content.into());
            store.put(&of_ada.scope, new).await.unwrap();
        }
        let mut download = of_ada.download(&name, Version::Number(0)).await.unwrap();
        let mut parts = Vec::new();
        while let Some(part) = download.next().await.unwrap() {
            assert!(part.len() as u64 <= PART);
            parts.extend_from_slice(&part);
        }
        assert!(parts == content && download.record().version == 0);
        let mut newest = of_ada.download(&name, Version::Latest).await.unwrap();
        assert_eq!(newest.next().await.unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(newest.next().await.unwrap(), None);
        let grace = Arc::new(Principal::new(None, "grace"));
        for other in [tools.of_principal(None), tools.of_principal(Some(&grace))] {
            assert!(other.download(&name, Version::Latest).await.is_err());
        }
    }
}
