//! Artifacts as MCP resources.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_artifacts::{Artifact, ArtifactName, ArtifactUri, StoreError, Version, store::Page};
use marquetry_protocol::{
    RpcError,
    server::RequestMemory,
    types::{Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{ArtifactTools, LIST, READ, ToolError, description, permits_for, uri_of};

impl ArtifactTools {
    /// Returns a page of artifacts as resources, and the last name if more pages follow.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn resources(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Resource>, Option<String>), RpcError> {
        let after = match after {
            Some(name) => Some(ArtifactName::parse(name).map_err(|_| {
                RpcError::invalid_params("cursor is not one that this server gave")
            })?),
            None => None,
        };
        let page = Page::new(after, limit);
        let listing =
            self.store.list(&self.scope, &page).await.map_err(|error| {
                RpcError::internal(format!("artifacts cannot be listed: {error}"))
            })?;
        let resources = listing.records.iter().map(|record| Resource {
            uri: uri_of(record),
            name: record.name.as_str().to_owned(),
            description: description(record),
            mime_type: Some(record.mime_type.clone()),
            size: Some(record.size_bytes),
            ..Resource::default()
        });
        Ok((resources.collect(), listing.next.map(|name| name.as_str().to_owned())))
    }

    /// Returns the URI template of artifacts.
    pub fn template() -> ResourceTemplate {
        ResourceTemplate {
            uri_template: "artifact://{name}{?version}".to_owned(),
            name: "artifact".to_owned(),
            title: Some("Saved tool answers".to_owned()),
            description: Some(format!(
                "Saved tool answers that were too large or not text; {LIST} lists the names. Without a version, the newest one."
            )),
            ..ResourceTemplate::default()
        }
    }

    /// Reads a whole artifact; `None` if the URI is not that of an artifact. Its bytes are reserved
    /// in `memory`, the account of the request, before it is read.
    pub async fn resource(
        &self,
        uri: &str,
        memory: Option<&RequestMemory>,
    ) -> Option<Result<WholeArtifact, RpcError>> {
        if !uri.starts_with("artifact:") {
            return None;
        }
        let Ok(ArtifactUri { name, version }) = uri.parse() else {
            return Some(Err(RpcError::resource_not_found(uri)));
        };
        let version = version.map_or(Version::Latest, Version::Number);
        Some(self.whole(uri, &name, version, memory).await.map_err(|error| {
            match error {
                ToolError::Store(StoreError::NotFound { .. }) => RpcError::resource_not_found(uri),
                ToolError::Expired(_) => RpcError {
                    message: error.to_string(),
                    ..RpcError::resource_not_found(uri)
                        .with_data(&json!({"uri": uri, "reason": "expired"}))
                },
                ToolError::Arguments(limit) => RpcError::limit_exceeded(limit),
                error => RpcError::internal(error.to_string()),
            }
        }))
    }

    async fn whole(
        &self,
        uri: &str,
        name: &ArtifactName,
        version: Version,
        memory: Option<&RequestMemory>,
    ) -> Result<WholeArtifact, ToolError> {
        /// An artifact is in memory as bytes, as a text, as a result and as an answer.
        const COPIES: usize = 4;
        /// Shorter ones are not counted: the number of requests limits them.
        const FREE: u64 = 64 << 10;
        let record = self.store.record(&self.scope, name, version).await?;
        let limit = self.limits.max_resource_bytes.get();
        if record.size_bytes > limit as u64 {
            return Err(ToolError::Arguments(format!(
                "{name} has {} bytes, more than limits.max_resource_bytes ({limit}); the tool {READ} reads it in parts",
                record.size_bytes
            )));
        }
        let version = Version::Number(record.version);
        let permit = self.reserve(record.size_bytes).await?;
        if let Some(memory) = memory.filter(|_| record.size_bytes > FREE) {
            let bytes = usize::try_from(record.size_bytes).unwrap_or(usize::MAX);
            let reserved = memory.reserve(bytes.saturating_mul(COPIES), memory.usual_wait()).await;
            reserved.map_err(|full| {
                ToolError::Arguments(format!("there is no memory for {name}: {full}; try again"))
            })?;
        }
        let Artifact { record, content, .. } = self.store.get(&self.scope, name, version).await?;
        let contents = ResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(record.mime_type),
            ..ResourceContents::default()
        };
        let contents = match String::from_utf8(content.into()) {
            Ok(text) => ResourceContents { text: Some(text), ..contents },
            Err(error) => {
                ResourceContents { blob: Some(STANDARD.encode(error.as_bytes())), ..contents }
            }
        };
        Ok(WholeArtifact { contents, _permit: permit })
    }

    /// Reserves memory of the budget of whole reads, at most all of it. Waits for other reads, but
    /// not for the queries of a caller who makes many of them.
    pub(super) async fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit, ToolError> {
        let budget = self.limits.max_resource_reads_bytes.get();
        let permits = permits_for(bytes).min(permits_for(budget as u64));
        let waiting = self.whole_reads.clone().acquire_many_owned(permits);
        match tokio::time::timeout(self.limits.max_wait, waiting).await {
            Ok(permit) => permit.map_err(|_| ToolError::Arguments("server is ending".to_owned())),
            Err(_) => Err(ToolError::Arguments(format!(
                "other reads and queries have used the {budget} bytes of limits.max_resource_reads_bytes for {} ms; try again",
                self.limits.max_wait.as_millis()
            ))),
        }
    }
}

/// A whole artifact. Its bytes count against the budget of whole reads until it is dropped.
#[derive(Debug)]
pub struct WholeArtifact {
    /// The answer to `resources/read`.
    pub contents: ResourceContents,
    _permit: OwnedSemaphorePermit,
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use marquetry_artifacts::{ArtifactStore as _, MemoryLimits, MemoryStore, NewArtifact, Scope};
    use tokio::time::timeout;

    use marquetry_protocol::server::{
        Caller,
        fair::{FairBounds, FairLimiter},
    };

    use super::*;
    use crate::ReadLimits;

    #[tokio::test]
    async fn whole_reads_count_for_the_request() {
        let store = MemoryStore::new(MemoryLimits::default());
        let name = ArtifactName::parse("a").unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH;
        let content = "x".repeat(100 << 10);
        let artifact = NewArtifact::new(name, "text/plain", time, content.into());
        store.put(&Scope::local(), artifact).await.unwrap();
        let artifacts = ArtifactTools::new(Arc::new(store));
        let limiter = FairLimiter::new(FairBounds {
            what: "bytes are in work",
            total_setting: "max_work_bytes",
            per_caller_setting: "max_work_bytes_per_caller",
            total: 600 << 10,
            per_caller: 600 << 10,
            queued: usize::MAX,
            wait: Duration::ZERO,
        });
        let first = RequestMemory::new(&limiter, &Caller::Local);
        artifacts.resource("artifact://a", Some(&first)).await.unwrap().unwrap();
        assert_eq!(first.bytes(), 400 << 10);
        let second = RequestMemory::new(&limiter, &Caller::Local);
        let error = artifacts.resource("artifact://a", Some(&second)).await.unwrap().unwrap_err();
        assert!(error.message.contains("max_work_bytes"), "{error:?}");
        drop(first);
        artifacts.resource("artifact://a", Some(&second)).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn whole_reads_share_a_budget() {
        let store = MemoryStore::new(MemoryLimits::default());
        for (name, bytes) in [("a", 600), ("b", 600), ("huge", 9_000)] {
            let name = ArtifactName::parse(name).unwrap();
            let time = std::time::SystemTime::UNIX_EPOCH;
            let artifact = NewArtifact::new(name, "text/plain", time, "x".repeat(bytes).into());
            store.put(&Scope::local(), artifact).await.unwrap();
        }
        let limits = ReadLimits {
            max_resource_reads_bytes: 1_024.try_into().unwrap(),
            ..ReadLimits::default()
        };
        let artifacts = ArtifactTools::new(Arc::new(store)).with_limits(limits);
        let soon = Duration::from_millis(30);

        let first = read(&artifacts, "artifact://a").await;
        assert_eq!(first.contents.text.as_ref().unwrap().len(), 600);
        assert!(
            timeout(soon, read(&artifacts, "artifact://b")).await.is_err(),
            "the budget is used up"
        );
        drop(first);
        // A read larger than the budget takes all of it.
        let huge = read(&artifacts, "artifact://huge").await;
        assert!(timeout(soon, read(&artifacts, "artifact://a")).await.is_err());
        drop(huge);
        read(&artifacts, "artifact://b").await;
    }

    async fn read(artifacts: &ArtifactTools, uri: &str) -> WholeArtifact {
        artifacts.resource(uri, None).await.unwrap().unwrap()
    }
}
