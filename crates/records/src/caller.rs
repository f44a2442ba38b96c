//! Callers.

use std::collections::BTreeSet;

use marquetry_context_blocks::Am7Uri;

use crate::{RecordError, model::GROUP, model::USER};

/// The user on whose behalf records are read and changed. `Records::caller` looks up a user
/// together with its groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The organisation. For the caller, records of other organisations do not exist.
    pub organization: String,
    /// The URI of the caller's `system.user`. The record need not exist.
    pub user: String,
    /// The URIs of the groups that the caller is a member of.
    pub groups: BTreeSet<String>,
    /// Whether the caller is an administrator, who may do everything in the organisation.
    pub is_admin: bool,
}

impl Caller {
    /// Returns a user of an organisation, by object id: in no groups, and not an administrator.
    ///
    /// # Errors
    ///
    /// Returns an error if the parts do not form a URI.
    pub fn new(organization: &str, user_id: &str) -> Result<Self, RecordError> {
        Ok(Self {
            organization: organization.to_owned(),
            user: uri(organization, USER, user_id)?,
            groups: BTreeSet::new(),
            is_admin: false,
        })
    }

    /// Returns this caller as an administrator of the organisation.
    #[must_use]
    pub fn admin(self) -> Self {
        Self { is_admin: true, ..self }
    }

    /// Returns the URIs by which records name this caller: the user, the groups, [`everyone`], and
    /// [`administrators`].
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let Self { organization, user, groups, is_admin } = self;
        let mut names = groups.clone();
        // No record can grant membership in these two groups.
        names.remove(&administrators(organization));
        names.insert(user.clone());
        names.insert(everyone(organization));
        if *is_admin {
            names.insert(administrators(organization));
        }
        names
    }
}

/// Returns the URI of the group of all users of an organisation. A record with this reader is
/// shared with all of them. The group has no record.
pub fn everyone(organization: &str) -> String {
    format!("{}/{EVERYONE}", groups(organization))
}

/// Returns the URI of the group of all administrators of an organisation. The group has no record.
pub fn administrators(organization: &str) -> String {
    format!("{}/{ADMINISTRATORS}", groups(organization))
}

/// Object id of the group of all users.
pub(crate) const EVERYONE: &str = "everyone";
pub(crate) const ADMINISTRATORS: &str = "administrators";

fn groups(organization: &str) -> String {
    let uri = uri(organization, GROUP, "x").map(|uri| uri[..uri.len() - 2].to_owned());
    // An organisation whose name fits into no URI has no records.
    uri.unwrap_or_default()
}

/// Returns the URI of a record.
///
/// # Errors
///
/// Returns an error if the parts do not form a URI.
pub(crate) fn uri(organization: &str, kind: &str, object_id: &str) -> Result<String, RecordError> {
    let builder = Am7Uri::builder().organization(organization).object_type(kind).id(object_id);
    let built =
        builder.build().map_err(|source| RecordError::Uri { uri: short(object_id), source })?;
    Ok(built.to_string())
}

/// Returns the first 200 characters of a text.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(200).collect()
}
