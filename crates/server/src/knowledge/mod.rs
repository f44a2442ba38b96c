//! What the server knows: documents that are found by what they say, and other records.

mod open;

use marquetry_rag::Pipeline;

pub(crate) use self::open::KnowledgeError;
use crate::config::{KnowledgeConfig, KnowledgePlace};

/// The open database with the model that fills it, for the server and the command line alike.
pub(crate) struct Knowledge {
    /// Finds passages, and makes documents findable.
    pub(crate) pipeline: Pipeline,
    /// Of which organisation whoever works here is.
    pub(crate) organization: String,
}

impl Knowledge {
    /// Opens what the configuration says; a file that is not there is made.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or was filled by another model.
    pub(crate) async fn open(config: &KnowledgeConfig) -> Result<Self, KnowledgeError> {
        let pipeline = match config.place().map_err(KnowledgeError::Nowhere)? {
            KnowledgePlace::File(path) => open::file(&path).await?,
            KnowledgePlace::Postgres(_) => return Err(KnowledgeError::NoPostgres),
        };
        Ok(Self { pipeline, organization: config.organization.clone() })
    }
}
