//! Who asks.

use std::collections::BTreeSet;

use marquetry_context_blocks::Am7Uri;

use crate::{RecordError, model::GROUP, model::USER};

/// Who asks for records. `Records::caller` makes one and looks up the groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The organisation; records of others do not exist for the caller.
    pub organization: String,
    /// The URI of the caller's `system.user`, which need not be there.
    pub user: String,
    /// The URIs of the groups that the caller is in.
    pub groups: BTreeSet<String>,
    /// Whether the caller may do everything within the organisation.
    pub is_admin: bool,
}

impl Caller {
    /// A user of an organisation, by object id; in no groups, and no administrator.
    ///
    /// # Errors
    ///
    /// [`RecordError::Uri`] if that makes no URI.
    pub fn new(organization: &str, user_id: &str) -> Result<Self, RecordError> {
        Ok(Self {
            organization: organization.to_owned(),
            user: uri(organization, USER, user_id)?,
            groups: BTreeSet::new(),
            is_admin: false,
        })
    }

    /// The same as an administrator of the organisation.
    #[must_use]
    pub fn admin(self) -> Self {
        Self { is_admin: true, ..self }
    }

    /// Under which names records name this caller: the user, the groups, [`everyone`], and [`administrators`].
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let Self { organization, user, groups, is_admin } = self;
        let mut names = groups.clone();
        // Nobody gets these two by way of a record.
        names.remove(&administrators(organization));
        names.insert(user.clone());
        names.insert(everyone(organization));
        if *is_admin {
            names.insert(administrators(organization));
        }
        names
    }
}

/// The group that everybody of an organisation is in: among the readers of a record it shares it with all of them.
/// No record stands for it.
pub fn everyone(organization: &str) -> String {
    format!("{}/{EVERYONE}", groups(organization))
}

/// The group that the administrators of an organisation are in. No record stands for it.
pub fn administrators(organization: &str) -> String {
    format!("{}/{ADMINISTRATORS}", groups(organization))
}

/// Object ids of groups that nobody makes.
pub(crate) const EVERYONE: &str = "everyone";
pub(crate) const ADMINISTRATORS: &str = "administrators";

fn groups(organization: &str) -> String {
    let uri = uri(organization, GROUP, "x").map(|uri| uri[..uri.len() - 2].to_owned());
    // An organisation that makes no URI has no records either.
    uri.unwrap_or_default()
}

/// The URI of a record.
///
/// # Errors
///
/// [`RecordError::Uri`] if the parts make none.
pub(crate) fn uri(organization: &str, kind: &str, object_id: &str) -> Result<String, RecordError> {
    let builder = Am7Uri::builder().organization(organization).object_type(kind).id(object_id);
    let built =
        builder.build().map_err(|source| RecordError::Uri { uri: short(object_id), source })?;
    Ok(built.to_string())
}

/// The beginning of a text that may be very long.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(200).collect()
}
