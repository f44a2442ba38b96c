//! Access to the database as one caller.

use std::collections::BTreeSet;

use marquetry_protocol::server::{Principal, RequestMemory};
use marquetry_rag::{Caller, RecordError};

use crate::{
    failure::{ErrorCode, Failure},
    identity::{group_uri, user_id},
    knowledge::Knowledge,
};

/// Access to the database as one caller. Records that the caller may not read are reported as not
/// found.
#[derive(Clone)]
pub struct Access {
    /// The database, with its limits and its model.
    pub knowledge: Knowledge,
    /// The user who reads and writes.
    pub caller: Caller,
    /// The account of the request for which records are read.
    memory: Option<RequestMemory>,
}

impl Access {
    /// Creates access to a database on behalf of a caller.
    #[must_use]
    pub fn new(knowledge: Knowledge, caller: Caller) -> Self {
        Self { knowledge, caller, memory: None }
    }

    /// Counts the contents that are read in `memory`.
    #[must_use]
    pub(crate) fn with_memory(self, memory: &RequestMemory) -> Self {
        Self { memory: Some(memory.clone()), ..self }
    }

    /// Returns the content of a record; `None` if it has none. Its memory is reserved before it is
    /// read.
    ///
    /// # Errors
    /// Returns an error if the caller may not read the record, or if no memory becomes free.
    pub(crate) async fn content(&self, uri: &str) -> Result<Option<Vec<u8>>, Failure> {
        let length = self.content_length(uri).await?.unwrap_or_default();
        self.reserve(length).await?;
        Ok(self.knowledge.records.content(&self.caller, uri).await?)
    }

    /// Returns the length of the content of a record in bytes; `None` if it has none.
    ///
    /// # Errors
    /// Returns an error if the caller may not read the record.
    pub(crate) async fn content_length(&self, uri: &str) -> Result<Option<u64>, Failure> {
        Ok(self.knowledge.records.content_length(&self.caller, uri).await?)
    }

    async fn reserve(&self, length: u64) -> Result<(), Failure> {
        /// Shorter contents are not counted: the number of requests limits them.
        const FREE: u64 = 64 << 10;
        /// A content is in memory as a row, as a text, as a result and as an answer.
        const COPIES: usize = 4;
        let Some(memory) = self.memory.as_ref().filter(|_| length > FREE) else { return Ok(()) };
        let bytes = usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(COPIES);
        memory.reserve(bytes, memory.usual_wait()).await.map_err(|full| {
            let message = format!("there is no memory for the content: {full}; try again later");
            Failure::new(ErrorCode::Busy, message)
        })
    }

    /// Returns access on behalf of the principal of a request; without one, of the local user.
    pub(crate) async fn of(
        knowledge: Knowledge,
        principal: Option<&Principal>,
    ) -> Result<Self, Failure> {
        let caller = match principal {
            None => knowledge.local().await?,
            Some(principal) => {
                let name = &principal.subject;
                let id = user_id(principal, &knowledge.organization);
                let end = name.floor_char_boundary(knowledge.records.limits().max_name_bytes);
                // A subject may be any text; if it is not a valid name, the id is used.
                let groups: BTreeSet<String> = principal
                    .groups
                    .iter()
                    .map(|group| group_uri(group, &knowledge.organization))
                    .collect();
                match knowledge.user(&id, &name[..end], &groups).await {
                    Err(RecordError::Invalid { .. } | RecordError::Limit { .. }) => {
                        knowledge.user(&id, &id, &groups).await?
                    }
                    known => known?,
                }
            }
        };
        let job = knowledge.job.of(&caller.user);
        Ok(Self::new(Knowledge { job, ..knowledge }, caller))
    }
}
