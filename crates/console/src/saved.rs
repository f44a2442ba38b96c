//! Scenarios that a page saves in a folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use marquetry_atomic_file::{Readers, create};

/// The longest scenario, in bytes. The record of a call can have up to 8 MiB, too much for a test.
pub(crate) const MAX_SCENARIO: usize = 1 << 20;

/// The longest name, in characters.
const MAX_NAME: usize = 100;

/// Why a scenario was not saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    #[error(
        "a name has 1 to {MAX_NAME} letters (a to z), digits, '-' and '_', and begins with no '-'; this one is {0:?}"
    )]
    Name(String),
    #[error("the scenario has {0} bytes, more than {MAX_SCENARIO}")]
    TooLong(usize),
    #[error("{} exists already; choose another name", .0.display())]
    Exists(PathBuf),
    #[error("{} cannot be written: {error}", file.display())]
    Io { file: PathBuf, error: io::Error },
}

/// Writes a scenario to a new file of the folder, and returns its path. An existing file is never
/// changed.
pub(crate) fn save(folder: &Path, name: &str, yaml: &str) -> Result<PathBuf, SaveError> {
    // A name that begins with '-' would become an option in `marquetry test *.yaml`.
    if name.is_empty()
        || name.len() > MAX_NAME
        || name.starts_with('-')
        || !name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-')
    {
        return Err(SaveError::Name(name.chars().take(MAX_NAME).collect()));
    }
    if yaml.len() > MAX_SCENARIO {
        return Err(SaveError::TooLong(yaml.len()));
    }
    let file = folder.join(format!("{name}.yaml"));
    if let Err(error) = fs::create_dir_all(folder) {
        return Err(SaveError::Io { file, error });
    }
    // It has the arguments and the answer of a call.
    match create(&file, yaml.as_bytes(), Readers::Owner) {
        Ok(()) => Ok(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(SaveError::Exists(file)),
        Err(error) => Err(SaveError::Io { file, error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_a_new_file_and_no_file_is_changed() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("tests/scenarios");
        let file = save(&folder, "my_call-1", "id: my_call\n").unwrap();
        assert_eq!(file, folder.join("my_call-1.yaml"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "id: my_call\n");
        let again = save(&folder, "my_call-1", "other").unwrap_err();
        assert!(again.to_string().ends_with("my_call-1.yaml exists already; choose another name"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "id: my_call\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            // A link to a file elsewhere is an existing file, even if that file is missing.
            std::os::unix::fs::symlink(home.path().join("gone"), folder.join("link.yaml")).unwrap();
            assert!(matches!(save(&folder, "link", ""), Err(SaveError::Exists(_))));
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        let home = tempfile::tempdir().unwrap();
        let long = "x".repeat(MAX_NAME + 1);
        for name in ["", "../x", "a/b", "a\\b", ".", "a.yaml", "ä", "a\0b", "CON:", "-rf", &long] {
            assert!(matches!(save(home.path(), name, ""), Err(SaveError::Name(_))), "{name:?}");
        }
        let many = "x".repeat(MAX_SCENARIO + 1);
        assert!(matches!(save(home.path(), "x", &many), Err(SaveError::TooLong(_))));
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        let error = save(&file, "x", "").unwrap_err().to_string();
        assert!(error.contains("file/x.yaml cannot be written"), "{error}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
