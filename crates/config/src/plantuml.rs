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
use marquetry_protocol::client::check_program;
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
    /// The PlantUML that draws diagrams on this machine, for the tools `renderPlantUML` and
    /// `checkPlantUML`: "auto" for `plantuml` on the `PATH`, "off", or the path of a program or of
    /// a jar, which `java` runs. Without a PlantUML, the two tools are not listed.
    pub engine: String,
    /// Time limit of one diagram, in milliseconds, without its wait for other diagrams. At this
    /// limit its process is ended; the next diagram starts another one.
    pub engine_timeout_ms: NonZeroU64,
    /// Longest wait of a diagram for others, in milliseconds.
    pub engine_max_wait_ms: NonZeroU64,
    /// Largest number of processes of the engine. The diagrams of one user use at most one fewer,
    /// so that other users need not wait for them. A second process starts when a diagram of a user
    /// with a token takes long, or two diagrams are drawn at once.
    pub engine_processes: NonZeroUsize,
    /// The largest drawing, in bytes.
    pub engine_max_output_bytes: NonZeroUsize,
    /// The memory that Java may use for the objects of one process, in MiB.
    pub engine_max_memory_mib: NonZeroU32,
    /// The program that "auto" found.
    #[serde(skip)]
    found: Option<PathBuf>,
}

const AUTO: &str = "auto";

const CHOICES: &str = "\"auto\", \"off\", or the path of a program or of a jar";

impl Default for PlantUmlConfig {
    fn default() -> Self {
        let EngineOptions {
            timeout, max_wait, processes, max_output_bytes, max_memory_mib, ..
        } = EngineOptions::new(Program::Command(PathBuf::new()));
        Self {
            url_base: Server::default(),
            engine: AUTO.to_owned(),
            engine_timeout_ms: in_ms(timeout),
            engine_max_wait_ms: in_ms(max_wait),
            engine_processes: processes,
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
            self.found = programs.find(|program| program.is_absolute() && is_executable(program));
        }
    }

    /// Checks that the engine that the configuration names is a program or a jar.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing, or is neither a program nor a jar.
    pub(super) fn check_engine(&self) -> Result<(), String> {
        match &*self.engine {
            "" => Err(format!("is empty; expected {CHOICES}")),
            AUTO | "off" => Ok(()),
            path if !Path::new(path).is_file() => {
                Err(format!("{path:?} is not a file; expected {CHOICES}"))
            }
            jar if is_jar(Path::new(jar)) => Ok(()),
            // The system looks for a name alone on the `PATH`.
            name if Path::new(name).components().count() == 1 && !name.contains('/') => {
                Err(format!("{name:?} is a name without a folder; write \"./{name}\""))
            }
            program if !is_executable(Path::new(program)) => {
                Err(format!("{program:?} is neither an executable file nor a jar"))
            }
            _ => Ok(()),
        }
    }

    /// Returns a message if no Java on this `PATH` can run the jar that the configuration names.
    /// Only diagrams fail then.
    pub fn missing_java(&self, path: Option<std::ffi::OsString>) -> Option<String> {
        let jar = Some(&self.engine).filter(|engine| is_jar(Path::new(engine)))?;
        let error = check_program("java", path, None).err()?;
        Some(format!(
            "diagrams cannot be drawn: {jar:?} is a jar, which needs Java: {error}; install Java, or set plantuml.engine = \"off\""
        ))
    }

    /// Returns the options of the engine; `None` without one.
    pub fn engine_options(&self) -> Option<EngineOptions> {
        let path = match &*self.engine {
            AUTO => self.found.clone()?,
            "off" => return None,
            path => PathBuf::from(path),
        };
        let program = if is_jar(&path) { Program::Jar(path) } else { Program::Command(path) };
        let mut options = EngineOptions::new(program);
        options.timeout = Duration::from_millis(self.engine_timeout_ms.get());
        options.max_wait = Duration::from_millis(self.engine_max_wait_ms.get());
        options.processes = self.engine_processes;
        options.max_output_bytes = self.engine_max_output_bytes.get();
        options.max_memory_mib = self.engine_max_memory_mib.get();
        Some(options)
    }
}

fn in_ms(default: Duration) -> NonZeroU64 {
    let ms = u64::try_from(default.as_millis()).ok().and_then(NonZeroU64::new);
    ms.expect("the default is not 0")
}

fn is_jar(path: &Path) -> bool {
    path.extension().is_some_and(|it| it.eq_ignore_ascii_case("jar"))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && path.to_str().is_none_or(|path| check_program(path, None, None).is_ok())
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

    /// Returns the engine that the setting and this `PATH` give.
    fn found(engine: &str, path: &std::ffi::OsStr) -> Option<Program> {
        let mut config = config(engine);
        config.find_engine(Some(path.to_owned()));
        config.engine_options().map(|options| options.program)
    }

    fn problem(engine: &str) -> String {
        config(engine).check_engine().unwrap_err()
    }

    #[test]
    fn the_engine_is_found_named_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("plantuml");
        let path = std::env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        assert_eq!(found("auto", &path), None);
        std::fs::write(&program, "").unwrap();
        set_executable(&program);
        assert_eq!(found("auto", &path), Some(Program::Command(program)));
        assert_eq!(found("off", &path), None);
        assert_eq!(found("/a/plantuml.jar", &path), Some(Program::Jar("/a/plantuml.jar".into())));
        assert_eq!(found("/a/puml", &path), Some(Program::Command("/a/puml".into())));
        // Only the program searches the machine.
        assert_eq!(config("auto").engine_options(), None);
        assert_eq!(config("auto").check_engine(), Ok(()));
        let want = "\"/nowhere\" is not a file; expected \"auto\", \"off\", or the path of a program or of a jar";
        assert_eq!(problem("/nowhere"), want);
        assert_eq!(problem("plantuml"), want.replace("/nowhere", "plantuml"));
        assert_eq!(problem(""), want.replace("\"/nowhere\" is not a file", "is empty"));
        // A test runs in the folder of its crate.
        assert_eq!(
            problem("Cargo.toml"),
            "\"Cargo.toml\" is a name without a folder; write \"./Cargo.toml\""
        );
    }

    #[cfg(unix)]
    #[test]
    fn the_engine_is_executable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plantuml");
        std::fs::write(&file, "").unwrap();
        let config = config(file.to_str().unwrap());
        let want = format!("{file:?} is neither an executable file nor a jar");
        assert_eq!(config.check_engine(), Err(want));
        set_executable(&file);
        assert_eq!(config.check_engine(), Ok(()));
    }

    #[test]
    fn a_jar_needs_java_for_diagrams_alone() {
        let folder = tempfile::tempdir().unwrap();
        let jar = folder.path().join("plantuml.jar");
        std::fs::write(&jar, "").unwrap();
        let config = config(jar.to_str().unwrap());
        assert_eq!(config.check_engine(), Ok(()));
        let path = Some(folder.path().as_os_str().to_owned());
        let want = format!(
            "diagrams cannot be drawn: {jar:?} is a jar, which needs Java: program \"java\" not found in PATH; install Java, or set plantuml.engine = \"off\""
        );
        assert_eq!(config.missing_java(path.clone()), Some(want));
        let java = folder.path().join("java");
        std::fs::write(&java, "").unwrap();
        set_executable(&java);
        assert_eq!(config.missing_java(path), None);
        assert_eq!(PlantUmlConfig::default().missing_java(None), None);
    }

    #[cfg(unix)]
    fn set_executable(file: &Path) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[cfg(not(unix))]
    fn set_executable(_: &Path) {}
}
