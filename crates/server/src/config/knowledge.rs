//! What knowledge takes from the environment: where the database is without a setting, and keys.

use std::{ffi::OsString, path::PathBuf};

use marquetry_knowledge::{KnowledgeConfig, KnowledgeOptions, Place, config::InvalidSetting};

use super::{Config, ConfigError, environment};

impl Config {
    /// Says what cannot work in `[knowledge]`.
    pub(super) fn check_knowledge(&self) -> Result<(), ConfigError> {
        let KnowledgeConfig { enabled, database, embedding, chat, .. } = &self.knowledge;
        if *enabled {
            let place = self.knowledge_place();
            if let (Some(_), Err(problem)) = (database, &place) {
                return Err(self.fault("knowledge.database", problem.clone()));
            }
            #[cfg(not(feature = "postgres"))]
            if let Ok(Place::Postgres(_)) = place {
                let problem = "this program was built without PostgreSQL (feature `postgres`)";
                return Err(self.fault("knowledge.database", problem.to_owned()));
            }
            embedding.check(&environment).map_err(|InvalidSetting { key, problem, .. }| {
                self.fault(&format!("knowledge.embedding.{key}"), problem)
            })?;
        }
        chat.check(&environment).map_err(|invalid| self.chat_fault(invalid))
    }

    /// The error of a setting of `[knowledge.chat]`.
    pub(crate) fn chat_fault(
        &self,
        InvalidSetting { key, problem, .. }: InvalidSetting,
    ) -> ConfigError {
        self.fault(&format!("knowledge.chat.{key}"), problem)
    }

    /// What knowledge is opened with.
    pub(crate) fn knowledge_options(&self) -> KnowledgeOptions {
        let options = KnowledgeOptions::new(self.knowledge.clone(), Place::Memory);
        let options = match self.knowledge_place() {
            Ok(place) => options.with_place(place),
            Err(reason) => options.without_place(reason),
        };
        options.with_variables(environment)
    }

    /// Where records and passages are stored.
    ///
    /// # Errors
    ///
    /// The setting is no place; or it is not set, and the environment names no folder for data.
    pub(crate) fn knowledge_place(&self) -> Result<Place, String> {
        place(&self.knowledge, &|name| std::env::var_os(name))
    }
}

fn place(
    config: &KnowledgeConfig,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Place, String> {
    if let Some(database) = &config.database {
        return Place::parse(database);
    }
    // A relative path in these variables does not count (XDG Base Directory Specification).
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local/share")))
        .ok_or("it is not set, and neither $XDG_DATA_HOME nor $HOME says where it is to be")?;
    Ok(Place::File(data.join("marquetry/knowledge.db")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_setting_the_database_is_below_the_folder_for_data() {
        let place = |database: Option<&str>, variables: &[(&str, &str)]| {
            let mut config = KnowledgeConfig::default();
            config.database = database.map(str::to_owned);
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            place(&config, &variable)
        };
        let file = |path: &str| Ok(Place::File(path.into()));
        assert_eq!(place(Some("k.db"), &[]), file("k.db"));
        assert_eq!(place(Some(""), &[]).unwrap_err(), "the name of the database is empty");
        let home = ("HOME", "/home/a");
        assert_eq!(
            place(None, &[("XDG_DATA_HOME", "/data"), home]),
            file("/data/marquetry/knowledge.db")
        );
        for unset in ["", "data"] {
            assert_eq!(
                place(None, &[("XDG_DATA_HOME", unset), home]),
                file("/home/a/.local/share/marquetry/knowledge.db")
            );
        }
        assert!(place(None, &[]).is_err());
    }
}
