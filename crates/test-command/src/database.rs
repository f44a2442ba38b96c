//! The runner, and the database of results.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_atomic_file::create_folder;
use marquetry_judge::{
    DatabaseError, LibsqlStore, RemoteModels, ResultStore, Runner, StoreError, store::LibsqlOptions,
};

use crate::{Environment, Failed, arguments::DatabaseArgs};

/// Returns a runner whose models use the keys and URLs in the environment.
pub(crate) fn runner(store: Arc<dyn ResultStore>, environment: Environment<'_>) -> Runner {
    let models = RemoteModels::from_environment(environment.variable);
    let keys = RemoteModels::VARIABLES
        .iter()
        .filter_map(|(_, key, _)| (environment.variable)(key).filter(|it| !it.is_empty()));
    let runner =
        Runner::new(models, store).with_environment((environment.variables)()).with_secrets(keys);
    match environment.guard {
        Some(guard) => runner.with_guard(guard),
        None => runner,
    }
}

/// Handling of a database file that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    /// For commands that only read.
    Refuse,
}

/// Opens the database that the arguments name, or that of the user.
pub(crate) async fn open(
    arguments: &DatabaseArgs,
    environment: Environment<'_>,
    missing: Missing,
) -> Result<Arc<dyn ResultStore>, Failed> {
    let named = arguments
        .database
        .clone()
        .or_else(|| (environment.variable)("TEST_DATABASE").map(PathBuf::from))
        .filter(|path| !path.as_os_str().is_empty());
    if let Some(url) = named.as_ref().and_then(|it| it.to_str()).filter(|it| it.contains("://")) {
        let token = (environment.variable)("TEST_DATABASE_TOKEN").filter(|it| !it.is_empty());
        let store = LibsqlStore::connect(url, token.as_deref()).await.map_err(|error| {
            Failed::error(format!("the database of tests cannot be used: {error}"))
        })?;
        return Ok(Arc::new(store));
    }
    let path = match named {
        Some(path) => path,
        None => user_database(environment).ok_or_else(|| {
            Failed::usage(
                "name a database: neither $XDG_DATA_HOME nor $HOME is set (--database FILE)",
            )
        })?,
    };
    // The store reports any error other than "not found", with its reason.
    if missing == Missing::Refuse && matches!(path.try_exists(), Ok(false)) {
        return Err(Failed::usage(format!(
            "there is no database {}: check --database and $TEST_DATABASE; a run of cases with a model creates it",
            path.display()
        )));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_folder(folder).map_err(|error| cannot_open(&path, &error))?;
    }
    let opened = match LibsqlStore::open(&path).await {
        // A database that is only read may be in a folder where this user cannot write.
        Err(StoreError::Database(DatabaseError::ReadOnly)) if missing == Missing::Refuse => {
            let mut options = LibsqlOptions::default();
            options.read_only = true;
            LibsqlStore::open_with(&path, options).await
        }
        opened => opened,
    };
    Ok(Arc::new(opened.map_err(|error| cannot_open(&path, &error))?))
}

fn cannot_open(path: &Path, error: &dyn std::error::Error) -> Failed {
    Failed::error(format!("the database {} cannot be opened: {error}", path.display()))
}

/// Returns `$XDG_DATA_HOME/marquetry/tests.db`, or the same below `~/.local/share`.
fn user_database(environment: Environment<'_>) -> Option<PathBuf> {
    let data = absolute_folder(environment, "XDG_DATA_HOME")
        .or_else(|| absolute_folder(environment, "HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("marquetry/tests.db"))
}

/// Returns the folder in a variable. A relative path does not count (XDG Base Directory
/// Specification).
fn absolute_folder(environment: Environment<'_>, variable: &str) -> Option<PathBuf> {
    (environment.variable)(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use marquetry_judge::{MemoryStore, ModelSettings, ServerConfig, TestCase, store::PageRequest};

    use super::*;

    /// An environment with these variables.
    fn with_environment<T>(given: &[(&str, &str)], work: impl FnOnce(Environment<'_>) -> T) -> T {
        let variables: Vec<(String, String)> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        work(Environment {
            variable: &|name| variables.iter().find(|it| it.0 == name).map(|it| it.1.clone()),
            variables: &|| variables.clone(),
            guard: None,
            program: None,
        })
    }

    #[tokio::test]
    async fn servers_inherit_necessary_variables_but_no_keys() {
        let given = [
            ("PATH", "/usr/bin:/bin"),
            ("HTTPS_PROXY", "http://user:proxy-password@proxy.example"),
            ("NODE_EXTRA_CA_CERTS", "/own/ca.pem"),
            ("XDG_CACHE_HOME", "/own/cache"),
            ("OPENAI_API_KEY", "sk-of-the-runner"),
            ("GITHUB_TOKEN", "other"),
        ];
        let runner = with_environment(&given, |it| runner(Arc::new(MemoryStore::new()), it));
        let script = "echo proxy=$HTTPS_PROXY certs=$NODE_EXTRA_CA_CERTS cache=$XDG_CACHE_HOME \
                      key=$OPENAI_API_KEY token=$GITHUB_TOKEN end >&2; exit 1";
        let mut case = TestCase::new("a", "b");
        case.judge_config = Some(ModelSettings::new("openai", "m"));
        case.server_configs = Some(vec![ServerConfig::stdio("/bin/sh", ["-c", script])]);
        let error = runner.run(case).await.error.unwrap();
        let want =
            "proxy=http://user:…@proxy.example certs=/own/ca.pem cache=/own/cache key= token= end";
        assert!(error.contains(want), "{error}");
    }

    #[tokio::test]
    async fn only_commands_that_write_create_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/tests.db");
        let arguments = DatabaseArgs { database: Some(path.clone()) };
        let environment =
            Environment { variable: &|_| None, variables: &Vec::new, guard: None, program: None };
        let refused = open(&arguments, environment, Missing::Refuse).await.err().unwrap();
        assert_eq!(refused.code, Failed::USAGE);
        let named = format!("there is no database {}: check --database", path.display());
        assert!(refused.message.starts_with(&named), "{}", refused.message);
        assert!(!folder.path().join("new").exists());
        open(&arguments, environment, Missing::Create).await.unwrap();
        assert!(path.is_file());
        open(&arguments, environment, Missing::Refuse).await.unwrap();

        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let store = open(&arguments, environment, Missing::Refuse).await.unwrap();
        assert!(store.runs(&PageRequest::default()).await.unwrap().items.is_empty());
    }
}
