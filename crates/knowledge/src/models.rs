//! The embedding models of a service, by name.

use std::{collections::BTreeMap, sync::Arc};

use marquetry_rag::{Embedder, Pipeline};
use tokio::sync::OnceCell;

use crate::{failure::Failure, knowledge, options::KnowledgeOptions};

/// The embedding models of the settings. Each is opened when it is first needed.
pub(crate) struct Models {
    /// The model of `[knowledge.embedding]`, to which the database belongs.
    first: OnceCell<Arc<dyn Embedder>>,
    /// The models of `[knowledge.embeddings]`.
    named: BTreeMap<String, OnceCell<Arc<dyn Embedder>>>,
}

impl Models {
    pub(crate) fn new(options: &KnowledgeOptions) -> Self {
        let names = options.config.embeddings.keys();
        Self {
            first: OnceCell::new(),
            named: names.map(|name| (name.clone(), OnceCell::new())).collect(),
        }
    }

    /// Returns the model of `[knowledge.embedding]`.
    pub(crate) async fn first(
        &self,
        options: &KnowledgeOptions,
    ) -> Result<Arc<dyn Embedder>, Failure> {
        let config = &options.config.embedding;
        // In the program of tests, the future is too large for the stack of a thread.
        let model = self
            .first
            .get_or_try_init(|| Box::pin(knowledge::embedder(config, "embedding", options)))
            .await?;
        Ok(model.clone())
    }

    /// Returns the model with a name.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings have no such model, or it cannot be opened.
    pub(crate) async fn named(
        &self,
        name: &str,
        options: &KnowledgeOptions,
    ) -> Result<Arc<dyn Embedder>, Failure> {
        let Some((cell, config)) = self.named.get(name).zip(options.config.embeddings.get(name))
        else {
            return Err(self.unknown(name));
        };
        let section = format!("embeddings.{name}");
        let model = cell
            .get_or_try_init(|| Box::pin(knowledge::embedder(config, &section, options)))
            .await?;
        Ok(model.clone())
    }

    /// Checks that a database can be used with the model of this name: the name in
    /// `[knowledge.embeddings]`, or that of the database's own model.
    ///
    /// # Errors
    ///
    /// Returns an error if the database belongs to another model, or the settings have no such
    /// model.
    pub(crate) async fn check(
        &self,
        name: &str,
        database: &Pipeline,
        options: &KnowledgeOptions,
    ) -> Result<(), Failure> {
        let own = database.embedder().model();
        if name == own.identity {
            return Ok(());
        }
        let model = self.named(name, options).await?;
        if model.model() == own {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "model {name:?} has not filled this database: a database belongs to the model that filled it, here {:?}; leave model out, or \
             use another database",
            own.identity
        )))
    }

    fn unknown(&self, name: &str) -> Failure {
        let name = &name[..name.floor_char_boundary(100)];
        let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "there are none".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        Failure::invalid(format!(
            "unknown model {name:?}; of the models in [knowledge.embeddings] {known}; leave model out for that of the database"
        ))
    }
}
