//! The options of a knowledge service.

use std::{collections::BTreeSet, fmt, sync::Arc};

use marquetry_protocol::server::Principal;
use marquetry_rag::everyone;

use crate::{
    config::{KnowledgeConfig, Variables},
    error::KnowledgeError,
    identity::{group_uri, user_id, user_uri},
    location::DatabaseLocation,
};

/// Options of a [`KnowledgeService`](crate::KnowledgeService): its settings, and values that only
/// the program knows.
#[derive(Clone)]
#[non_exhaustive]
pub struct KnowledgeOptions {
    /// The settings.
    pub config: KnowledgeConfig,
    /// The database of records and passages; without one, the error for every call that needs it.
    pub database: Result<DatabaseLocation, String>,
    /// Issuer of the tokens of users.
    issuer: Option<String>,
    variables: SharedVariables,
}

/// Values of environment variables by name, as [`Variables`] borrows them.
type SharedVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl KnowledgeOptions {
    /// Creates options with a database and without environment variables.
    #[must_use]
    pub fn new(config: KnowledgeConfig, database: DatabaseLocation) -> Self {
        Self { config, database: Ok(database), issuer: None, variables: Arc::new(|_| None) }
    }

    /// Creates options with default settings and a database in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(KnowledgeConfig::default(), DatabaseLocation::Memory)
    }

    /// Sets another database.
    #[must_use]
    pub fn with_database(mut self, database: DatabaseLocation) -> Self {
        self.database = Ok(database);
        self
    }

    /// Removes the database, for `reason`. Nothing can be stored then.
    #[must_use]
    pub fn without_database(mut self, reason: impl Into<String>) -> Self {
        self.database = Err(reason.into());
        self
    }

    /// Sets the issuer of the tokens of users, by which [`Self::readers_named`] finds users.
    #[must_use]
    pub fn with_issuer(mut self, issuer: Option<String>) -> Self {
        self.issuer = issuer;
        self
    }

    /// Returns the URIs of the users and groups of a name, for the readers of a record: `everyone`,
    /// a URI, or the name of a token, of the subject of an issuer's token, or of a group in tokens.
    /// `user:NAME` and `group:NAME` name only the one or the other.
    #[must_use]
    pub fn readers_named(&self, name: &str) -> BTreeSet<String> {
        let organization = &self.config.organization;
        if name == "everyone" {
            return [everyone(organization)].into();
        }
        if name.starts_with("am7://") {
            return [name.to_owned()].into();
        }
        match name.split_once(':') {
            Some(("user", user)) => self.users_named(user),
            Some(("group", group)) => [group_uri(group, organization)].into(),
            _ => {
                let mut readers = self.users_named(name);
                readers.insert(group_uri(name, organization));
                readers
            }
        }
    }

    fn users_named(&self, name: &str) -> BTreeSet<String> {
        let organization = &self.config.organization;
        let of_issuer = self.issuer.clone().map(|issuer| Principal::new(Some(issuer), name));
        [Some(Principal::new(None, name)), of_issuer]
            .iter()
            .flatten()
            .map(|principal| user_uri(&user_id(principal, organization), organization))
            .collect()
    }

    /// Sets the values of environment variables that settings name. The crate itself never reads
    /// the environment.
    #[must_use]
    pub fn with_variables(
        mut self,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.variables = Arc::new(variables);
        self
    }

    /// Returns the location of the database.
    ///
    /// # Errors
    ///
    /// Returns [`KnowledgeError::NoLocation`] if the options name no database.
    pub fn location(&self) -> Result<&DatabaseLocation, KnowledgeError> {
        self.database.as_ref().map_err(|reason| KnowledgeError::NoLocation(reason.clone()))
    }

    pub(crate) fn variables(&self) -> Variables<'_> {
        &*self.variables
    }
}

impl fmt::Debug for KnowledgeOptions {
    /// Omits the variables, because they may be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnowledgeOptions")
            .field("config", &self.config)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_users_and_groups() {
        let issuer = "https://login.example".to_owned();
        let options = KnowledgeOptions::in_memory().with_issuer(Some(issuer.clone()));
        let of_issuer = user_id(&Principal::new(Some(issuer), "ann"), "default");
        let of_issuer = format!("am7://default/system.user/{of_issuer}");
        let user = "am7://default/system.user/ann";
        let group = "am7://default/auth.group/group-ann";
        for (name, want) in [
            ("everyone", &["am7://default/auth.group/everyone"][..]),
            ("am7://default/auth.group/x", &["am7://default/auth.group/x"]),
            ("group:ann", &[group]),
            ("user:ann", &[user, &of_issuer]),
            ("ann", &[group, user, &of_issuer]),
        ] {
            let want: BTreeSet<String> = want.iter().map(|uri| (*uri).to_owned()).collect();
            assert_eq!(options.readers_named(name), want, "{name}");
        }
    }
}
