//! Finds a program before it is started, so that the error can say what is missing.

use std::{env, ffi::OsString, io, path::Path};

use crate::{ClientError, StdioCommand, program_error::ProgramError};

impl StdioCommand {
    /// Looks the program up as the system does: a path relative to the working directory, a name in
    /// `PATH`.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started: [`ClientError::Io`] with a
    /// [`ProgramError`] that says what is missing.
    pub fn find_program(&self) -> Result<(), ClientError> {
        let path = match self.env.get("PATH") {
            Some(path) => Some(OsString::from(path)),
            None if self.inherit_env => env::var_os("PATH"),
            None => None,
        };
        check_program(&self.program, path, self.cwd.as_deref()).map_err(|error| ClientError::Io {
            what: "cannot be started".to_owned(),
            source: io::Error::other(error),
        })
    }
}

/// Checks that `program` can be started in `cwd` with `path` as its `PATH`.
///
/// # Errors
///
/// Returns an error if the program does not exist or is not executable, or `cwd` is not a
/// directory. On Windows only `cwd` is checked. A program that passes may still fail to start.
pub fn check_program(
    program: &str,
    path: Option<OsString>,
    cwd: Option<&Path>,
) -> Result<(), ProgramError> {
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return Err(ProgramError::WorkingDirectory(cwd.to_owned()));
    }
    let program = program.to_owned();
    if program.contains(std::path::is_separator) {
        let file = cwd.unwrap_or(Path::new("")).join(&program);
        return match file_kind(&file) {
            FileKind::Program => Ok(()),
            FileKind::Other => Err(ProgramError::NotExecutable { program }),
            FileKind::Nothing => Err(ProgramError::NoSuchFile { program }),
        };
    }
    // Without a PATH the system uses its own default.
    let Some(path) = path else { return Ok(()) };
    let mut problem = ProgramError::NotInPath { program: program.clone() };
    for directory in env::split_paths(&path) {
        // The system resolves relative directories, and the empty one, from the working directory.
        let directory = cwd.unwrap_or(Path::new("")).join(directory);
        match file_kind(&directory.join(&program)) {
            FileKind::Program => return Ok(()),
            FileKind::Other => problem = ProgramError::NotExecutable { program: program.clone() },
            FileKind::Nothing => {}
        }
    }
    Err(problem)
}

/// The kind of file at a path.
enum FileKind {
    /// An executable file.
    Program,
    /// A folder, or a file that may not be executed.
    #[cfg_attr(not(unix), expect(dead_code, reason = "not told apart there"))]
    Other,
    /// No file, or one in a folder that may not be read.
    #[cfg_attr(not(unix), expect(dead_code, reason = "not told apart there"))]
    Nothing,
}

#[cfg(unix)]
fn file_kind(path: &Path) -> FileKind {
    use std::os::unix::fs::PermissionsExt as _;
    match path.metadata() {
        Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => {
            FileKind::Program
        }
        Ok(_) => FileKind::Other,
        Err(_) => FileKind::Nothing,
    }
}

/// Windows adds file extensions, and decides itself what can be executed.
#[cfg(not(unix))]
fn file_kind(_path: &Path) -> FileKind {
    FileKind::Program
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn programs_are_found_as_they_would_be_started() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::write(here.join("text"), "").unwrap();
        std::fs::create_dir(here.join("bin")).unwrap();
        std::fs::write(here.join("bin/tool"), "").unwrap();
        std::fs::set_permissions(here.join("bin/tool"), Permissions::from_mode(0o755)).unwrap();
        // A folder that only its owner may search, such as one of another user.
        std::fs::create_dir(here.join("locked")).unwrap();
        std::fs::set_permissions(here.join("locked"), Permissions::from_mode(0o000)).unwrap();
        let usual = env::var_os("PATH");
        let gone = here.join("gone");
        for (program, path, cwd, want) in [
            ("sh", usual.clone(), here, "found".to_owned()),
            ("/bin/sh", usual.clone(), here, "found".to_owned()),
            ("sh", None, here, "found".to_owned()),
            ("npxx", usual.clone(), here, "program \"npxx\" not found in PATH".to_owned()),
            (
                "npx -y x",
                usual.clone(),
                here,
                "program \"npx -y x\" not found in PATH; \"command\" is the program alone, its arguments belong in \"args\"".to_owned(),
            ),
            (
                "~/bin/npx",
                usual.clone(),
                here,
                "program \"~/bin/npx\" not found; no shell expands ~ here: write ${userHome} instead".to_owned(),
            ),
            ("./npx", usual.clone(), here, "program \"./npx\" not found".to_owned()),
            ("./text", usual.clone(), here, "program \"./text\" is not an executable file".to_owned()),
            ("text", Some(here.into()), here, "program \"text\" is not an executable file".to_owned()),
            ("sh", Some(here.into()), here, "program \"sh\" not found in PATH".to_owned()),
            ("tool", Some("bin".into()), here, "found".to_owned()),
            ("tool", Some("gone:./bin".into()), here, "found".to_owned()),
            ("tool", Some("bin".into()), &here.join("bin"), "program \"tool\" not found in PATH".to_owned()),
            ("npxx", Some("locked".into()), here, "program \"npxx\" not found in PATH".to_owned()),
            ("sh", usual.clone(), &gone, format!("working directory {} is not a directory", gone.display())),
            ("sh", usual.clone(), &here.join("text"), format!("working directory {} is not a directory", here.join("text").display())),
        ] {
            let found = check_program(program, path, Some(cwd));
            let found = found.map_or_else(|error| error.to_string(), |()| "found".to_owned());
            assert_eq!(found, want, "{program}");
        }
    }
}
