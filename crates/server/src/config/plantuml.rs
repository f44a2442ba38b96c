//! `[plantuml]`: diagram URLs, and the engine that draws diagrams on this machine.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    path::{Path, PathBuf},
    time::Duration,
};

use marquetry_plantuml::{
    Server,
    engine::{EngineOptions, Program},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The diagram tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PlantUmlConfig {
    /// PlantUML server that diagram URLs point to. Format and code are appended.
    #[serde(deserialize_with = "server", serialize_with = "base_of")]
    #[schemars(with = "String")]
    pub url_base: Server,
    /// The PlantUML that draws diagrams on this machine, for the tools `renderPlantUML` and `checkPlantUML`: "auto" for `plantuml` on the
    /// `PATH`, "off", or the path of a program or of a jar, which `java` runs. Without a PlantUML, the two tools are not listed.
    pub engine: String,
    /// Time limit of one diagram, in milliseconds. At this limit the engine is ended; the next diagram starts it again.
    pub engine_timeout_ms: NonZeroU64,
    /// The largest drawing, in bytes.
    pub engine_max_output_bytes: NonZeroUsize,
    /// The memory that Java may use for the objects of the engine, in MiB.
    pub engine_max_memory_mib: NonZeroU32,
    /// What "auto" has found.
    #[serde(skip)]
    found: Option<PathBuf>,
}

const AUTO: &str = "auto";

impl Default for PlantUmlConfig {
    fn default() -> Self {
        let EngineOptions { timeout, max_output_bytes, max_memory_mib, .. } =
            EngineOptions::new(Program::Command(PathBuf::new()));
        let timeout_ms = u64::try_from(timeout.as_millis()).ok().and_then(NonZeroU64::new);
        Self {
            url_base: Server::default(),
            engine: AUTO.to_owned(),
            engine_timeout_ms: timeout_ms.expect("the default is not 0"),
            engine_max_output_bytes: NonZeroUsize::new(max_output_bytes)
                .expect("the default is not 0"),
            engine_max_memory_mib: NonZeroU32::new(max_memory_mib).expect("the default is not 0"),
            found: None,
        }
    }
}

impl PlantUmlConfig {
    /// Looks for the engine on this `PATH`, if the configuration names none.
    pub(super) fn find_engine(&mut self, path: Option<std::ffi::OsString>) {
        if self.engine == AUTO {
            let folders = path.unwrap_or_default();
            let mut programs =
                std::env::split_paths(&folders).map(|folder| folder.join("plantuml"));
            self.found = programs.find(|program| program.is_absolute() && program.is_file());
        }
    }

    /// Returns whether the engine that the configuration names is there.
    ///
    /// # Errors
    ///
    /// It is not.
    pub(super) fn check_engine(&self) -> Result<(), String> {
        match &*self.engine {
            "" => Err("expected \"auto\", \"off\" or a path".to_owned()),
            AUTO | "off" => Ok(()),
            path if Path::new(path).is_file() => Ok(()),
            path => Err(format!("{path:?} is not a file")),
        }
    }

    /// Returns the options of the engine; `None` without one.
    pub(crate) fn engine_options(&self) -> Option<EngineOptions> {
        let path = match &*self.engine {
            AUTO => self.found.clone()?,
            "off" => return None,
            path => PathBuf::from(path),
        };
        let is_jar = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("jar"));
        let program = if is_jar { Program::Jar(path) } else { Program::Command(path) };
        let mut options = EngineOptions::new(program);
        options.timeout = Duration::from_millis(self.engine_timeout_ms.get());
        options.max_output_bytes = self.engine_max_output_bytes.get();
        options.max_memory_mib = self.engine_max_memory_mib.get();
        Some(options)
    }
}

fn server<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Server, D::Error> {
    Server::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn base_of<S: Serializer>(server: &Server, serializer: S) -> Result<S::Ok, S::Error> {
    server.base().serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(engine: &str) -> PlantUmlConfig {
        PlantUmlConfig { engine: engine.to_owned(), ..PlantUmlConfig::default() }
    }

    #[test]
    fn the_engine_is_found_named_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("plantuml");
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        let found = |engine: &str| {
            let mut config = config(engine);
            config.find_engine(Some(path.clone()));
            config.engine_options().map(|options| options.program)
        };
        assert_eq!(found("auto"), None);
        std::fs::write(&program, "").unwrap();
        assert_eq!(found("auto"), Some(Program::Command(program)));
        assert_eq!(found("off"), None);
        assert_eq!(found("/a/plantuml.jar"), Some(Program::Jar("/a/plantuml.jar".into())));
        assert_eq!(found("/a/puml"), Some(Program::Command("/a/puml".into())));
        // Only the program searches the machine.
        assert_eq!(config("auto").engine_options(), None);
        assert_eq!(config("auto").check_engine(), Ok(()));
        assert_eq!(config("/nowhere").check_engine(), Err("\"/nowhere\" is not a file".to_owned()));
        assert!(config("").check_engine().is_err());
    }
}
