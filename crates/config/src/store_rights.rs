//! The rights of other users of this machine on the stores.

use std::path::Path;

use crate::{Config, sections::StoreKind};

impl Config {
    /// Returns a warning for each store that other users of this machine can read or change. New
    /// stores are for their owner alone; these were made by something else, or opened afterwards.
    #[must_use]
    pub fn shared_stores(&self) -> Vec<String> {
        let artifacts = &self.artifacts;
        let directory =
            artifacts.directory.as_deref().filter(|_| artifacts.store == StoreKind::Directory);
        let database = self.knowledge_database().ok().and_then(|location| match location {
            marquetry_knowledge::DatabaseLocation::File(file) => Some(file),
            _ => None,
        });
        let stores = [
            ("artifacts.directory", directory),
            ("artifacts.savings_database", artifacts.savings_database.as_deref()),
            ("gateway.tool_cache_directory", self.gateway.tool_cache_directory.as_deref()),
            ("knowledge.database", database.as_deref().filter(|_| self.knowledge.enabled)),
        ];
        stores.iter().filter_map(|(setting, path)| warning(setting, (*path)?)).collect()
    }
}

#[cfg(unix)]
fn warning(setting: &str, path: &Path) -> Option<String> {
    const OTHERS: u32 = 0o077;
    const SEARCH: u32 = 0o011;
    let mode = mode_of(path).filter(|mode| mode & OTHERS != 0)?;
    // Other users cannot open the files of a folder that they cannot search.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    mode_of(folder.unwrap_or_else(|| Path::new("."))).filter(|mode| mode & SEARCH != 0)?;
    let shown = path.display();
    Some(format!(
        "{setting}: other users of this machine may use {shown} (mode {:04o}); run `chmod go-rwx {shown}`",
        mode & 0o7777
    ))
}

#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(path.metadata().ok()?.permissions().mode())
}

#[cfg(not(unix))]
fn warning(_setting: &str, _path: &Path) -> Option<String> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn stores_that_others_can_read_are_named() {
        let home = tempfile::tempdir().unwrap();
        let store = home.path().join("artifacts");
        let database = home.path().join("knowledge.db");
        fs::create_dir(&store).unwrap();
        fs::write(&database, "").unwrap();
        let mut config = Config::default();
        config.artifacts.store = StoreKind::Directory;
        config.artifacts.directory = Some(store.clone());
        config.knowledge.database = Some(database.display().to_string());
        for (home_mode, store_mode, database_mode, settings) in [
            (0o755, 0o755, 0o644, vec!["artifacts.directory", "knowledge.database"]),
            (0o755, 0o700, 0o640, vec!["knowledge.database"]),
            (0o755, 0o700, 0o600, vec![]),
            (0o700, 0o755, 0o644, vec![]),
        ] {
            for (path, mode) in
                [(&store, store_mode), (&database, database_mode), (&home.path().into(), home_mode)]
            {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let warnings = config.shared_stores();
            let found: Vec<&str> =
                warnings.iter().filter_map(|warning| Some(warning.split_once(':')?.0)).collect();
            assert_eq!(found, settings, "{home_mode:o} {store_mode:o} {database_mode:o}");
        }
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
        config.knowledge.database = None;
        let shown = store.display();
        assert_eq!(
            config.shared_stores(),
            [format!(
                "artifacts.directory: other users of this machine may use {shown} (mode 0755); run `chmod go-rwx {shown}`"
            )]
        );
    }
}
