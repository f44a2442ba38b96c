//! The artifacts that captured answers became: listed and read by tools, and as resources.

mod list;
mod read;
mod resource;

use std::sync::Arc;

use marquetry_artifacts::{ArtifactStore, ArtifactUri, Record, Scope, StoreError};
use marquetry_protocol::server::{Json, RequestContext, Toolbox};

use tokio::sync::Semaphore;

use self::{list::ListArguments, read::ReadArguments};
use crate::config::Limits;

pub(crate) const LIST: &str = "list_artifacts";
pub(crate) const READ: &str = "read_artifact";

/// The artifacts of this server.
#[derive(Clone)]
pub(crate) struct Artifacts {
    store: Arc<dyn ArtifactStore>,
    scope: Scope,
    limits: Limits,
    /// A permit for each KiB that is read whole.
    whole_reads: Arc<Semaphore>,
}

/// Why an artifact tool failed, for the model.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0} is not an artifact's name: {1}; {LIST} gives the names")]
    Name(String, String),
    #[error("{0} is not text; give start_byte and end_byte instead of lines")]
    NotText(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Arguments(String),
}

impl Artifacts {
    pub(crate) fn new(store: Arc<dyn ArtifactStore>, scope: Scope, limits: Limits) -> Self {
        let permits = kib(limits.max_resource_reads_bytes.get() as u64) as usize;
        Self { store, scope, limits, whole_reads: Arc::new(Semaphore::new(permits)) }
    }

    /// Adds the two tools to `toolbox`.
    pub(crate) fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let (lister, reader) = (self.clone(), self.clone());
        let read_description = format!(
            "Reads a saved artifact, whole or in part. Text comes as text: give start_line and line_count, or start_byte and end_byte, for a \
             part of it. Without max_bytes an answer has at most {} bytes (at most {} with it) and says how to go on. Images that fit come as \
             images, other binary data as base64.",
            self.limits.read_artifact_default_bytes, self.limits.read_artifact_max_bytes,
        );
        toolbox
            .tool(LIST, list::DESCRIPTION, move |arguments: ListArguments, _: RequestContext| {
                let lister = lister.clone();
                async move { lister.list(&arguments).await.map(Json) }
            })
            .tool(READ, read_description, move |arguments: ReadArguments, _: RequestContext| {
                let reader = reader.clone();
                async move { reader.read(&arguments).await }
            })
    }
}

/// Bytes in KiB, begun ones counted whole, as permits of a semaphore.
fn kib(bytes: u64) -> u32 {
    const MOST: u32 = u32::MAX >> 3;
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(MOST).clamp(1, MOST)
}

fn uri_of(record: &Record) -> String {
    ArtifactUri { name: record.name.clone(), version: Some(record.version) }.to_string()
}

fn description(record: &Record) -> Option<String> {
    Some(record.metadata.description.clone()).filter(|text| !text.is_empty())
}
