//! The options of a knowledge service.

use std::{fmt, sync::Arc};

use crate::{
    config::{KnowledgeConfig, Variables},
    place::Place,
};

/// What a [`KnowledgeService`](crate::KnowledgeService) is opened with: its settings, and what only the program knows.
#[derive(Clone)]
#[non_exhaustive]
pub struct KnowledgeOptions {
    /// The settings.
    pub config: KnowledgeConfig,
    /// Where records and passages are stored, or why no place is known: the error of each call that needs one.
    pub place: Result<Place, String>,
    variables: SharedVariables,
}

/// Values of environment variables by name, as [`Variables`] borrows them.
type SharedVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl KnowledgeOptions {
    /// A library at a place, without any environment variable.
    #[must_use]
    pub fn new(config: KnowledgeConfig, place: Place) -> Self {
        Self { config, place: Ok(place), variables: Arc::new(|_| None) }
    }

    /// A library of default settings that is gone when the process ends.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(KnowledgeConfig::default(), Place::Memory)
    }

    /// The same at another place.
    #[must_use]
    pub fn with_place(mut self, place: Place) -> Self {
        self.place = Ok(place);
        self
    }

    /// The same without a place, for `reason`. Nothing can be stored.
    #[must_use]
    pub fn without_place(mut self, reason: impl Into<String>) -> Self {
        self.place = Err(reason.into());
        self
    }

    /// The same with values of the environment variables that settings name. The crate itself never reads the environment.
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
    /// Without the variables, which hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnowledgeOptions")
            .field("config", &self.config)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
