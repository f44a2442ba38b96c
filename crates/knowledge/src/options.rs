//! The options of a knowledge service.

use std::{fmt, sync::Arc};

use crate::{
    config::{KnowledgeConfig, Variables},
    error::KnowledgeError,
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
    variables: SharedVariables,
}

/// Values of environment variables by name, as [`Variables`] borrows them.
type SharedVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl KnowledgeOptions {
    /// Creates options with a database and without environment variables.
    #[must_use]
    pub fn new(config: KnowledgeConfig, database: DatabaseLocation) -> Self {
        Self { config, database: Ok(database), variables: Arc::new(|_| None) }
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
    /// Returns [`KnowledgeError::NoLocation`] if there is none.
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
