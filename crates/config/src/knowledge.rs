//! Settings of knowledge: its database, the user's folder for data, and keys from the environment.

use std::{ffi::OsString, path::PathBuf};

use marquetry_knowledge::{
    DatabaseLocation, KnowledgeConfig, KnowledgeOptions, config::InvalidSetting,
};

use crate::{
    Config, ConfigError,
    environment::{user_folder, variable},
};

impl Config {
    /// Returns the settings of `[knowledge]` that cannot work; the first of each embedding model
    /// and of its chat model.
    pub(super) fn knowledge_faults(&self) -> Vec<ConfigError> {
        let KnowledgeConfig { enabled, database, embedding, embeddings, chat, .. } =
            &self.knowledge;
        let mut faults = Vec::new();
        if *enabled {
            let location = self.knowledge_database();
            let checked = location.and_then(|location| location.check());
            if let (Some(_), Err(problem)) = (database, checked) {
                faults.push(self.fault("knowledge.database", problem));
            }
            if let Err(InvalidSetting { key, problem, .. }) = embedding.check(&variable) {
                faults.push(self.fault(&format!("knowledge.embedding.{key}"), problem));
            }
            for (name, model) in embeddings {
                if let Err(InvalidSetting { key, problem, .. }) = model.check(&variable) {
                    faults.push(self.fault(&format!("knowledge.embeddings.{name}.{key}"), problem));
                }
            }
        }
        faults.extend(chat.check(&variable).map_err(|invalid| self.chat_fault(invalid)).err());
        if chat.model.is_none() {
            let problem = "needs a model: set provider and model in [knowledge.chat]";
            faults.extend(self.sampling_faults(problem));
        }
        faults
    }

    /// Returns the error of a setting of `[knowledge.chat]`.
    pub fn chat_fault(&self, InvalidSetting { key, problem, .. }: InvalidSetting) -> ConfigError {
        self.fault(&format!("knowledge.chat.{key}"), problem)
    }

    /// Returns whether knowledge is available: it is switched on, and has a database.
    pub fn has_knowledge(&self) -> bool {
        self.knowledge.enabled && self.knowledge.database.is_some()
    }

    /// Returns the options that knowledge is opened with.
    pub fn knowledge_options(&self) -> KnowledgeOptions {
        let mut config = self.knowledge.clone();
        config.enabled = self.has_knowledge();
        let options = KnowledgeOptions::new(config, DatabaseLocation::Memory);
        let options = match self.knowledge_database() {
            Ok(database) => options.with_database(database),
            Err(reason) => options.without_database(reason),
        };
        options.with_issuer(self.auth.issuer.clone()).with_variables(variable)
    }

    /// Returns the location of the database.
    ///
    /// # Errors
    ///
    /// Returns an error if the setting is not a valid location, or is not set.
    pub fn knowledge_database(&self) -> Result<DatabaseLocation, String> {
        let unset = "it is not set, and neither $XDG_DATA_HOME nor $HOME says where it is to be";
        DatabaseLocation::parse(self.knowledge.database.as_deref().ok_or(unset)?)
    }
}

/// Returns the file of the user's database: below `$XDG_DATA_HOME` or `~/.local/share`.
pub(super) fn user_database(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(user_folder(variable, "XDG_DATA_HOME", ".local/share")?.join("marquetry/knowledge.db"))
}

/// Returns the user's file of what answers kept from models.
pub(super) fn user_savings(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(user_folder(variable, "XDG_DATA_HOME", ".local/share")?.join("marquetry/savings.db"))
}

/// Returns the user's directory of the last known tools of upstreams.
pub(super) fn user_tool_cache(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    Some(user_folder(variable, "XDG_DATA_HOME", ".local/share")?.join("marquetry/tools"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Returns the user's database with these environment variables.
    fn file(variables: &[(&str, &str)]) -> Option<PathBuf> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        user_database(&|name| Some(variables.get(name)?.into()))
    }

    #[test]
    fn only_the_folders_of_the_user_give_a_database_without_a_setting() {
        let mut config = Config::default();
        assert!(config.knowledge_database().is_err());
        assert!(!config.has_knowledge());
        config.knowledge.database = Some("k.db".to_owned());
        assert_eq!(config.knowledge_database(), Ok(DatabaseLocation::File("k.db".into())));
        assert!(config.has_knowledge());
        let home = ("HOME", "/home/a");
        let data = file(&[("XDG_DATA_HOME", "/data"), home]);
        assert_eq!(data, Some("/data/marquetry/knowledge.db".into()));
        for relative in ["", "data"] {
            let share = file(&[("XDG_DATA_HOME", relative), home]);
            assert_eq!(share, Some("/home/a/.local/share/marquetry/knowledge.db".into()));
        }
        assert_eq!(file(&[]), None);
    }
}
