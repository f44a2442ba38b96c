//! Access to the database as one caller.

use std::collections::BTreeSet;

use marquetry_context_blocks::Am7Uri;
use marquetry_protocol::server::Principal;
use marquetry_rag::{Caller, RecordError};

use crate::{failure::Failure, knowledge::Knowledge};

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

/// Returns the object id of a principal's user: the name of a configured token if it is a valid id,
/// otherwise a hash of issuer and subject, because two issuers may use the same subject.
pub(crate) fn user_id(principal: &Principal, organization: &str) -> String {
    match &principal.issuer {
        None if can_be_id(&principal.subject, organization) => principal.subject.clone(),
        _ => format!("user-{}", &blake3::hash(principal.id().as_bytes()).to_hex()[..32]),
    }
}

fn can_be_id(id: &str, organization: &str) -> bool {
    let uri = Am7Uri::builder().organization(organization).object_type("system.user").id(id);
    uri.build().is_ok_and(|uri| uri.id() == Some(id))
}

/// Returns the URI of the user of an id.
pub(crate) fn user_uri(id: &str, organization: &str) -> String {
    format!("am7://{organization}/system.user/{id}")
}

/// Returns the URI of a group that tokens name. It has no record. Users cannot choose the ids of
/// groups that they create, so none of them can take its place.
pub(crate) fn group_uri(name: &str, organization: &str) -> String {
    let id = format!("group-{name}");
    let id = if can_be_id(&id, organization) {
        id
    } else {
        format!("group-{}", &blake3::hash(name.as_bytes()).to_hex()[..32])
    };
    format!("am7://{organization}/auth.group/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(issuer: Option<&str>, subject: &str) -> String {
        user_id(&Principal::new(issuer.map(str::to_owned), subject), "default")
    }

    #[test]
    fn two_principals_never_share_an_id() {
        assert_eq!(id(None, "ci"), "ci");
        // A token of this name is the local user.
        assert_eq!(id(None, "local"), Knowledge::LOCAL_USER);
        let login = Some("https://login.example");
        let ids = [
            id(None, "ci"),
            id(None, "../ci"),
            id(None, "c/i"),
            id(login, "ci"),
            id(login, "local"),
            id(Some("https://other.example"), "ci"),
        ];
        for (index, one) in ids.iter().enumerate() {
            assert!(ids.iter().skip(index + 1).all(|other| other != one), "{ids:?}");
            assert!(one != Knowledge::LOCAL_USER);
        }
    }
}
