//! The options of a knowledge service.

use std::{fmt, sync::Arc};

use crate::{
    config::{KnowledgeConfig, Variables},
    place::Place,
};

/// Options of a [`KnowledgeService`](crate::KnowledgeService): its settings, and values that only the program knows.
#[derive(Clone)]
#[non_exhaustive]
pub struct KnowledgeOptions {
    /// The settings.
    pub config: KnowledgeConfig,
    /// The place of records and passages; without one, the error for every call that needs it.
    pub place: Result<Place, String>,
    variables: SharedVariables,
}

/// Values of environment variables by name, as [`Variables`] borrows them.
type SharedVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl KnowledgeOptions {
    /// Creates options with a place and without environment variables.
    #[must_use]
    pub fn new(config: KnowledgeConfig, place: Place) -> Self {
        Self { config, place: Ok(place), variables: Arc::new(|_| None) }
    }

    /// Creates options with default settings and a database in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(KnowledgeConfig::default(), Place::Memory)
    }

    /// Sets another place.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.place = Ok(place);
        self
    }

    /// Removes the place, for `reason`. Nothing can be stored then.
    #[must_use]
    pub fn without_place(mut self, reason: impl Into<String>) -> Self {
        self.place = Err(reason.into());
        self
    }

    /// Sets the values of environment variables that settings name. The crate itself never reads the environment.
    #[must_use]
    pub fn with_variables(
        mut self,
        variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.variables = Arc::new(variables);
        self
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
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
