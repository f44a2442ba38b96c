//! Moves secrets of entries into files for their owner alone.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use marquetry_atomic_file::{Readers, create, create_folder};
use marquetry_client_config::CreatedFile;
use marquetry_redact::{is_scheme, is_secret_variable, looks_secret};
use serde_json::{Map, Value};

use crate::machine::ConnectCommandError;

/// A secret in an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Secret {
    /// `env` or `headers`.
    pub(crate) section: &'static str,
    /// The variable or header.
    pub(crate) name: String,
    /// The text before the secret, such as `Bearer `.
    prefix: String,
    value: String,
}

/// Returns the secrets that an entry holds as text.
pub(crate) fn secrets_of(entry: &Map<String, Value>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for section in ["env", "headers"] {
        let members = entry.get(section).and_then(Value::as_object);
        for (name, value) in members.into_iter().flatten() {
            let Some(value) = value.as_str().filter(|value| !value.is_empty()) else { continue };
            // References are no secrets, and a file cannot hold half of one.
            if value.contains("${") {
                continue;
            }
            let (prefix, secret) = match value.split_once(' ') {
                Some((scheme, token)) if is_scheme(scheme) => (format!("{scheme} "), token),
                _ => (String::new(), value),
            };
            if is_secret_variable(name) || looks_secret(secret) || !prefix.is_empty() {
                let value = secret.to_owned();
                secrets.push(Secret { section, name: name.clone(), prefix, value });
            }
        }
    }
    secrets
}

/// A file of a secret that will be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SecretFile {
    pub(crate) path: PathBuf,
    value: String,
}

impl SecretFile {
    /// Writes the file; one that holds the same secret stays. Returns the file if it is new.
    pub(crate) fn write(&self) -> io::Result<Option<CreatedFile>> {
        if let Some(folder) = self.path.parent() {
            create_folder(folder)?;
        }
        match create(&self.path, self.value.as_bytes(), Readers::Owner) {
            Ok(()) => Ok(Some(CreatedFile::new(self.path.clone(), &self.value))),
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && holds(&self.path, &self.value) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Writes files of secrets, all or none. Returns those that are new.
pub(crate) fn write_all(files: &[SecretFile]) -> Result<Vec<CreatedFile>, ConnectCommandError> {
    let mut created = Vec::new();
    for file in files {
        match file.write() {
            Ok(new) => created.extend(new),
            Err(error) => {
                remove_all(&created);
                let path = file.path.display();
                return Err(ConnectCommandError::new(format!("{path} cannot be written: {error}")));
            }
        }
    }
    Ok(created)
}

/// Removes files that were just created, since the file that names them was not written.
pub(crate) fn remove_all(created: &[CreatedFile]) {
    for file in created {
        _ = fs::remove_file(&file.path);
    }
}

/// Puts references to files of a folder in the place of an entry's secrets, and adds the files to
/// `files`. Writes nothing.
pub(crate) fn move_secrets(
    server: &str,
    entry: &mut Map<String, Value>,
    folder: &Path,
    files: &mut Vec<SecretFile>,
) {
    for secret in secrets_of(entry) {
        let name = format!("{server}-{}", secret.name);
        let path = free_path(folder, &name, &secret.value, files);
        let members = entry.get_mut(secret.section).and_then(Value::as_object_mut);
        if let Some(value) = members.and_then(|members| members.get_mut(&secret.name)) {
            *value = format!("{}${{file:{}}}", secret.prefix, path.display()).into();
        }
        files.push(SecretFile { path, value: secret.value });
    }
}

/// Returns a path that no file has, or a file with the same secret.
fn free_path(folder: &Path, name: &str, value: &str, files: &[SecretFile]) -> PathBuf {
    let safe: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' })
        .take(100)
        .collect();
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{safe}{suffix}"));
        let is_taken = files.iter().any(|file| file.path == path && file.value != value);
        let is_free = fs::symlink_metadata(&path).is_err() || holds(&path, value);
        if is_free && !is_taken {
            return path;
        }
        number += 1;
    }
}

fn holds(path: &Path, value: &str) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    is_file && fs::read(path).is_ok_and(|found| found == value.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_become_references_and_other_values_stay() {
        let folder = tempfile::tempdir().unwrap();
        let before = json!({
            "command": "x",
            "env": {"API_KEY": "k-123", "REGION": "eu", "TOKEN": "${TOKEN}", "EMPTY_KEY": ""},
            "headers": {"Authorization": "Bearer t-123"},
        });
        let Value::Object(mut entry) = before else { unreachable!() };
        let mut files = Vec::new();
        move_secrets("a/b", &mut entry, folder.path(), &mut files);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for file in &files {
            assert!(file.write().unwrap().is_some());
            assert_eq!(file.write().unwrap(), None);
        }
        let key = folder.path().join("a_b-API_KEY");
        let header = folder.path().join("a_b-Authorization");
        let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
        assert_eq!(paths, [key.clone(), header.clone()]);
        assert_eq!(fs::read(&key).unwrap(), b"k-123");
        assert_eq!(entry["env"]["API_KEY"], format!("${{file:{}}}", key.display()));
        assert_eq!(
            entry["headers"]["Authorization"],
            format!("Bearer ${{file:{}}}", header.display())
        );
        let env = &entry["env"];
        assert_eq!((&env["REGION"], &env["TOKEN"]), (&json!("eu"), &json!("${TOKEN}")));
        // The same secret needs no second file, and another one does not overwrite it.
        assert_eq!(free_path(folder.path(), "a/b-API_KEY", "k-123", &[]), key);
        let other = free_path(folder.path(), "a/b-API_KEY", "k-456", &[]);
        assert_eq!(other, folder.path().join("a_b-API_KEY-2"));
        let clash = SecretFile { path: key.clone(), value: "k-456".to_owned() };
        assert!(clash.write().is_err());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
