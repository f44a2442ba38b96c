//! Secrets that settings refer to.

use std::{fmt, path::Path};

use marquetry_client_files::expand::Sources;
use marquetry_redact::remember_secrets;
use marquetry_secrets::{Commands, Secrets};

use crate::{Config, ConfigError, environment::variable};

/// The values of secrets, for redactors. They do not affect equality, and are never shown.
#[derive(Clone, Default)]
pub(crate) struct SecretValues(Vec<String>);

impl SecretValues {
    /// Adds the values that were read, which this process shows nowhere from now on.
    pub(crate) fn add(&mut self, secrets: &Secrets) {
        let values = secrets.values();
        remember_secrets(&values);
        for value in values {
            if !self.0.contains(&value) {
                self.0.push(value);
            }
        }
    }
}

impl PartialEq for SecretValues {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// Returns the reader of the secrets of a file, which only its user and root can write unless there
/// is a `warning`.
pub(crate) fn secrets_beside(file: &Path, warning: Option<&String>) -> Secrets {
    let commands = match warning {
        Some(warning) => Commands::RefusedBecause(warning.clone()),
        None if cfg!(unix) => Commands::Allowed,
        None => {
            let why = "this platform does not tell who can write the configuration";
            Commands::RefusedBecause(why.to_owned())
        }
    };
    let folder = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let secrets =
        Secrets::new().with_commands(commands).with_home(variable("HOME").map(Into::into));
    match folder.parent() {
        Some(folder) => secrets.with_folder(folder),
        None => secrets,
    }
}

impl Config {
    /// Returns the values of the secrets that the sources refer to, for a redactor.
    #[must_use]
    pub fn secret_values(&self) -> &[String] {
        &self.secrets.0
    }

    /// Replaces the variables and the references to secrets in the settings beside the upstreams:
    /// `knowledge.database` and the tokens of `[auth]`.
    pub(crate) fn expand_settings(&mut self, sources: &Sources<'_>) -> Result<(), ConfigError> {
        if let Some(database) = &self.knowledge.database {
            let expanded = sources.expand(database).map(std::borrow::Cow::into_owned);
            match expanded {
                Ok(expanded) => self.knowledge.database = Some(expanded),
                Err(error) => return Err(self.fault("knowledge.database", error.to_string())),
            }
        }
        let mut refused = None;
        for (name, token) in self.auth.tokens.iter_mut().flatten() {
            if let Some(text) = &mut token.token
                && let Err(problem) = text.expand(sources)
            {
                refused = Some((format!("auth.tokens.{name}.token"), problem));
                break;
            }
        }
        refused.map_or(Ok(()), |(key, problem)| Err(self.fault(&key, problem)))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

    use super::*;
    use crate::Transport;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            let files = Self(tempfile::tempdir().unwrap());
            fs::write(files.path("token"), "hush-0123456789abcdef\n").unwrap();
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn read(&self, text: &str) -> Result<Config, ConfigError> {
            fs::write(self.path("m.toml"), text).unwrap();
            Config::from_toml_file(&self.path("m.toml"))
        }
    }

    #[test]
    fn secrets_are_read_from_files_and_programs() {
        let files = Files::new();
        let config = files
            .read(
                "[mcp_servers.a]\ncommand = 'x'\nenv = { KEY = '${file:token}' }\n\
                 [mcp_servers.b]\nurl = 'http://h/mcp'\nheaders = { Authorization = 'Bearer ${command:echo hush two}' }\n\
                 [knowledge]\ndatabase = 'k-${file:./token}.db'\n\
                 [auth.tokens]\nci = { token = '${file:token}' }\n",
            )
            .unwrap();
        let Transport::Stdio { env, .. } = &config.mcp_servers["a"].transport else { panic!() };
        assert_eq!(env["KEY"], "hush-0123456789abcdef");
        let Transport::Http { headers, .. } = &config.mcp_servers["b"].transport else { panic!() };
        assert_eq!(headers["Authorization"], "Bearer hush two");
        assert_eq!(config.knowledge.database.as_deref(), Some("k-hush-0123456789abcdef.db"));
        assert!(config.resource_server().unwrap().is_some());
        let mut values = config.secret_values().to_vec();
        values.sort();
        values.dedup();
        assert_eq!(values, ["hush two", "hush-0123456789abcdef"]);
        assert!(!format!("{:?}", config.auth).contains("hush"));
        assert!(!format!("{:?}", config.secrets).contains("hush"));
    }

    #[test]
    fn a_missing_secret_affects_its_server_or_names_its_setting() {
        let files = Files::new();
        let config = files
            .read("[mcp_servers.a]\ncommand = 'x'\nenv = { KEY = '${file:none}' }\n[mcp_servers.b]\ncommand = 'y'\n")
            .unwrap();
        let Transport::Unusable { problem, .. } = &config.mcp_servers["a"].transport else {
            panic!()
        };
        let want = "m.toml:3:15: mcp_servers.a.env.KEY: ${file:none} cannot be read: No such file or directory (os error 2)";
        assert!(problem.ends_with(want), "{problem}");
        assert_eq!(config.mcp_servers["b"].transport.kind(), "stdio");
        for (text, want) in [
            (
                "[knowledge]\ndatabase = 'postgres://${command:false}@h/k'\n",
                "m.toml:2:12: knowledge.database: ${command:false} failed with exit status: 1; run it in a terminal to see why",
            ),
            (
                "[auth.tokens]\nci = { token = 'hush-0123456789abcdef' }\n",
                "m.toml:2:16: auth.tokens.ci.token: is no reference to a secret; a configuration holds no tokens; expected one such as \"${keyring:marquetry/ci}\" or \"${file:/run/secrets/ci}\"",
            ),
            (
                "[auth.tokens]\nci = { token = '${NO_SUCH_VARIABLE_1}' }\n",
                "m.toml:2:16: auth.tokens.ci.token: the environment variable NO_SUCH_VARIABLE_1 is not set; set it, or give a default with ${NO_SUCH_VARIABLE_1:-…}",
            ),
        ] {
            let error = files.read(text).unwrap_err().to_string();
            assert!(error.ends_with(want), "{error}");
        }
    }

    #[test]
    fn arguments_of_programs_take_no_secrets() {
        let text = "[mcp_servers.a]\ncommand = 'x'\nargs = ['--key=${file:token}']\n";
        let config = Files::new().read(text).unwrap();
        let Transport::Unusable { problem, .. } = &config.mcp_servers["a"].transport else {
            panic!()
        };
        let want = "mcp_servers.a.args: ${file:token} cannot be used here: process lists show the program and its arguments; use env";
        assert!(problem.ends_with(want), "{problem}");
    }

    #[test]
    fn programs_run_only_from_files_that_others_cannot_write() {
        let files = Files::new();
        let json = files.path("mcp.json");
        let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"KEY": "${command:echo hush-1234567}"}}}}"#;
        fs::write(&json, text).unwrap();
        for (mode, want) in [(0o644, "stdio"), (0o664, "stdio: unusable")] {
            fs::set_permissions(&json, fs::Permissions::from_mode(mode)).unwrap();
            let mut config = Config::default();
            let warnings = config.add_mcp_json_file(&json).unwrap().join("\n");
            let found = match &config.mcp_servers["a"].transport {
                Transport::Stdio { env, .. } => {
                    assert_eq!(env["KEY"], "hush-1234567");
                    assert_eq!(config.secret_values(), ["hush-1234567"]);
                    "stdio"
                }
                Transport::Unusable { problem, .. } => {
                    assert!(problem.contains("${command:echo …} is not run: "), "{problem}");
                    assert!(problem.contains("others may write it (mode 0664)"), "{problem}");
                    assert!(warnings.contains("others may write it"), "{warnings}");
                    "stdio: unusable"
                }
                _ => "other",
            };
            assert_eq!(found, want);
        }
        // It is not known who wrote a text.
        let text = "[knowledge]\ndatabase = '${command:echo hush}'\n";
        let error = Config::from_toml(text, "m.toml").unwrap_err().to_string();
        assert!(error.contains("is not run: programs are run only from"), "{error}");
    }
}
