//! Access to the database as one caller.

use std::collections::BTreeSet;

use marquetry_protocol::server::Principal;
use marquetry_rag::{Caller, RecordError};

use crate::{
    failure::Failure,
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
}

impl Access {
    /// Creates access to a database on behalf of a caller.
    #[must_use]
    pub fn new(knowledge: Knowledge, caller: Caller) -> Self {
        Self { knowledge, caller }
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
        Ok(Self { knowledge: Knowledge { job, ..knowledge }, caller })
    }
}
