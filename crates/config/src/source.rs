//! Finds the configuration file, and checks who can write it.
//!
//! A configuration starts programs, and says where texts and keys are sent. Therefore a file in the
//! current directory is read only if it is named: otherwise a cloned repository could configure the
//! program of anyone who enters its folder.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Config, ConfigError, ServerSwitches, environment::user_folder};

/// The environment variable that names a configuration file.
pub(crate) const VARIABLE: &str = "MARQUETRY_CONFIG";

/// The name of the file in the directories that are searched.
const FILE: &str = "marquetry.toml";

/// The directory of the machine's own configuration.
const SYSTEM: &str = "/etc/marquetry";

/// Maximum size of a configuration file. The example with every setting has 30 KiB.
const MAX_BYTES: u64 = 8 << 20;

/// Longest wait for the writer of a named pipe, which a shell may start after this program.
const WRITER_WAIT: Duration = Duration::from_secs(2);

/// The configuration of a run, before the command line changes it.
#[derive(Debug)]
pub struct Loaded {
    /// All settings.
    pub config: Config,
    /// The file that it was read from; [`None`] if all settings are the defaults.
    pub file: Option<PathBuf>,
    /// Warnings about the choice of the file, one sentence each. Those about its text, such as a
    /// server that cannot be started, are in [`Config::take_warnings`].
    pub warnings: Vec<String>,
}

/// Reads the file `named`, or else the first that exists of `$MARQUETRY_CONFIG`, the user's file
/// and the machine's file.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is writable by others, or is invalid.
pub fn load(named: Option<&Path>) -> Result<Loaded, ConfigError> {
    load_with(named, &ServerSwitches::default())
}

/// Reads a file as [`load`] does, with some servers switched on or off.
///
/// # Errors
///
/// Returns an error as [`load`] does.
pub fn load_with(named: Option<&Path>, switches: &ServerSwitches) -> Result<Loaded, ConfigError> {
    let variable = &|name: &str| std::env::var_os(name);
    Search { variable, system: SYSTEM.as_ref(), here: FILE, switches }.load(named)
}

/// Returns the path of the user's own `mcp.json`, which `marquetry import` writes; [`None`] if
/// `$MARQUETRY_CONFIG` names the whole configuration, or the user has no folder.
#[must_use]
pub fn user_servers() -> Option<PathBuf> {
    user_servers_of(&|name| std::env::var_os(name))
}

fn user_servers_of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if variable(VARIABLE).is_some_and(|file| !file.is_empty()) {
        return None;
    }
    Some(user_folder(variable, "XDG_CONFIG_HOME", ".config")?.join("marquetry/mcp.json"))
}

/// The locations that are searched for a configuration file.
struct Search<'a> {
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The machine's directory.
    system: &'a Path,
    /// The file in the current directory, which is not read by default.
    here: &'a str,
    switches: &'a ServerSwitches,
}

impl Search<'_> {
    fn load(&self, named: Option<&Path>) -> Result<Loaded, ConfigError> {
        if let Some(file) = named {
            let config = Config::from_toml_file_with(file, self.switches)?;
            return Ok(Loaded { config, file: Some(file.to_owned()), warnings: Vec::new() });
        }
        if let Some(file) = (self.variable)(VARIABLE).filter(|file| !file.is_empty()) {
            let file = PathBuf::from(file);
            let config =
                Config::from_toml_file_with(&file, self.switches).map_err(|mut error| {
                    error.problem.push_str(" (this file is named by $MARQUETRY_CONFIG)");
                    error
                })?;
            return Ok(Loaded { config, file: Some(file), warnings: Vec::new() });
        }
        let file = self.candidates().into_iter().find(|file| exists(file));
        let config = match &file {
            Some(file) => Config::from_toml_file_with(file, self.switches)?,
            None => Config { switches: self.switches.clone(), ..Config::default() },
        };
        Ok(Loaded { config, warnings: self.ignored(file.as_deref()).into_iter().collect(), file })
    }

    /// Returns the paths of the user's file and the machine's file.
    fn candidates(&self) -> Vec<PathBuf> {
        user_folder(self.variable, "XDG_CONFIG_HOME", ".config")
            .map(|folder| folder.join("marquetry"))
            .into_iter()
            .chain([self.system.to_owned()])
            .map(|folder| folder.join(FILE))
            .collect()
    }

    /// Returns a warning if the current directory has a file that is not read.
    fn ignored(&self, read: Option<&Path>) -> Option<String> {
        let here = Path::new(self.here).canonicalize().ok()?;
        if read.and_then(|read| read.canonicalize().ok()).is_some_and(|read| read == here) {
            return None;
        }
        Some(format!(
            "./{FILE} is not read: a file in the current directory may belong to another person; to use it, add --config {FILE} or set {VARIABLE}"
        ))
    }
}

/// Returns whether the file exists. One that cannot be inspected counts as existing, so that its
/// error is reported.
fn exists(file: &Path) -> bool {
    let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    !file.symlink_metadata().is_err_and(|error| missing.contains(&error.kind()))
}

/// Which owners and writers of a file are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    /// Only this user and root: for settings.
    Owner,
    /// For an `mcp.json`, which other programs write and the user names: refuses a file that
    /// everybody may write, and warns about other writers.
    Trusted,
}

/// Reads a text file. Returns its text, its name, and warnings about its permissions.
pub(super) fn read(
    path: &Path,
    writers: Writers,
) -> Result<(String, String, Vec<String>), ConfigError> {
    let file = path.display().to_string();
    let opened = open(path).map_err(|error| unreadable(&file, &error))?;
    // Metadata of the open file, which cannot be replaced between the check and the read.
    let metadata = opened.metadata().map_err(|error| unreadable(&file, &error))?;
    if metadata.is_dir() {
        return Err(unreadable(&file, &io::ErrorKind::IsADirectory.into()));
    }
    let warning = check_writers(path, &metadata, writers)
        .map_err(|problem| ConfigError::of_file(&file, problem))?;
    let mut bytes = Vec::new();
    if is_pipe(&metadata) {
        let first = first_bytes(&opened).map_err(|error| unreadable(&file, &error))?;
        bytes = first.ok_or_else(|| {
            let seconds = WRITER_WAIT.as_secs();
            let problem = format!(
                "is a pipe into which nothing was written within {seconds} s; expected a file, or a pipe with a writer"
            );
            ConfigError::of_file(&file, problem)
        })?;
    }
    set_blocking(&opened)
        .and_then(|()| opened.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(&file, &error))?;
    if bytes.len() as u64 > MAX_BYTES {
        let problem = format!("is larger than {MAX_BYTES} bytes, the limit for a configuration");
        return Err(ConfigError::of_file(&file, problem));
    }
    if bytes.is_empty() && is_pipe(&metadata) {
        let problem = "is a pipe that its writer closed without writing; expected the text of a configuration";
        return Err(ConfigError::of_file(&file, problem));
    }
    let text = decode(bytes).map_err(|problem| ConfigError::of_file(&file, problem))?;
    let warnings = warning.map(|warning| format!("{file}: {warning}"));
    Ok((text, file, warnings.into_iter().collect()))
}

fn unreadable(file: &str, error: &io::Error) -> ConfigError {
    ConfigError::of_file(file, format!("cannot be read: {error}"))
}

/// Decodes the text of a configuration.
fn decode(bytes: Vec<u8>) -> Result<String, &'static str> {
    // ASCII in UTF-16 has a zero in each character, and may be UTF-8, too. A configuration has
    // none.
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) || bytes.contains(&0) {
        return Err("is not UTF-8 text, but perhaps UTF-16; save it as UTF-8");
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 text; save it as UTF-8")
}

/// Opens a file. A named pipe without a writer is opened at once; [`first_bytes`] waits for the
/// writer.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    let at_once = i32::try_from(OFlags::NONBLOCK.bits()).map_err(io::Error::other)?;
    File::options().read(true).custom_flags(at_once).open(path)
}

/// Returns the first bytes of a pipe from [`open`]; none if its writer has written nothing yet.
/// Waits for a writer, and returns [`None`] if none wrote or has the pipe open after
/// [`WRITER_WAIT`].
#[cfg(unix)]
fn first_bytes(mut pipe: &File) -> io::Result<Option<Vec<u8>>> {
    const PAUSE: Duration = Duration::from_millis(20);
    let began = std::time::Instant::now();
    let mut buffer = [0; 4_096];
    loop {
        match pipe.read(&mut buffer) {
            // It has no writer.
            Ok(0) if began.elapsed() < WRITER_WAIT => std::thread::sleep(PAUSE),
            Ok(0) => return Ok(None),
            Ok(length) => return Ok(Some(buffer[..length].to_vec())),
            // It has a writer, which has written nothing yet.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Vec::new())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(not(unix))]
fn first_bytes(_pipe: &File) -> io::Result<Option<Vec<u8>>> {
    Ok(Some(Vec::new()))
}

/// Makes reads of a file from [`open`] wait for bytes.
#[cfg(unix)]
fn set_blocking(file: &File) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    Ok(fcntl_setfl(file, fcntl_getfl(file)? - OFlags::NONBLOCK)?)
}

#[cfg(not(unix))]
fn set_blocking(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn is_pipe(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_metadata: &std::fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn check_writers(
    path: &Path,
    metadata: &std::fs::Metadata,
    writers: Writers,
) -> Result<Option<String>, String> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    const GROUP_OR_WORLD: u32 = 0o022;
    const WORLD: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    // A device such as /dev/null has no content that anyone could have written.
    if metadata.file_type().is_char_device() {
        return Ok(None);
    }
    let shown = path.display();
    let us = rustix::process::geteuid().as_raw();
    let mode = metadata.mode();
    let danger = "and so decide which programs are started and where keys are sent";
    let mut problem = None;
    if metadata.uid() != us && metadata.uid() != 0 {
        problem = Some(format!(
            "belongs to user {}, who may change it {danger}; run `chown {us} {shown}`, or use a copy",
            metadata.uid()
        ));
    } else if mode & GROUP_OR_WORLD != 0 {
        problem = Some(format!(
            "others may write it (mode {:04o}) {danger}; run `chmod go-w {shown}`",
            mode & 0o7777
        ));
    }
    if let Some(problem) = problem {
        return match writers {
            Writers::Trusted if mode & WORLD == 0 => Ok(Some(problem)),
            _ => Err(problem),
        };
    }
    // Users who may write the directory may replace the file.
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let is_open = folder.metadata().is_ok_and(|it| it.mode() & (WORLD | STICKY) == WORLD);
    if metadata.is_file() && is_open {
        let folder = folder.display();
        return Err(format!(
            "everybody may write its directory {folder}, replace the file {danger}; run `chmod o-w {folder}`"
        ));
    }
    Ok(None)
}

#[cfg(not(unix))]
fn check_writers(
    _path: &Path,
    _metadata: &std::fs::Metadata,
    _writers: Writers,
) -> Result<Option<String>, String> {
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A home, a machine's directory and a current directory, each with a file that can be told
    /// from the others.
    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// Writes a configuration with a mark in `log.level`.
        fn write(&self, name: &str, mark: &str) {
            std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            std::fs::write(self.path(name), format!("log.level = 'marquetry={mark}'\n")).unwrap();
            #[cfg(unix)]
            set_mode(&self.path(name), 0o644);
        }

        fn load(
            &self,
            named: Option<&str>,
            variables: &[(&str, &str)],
        ) -> Result<Loaded, ConfigError> {
            let variables: HashMap<_, _> = variables.iter().copied().collect();
            let here = self.path("here/marquetry.toml").display().to_string();
            Search {
                variable: &|name| Some(variables.get(name)?.replace('@', self.root()).into()),
                system: &self.path("etc/marquetry"),
                here: &here,
                switches: &ServerSwitches::default(),
            }
            .load(named.map(|name| self.path(name)).as_deref())
        }

        /// Returns the mark of the file that was read.
        fn mark(&self, named: Option<&str>, variables: &[(&str, &str)]) -> String {
            self.load(named, variables).unwrap().config.log.level
        }

        fn root(&self) -> &str {
            self.folder.path().to_str().unwrap()
        }
    }

    #[cfg(unix)]
    fn set_mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    const HOME: (&str, &str) = ("HOME", "@/home");

    #[test]
    fn the_current_directory_is_not_read_and_the_order_holds() {
        let world = World::new();
        world.write("here/marquetry.toml", "error");
        let nothing = world.load(None, &[HOME]).unwrap();
        assert_eq!((nothing.config, nothing.file), (Config::default(), None));
        assert_eq!(nothing.warnings.len(), 1);
        assert!(nothing.warnings[0].contains("--config marquetry.toml"), "{:?}", nothing.warnings);

        world.write("etc/marquetry/marquetry.toml", "warn");
        assert_eq!(world.mark(None, &[]), "marquetry=warn");
        world.write("home/.config/marquetry/marquetry.toml", "info");
        assert_eq!(world.mark(None, &[HOME]), "marquetry=info");
        world.write("xdg/marquetry/marquetry.toml", "debug");
        let xdg = ("XDG_CONFIG_HOME", "@/xdg");
        assert_eq!(world.mark(None, &[HOME, xdg]), "marquetry=debug");
        // A relative path would be another way to a file of the current directory.
        for relative in ["", "xdg", "."] {
            assert_eq!(world.mark(None, &[HOME, ("XDG_CONFIG_HOME", relative)]), "marquetry=info");
        }
        world.write("named.toml", "trace");
        let named = ("MARQUETRY_CONFIG", "@/named.toml");
        assert_eq!(world.mark(None, &[HOME, xdg, named]), "marquetry=trace");
        assert_eq!(world.mark(None, &[HOME, xdg, ("MARQUETRY_CONFIG", "")]), "marquetry=debug");
        let here = world.load(Some("here/marquetry.toml"), &[HOME, xdg, named]).unwrap();
        assert_eq!(here.config.log.level, "marquetry=error");
        assert_eq!(here.warnings, Vec::<String>::new());
    }

    #[test]
    fn the_servers_of_the_user_are_beside_the_settings() {
        let home = ("HOME", "/h");
        for (variables, want) in [
            (&[home, (VARIABLE, "")][..], Some("/h/.config/marquetry/mcp.json")),
            (&[home, ("XDG_CONFIG_HOME", "/x")], Some("/x/marquetry/mcp.json")),
            (&[home, (VARIABLE, "/m.toml")], None),
            (&[], None),
        ] {
            let found = user_servers_of(&|name| {
                variables.iter().find(|(it, _)| *it == name).map(|(_, value)| value.into())
            });
            assert_eq!(found, want.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn a_file_that_is_named_must_be_there() {
        let world = World::new();
        let error = world.load(None, &[("MARQUETRY_CONFIG", "@/none.toml")]).unwrap_err();
        assert!(error.problem.starts_with("cannot be read: No such file"), "{error}");
        assert!(error.problem.ends_with("(this file is named by $MARQUETRY_CONFIG)"), "{error}");
        assert!(world.load(Some("none.toml"), &[]).is_err());
        // The writers of a folder do not matter, since it cannot be read in any case.
        let error = world.load(Some("."), &[]).unwrap_err();
        assert_eq!(error.problem, "cannot be read: is a directory");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_write_is_refused() {
        let world = World::new();
        world.write("a/m.toml", "info");
        for mode in [0o600, 0o644, 0o444, 0o755] {
            set_mode(&world.path("a/m.toml"), mode);
            assert_eq!(world.mark(Some("a/m.toml"), &[]), "marquetry=info", "{mode:o}");
        }
        for mode in [0o666, 0o664, 0o646, 0o622] {
            set_mode(&world.path("a/m.toml"), mode);
            let error = world.load(Some("a/m.toml"), &[]).unwrap_err().to_string();
            let advice = format!("`chmod go-w {}`", world.path("a/m.toml").display());
            assert!(error.contains(&format!("(mode {mode:04o})")), "{error}");
            assert!(error.ends_with(&advice), "{error}");
        }
        // The same for a file that was not named.
        world.write("etc/marquetry/marquetry.toml", "info");
        set_mode(&world.path("etc/marquetry/marquetry.toml"), 0o666);
        assert!(world.load(None, &[]).is_err());

        set_mode(&world.path("a/m.toml"), 0o600);
        set_mode(&world.path("a"), 0o777);
        let error = world.load(Some("a/m.toml"), &[]).unwrap_err().to_string();
        assert!(error.contains("everybody may write its directory"), "{error}");
        set_mode(&world.path("a"), 0o1777);
        assert_eq!(world.mark(Some("a/m.toml"), &[]), "marquetry=info");
    }

    #[cfg(unix)]
    #[test]
    fn an_mcp_json_that_a_group_may_write_is_worth_a_warning() {
        let world = World::new();
        world.write("mcp.json", "info");
        let path = world.path("mcp.json");
        for (mode, want) in [(0o644, 0), (0o664, 1)] {
            set_mode(&path, mode);
            let (_, _, warnings) = read(&path, Writers::Trusted).unwrap();
            assert_eq!(warnings.len(), want, "{mode:o}");
        }
        set_mode(&path, 0o666);
        let error = read(&path, Writers::Trusted).unwrap_err();
        assert!(error.problem.contains("others may write it"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_read_if_it_has_a_writer() {
        use std::{io::Write as _, os::fd::AsRawFd as _};

        // As of a shell: --config <(echo …)
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let text = "log.level = 'warn'\n";
        let reading = std::thread::spawn({
            let path = path.clone();
            move || read(&path, Writers::Owner).map(|(text, ..)| text)
        });
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), text);

        let world = World::new();
        let path = world.path("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        set_mode(&path, 0o600);
        let error = read(&path, Writers::Owner).unwrap_err();
        assert!(error.problem.starts_with("is a pipe into which nothing was written"), "{error}");

        // Its writer closes it without writing.
        let (reader, writer) = io::pipe().unwrap();
        let empty = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let reading = std::thread::spawn(move || read(&empty, Writers::Owner));
        std::thread::sleep(Duration::from_millis(300));
        drop(writer);
        let problem = reading.join().unwrap().unwrap_err().problem;
        assert!(problem.starts_with("is a pipe that its writer closed without"), "{problem}");

        // Its writer is late, and slow, and writes more than a pipe holds.
        let text = text.repeat(10_000);
        let writing = std::thread::spawn({
            let path = path.clone();
            let text = text.clone();
            move || {
                const PAUSE: Duration = Duration::from_millis(300);
                std::thread::sleep(PAUSE);
                let mut writer = File::options().write(true).open(path).unwrap();
                std::thread::sleep(PAUSE);
                writer.write_all(text.as_bytes()).unwrap();
            }
        });
        let read = read(&path, Writers::Owner).map(|(text, ..)| text);
        writing.join().unwrap();
        assert!(read.unwrap() == text);
    }

    #[test]
    fn a_text_in_utf_16_is_to_be_saved_as_utf_8() {
        let world = World::new();
        let text = "log.level = 'warn'\n";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in
            [[&[0xff, 0xfe], &little[..]].concat(), [&[0xfe, 0xff], &big[..]].concat(), little]
        {
            world.write("m.toml", "info");
            std::fs::write(world.path("m.toml"), bytes).unwrap();
            let error = world.load(Some("m.toml"), &[]).unwrap_err();
            assert_eq!(error.problem, "is not UTF-8 text, but perhaps UTF-16; save it as UTF-8");
        }
        std::fs::write(world.path("m.toml"), b"log.level = '\xe4'").unwrap();
        let error = world.load(Some("m.toml"), &[]).unwrap_err();
        assert_eq!(error.problem, "is not UTF-8 text; save it as UTF-8");
        // As Windows' editors save it.
        std::fs::write(world.path("m.toml"), format!("\u{feff}{text}")).unwrap();
        assert_eq!(world.load(Some("m.toml"), &[]).unwrap().config.log.level, "warn");
    }

    #[test]
    fn a_configuration_has_an_end() {
        let world = World::new();
        world.write("m.toml", "info");
        std::fs::write(world.path("m.toml"), vec![b'\n'; MAX_BYTES as usize + 1]).unwrap();
        let error = world.load(Some("m.toml"), &[]).unwrap_err();
        assert!(error.problem.starts_with("is larger than"), "{error}");
    }
}
