//! Checks of settings after every source was read.

use std::io;

use marquetry_artifact_bucket::{AddressError, BucketAddress, BucketSettings};
use marquetry_protocol::client::Network;

use crate::{
    Config, ConfigError, Transport, artifacts::StoreKind, gateway::SettingProblem,
    upstream::IsolationSetting,
};

impl Config {
    /// Checks the settings after every source was read.
    ///
    /// # Errors
    ///
    /// Returns an error for the first setting that cannot be used, such as an invalid artifact
    /// directory, or a server without a transport.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.faults().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns an error for each setting that cannot be used.
    pub fn faults(&self) -> Vec<ConfigError> {
        let mut problems = self.artifact_problems();
        problems.extend(self.gateway.with_proxy(Network::default()).err());
        problems.extend(self.gateway.with_authorities(Network::default()).err());
        for problem in self.gateway.pass_env_problems() {
            problems.push(("gateway.pass_env", problem));
        }
        problems.extend(self.plantuml.check_engine().map_err(|it| ("plantuml.engine", it)).err());
        let views_origin = self.console.check_views_origin();
        problems.extend(views_origin.map_err(|it| ("console.views_origin", it)).err());
        problems.extend(self.audit_problem().map(|problem| ("audit.path", problem)));
        problems.extend(self.metrics_problem().map(|problem| ("metrics.listen", problem)));
        let mut faults: Vec<_> =
            problems.into_iter().map(|(key, problem)| self.fault(key, problem)).collect();
        faults.extend(self.resource_server().err());
        faults.extend(self.access_policy().err());
        faults.extend(self.artifact_bucket().err());
        faults.extend(self.ask_faults());
        faults.extend(self.knowledge_faults());
        faults.extend(self.client_faults());
        faults.extend(self.pin_faults());
        faults.extend(self.override_faults());
        faults.extend(self.isolation_faults());
        faults.extend(self.incomplete.iter().filter_map(|(name, error)| {
            let upstream = self.mcp_servers.get(name)?;
            (upstream.transport == Transport::NotGiven && !upstream.disabled).then(|| error.clone())
        }));
        faults
    }

    /// Returns an error for each limit of a client that leaves no room for an answer or a name.
    fn client_faults(&self) -> impl Iterator<Item = ConfigError> {
        self.clients.0.iter().flat_map(move |(name, settings)| {
            settings.too_small().map(move |(key, least)| {
                let problem = format!("is too small; expected a number from {least} on");
                self.fault(&format!("clients.{name}.{key}"), problem)
            })
        })
    }

    /// Returns an error for each server whose callers share a process that is to know its instance.
    fn isolation_faults(&self) -> impl Iterator<Item = ConfigError> {
        let servers = self.mcp_servers.iter().filter(|(_, server)| {
            server.isolation == IsolationSetting::Shared && server.transport.names_instance()
        });
        servers.map(|(name, _)| {
            let problem = "must be \"principal\" or \"session\", since a value of this server has ${instance:id}";
            self.fault(&format!("mcp_servers.{name}.isolation"), problem.to_owned())
        })
    }

    /// Returns this error for each server that may use the chat model.
    pub(super) fn sampling_faults(&self, problem: &str) -> impl Iterator<Item = ConfigError> {
        let servers = self.mcp_servers.iter().filter(|(_, server)| server.sampling);
        servers.map(move |(name, _)| {
            self.fault(&format!("mcp_servers.{name}.sampling"), problem.to_owned())
        })
    }

    /// Returns a warning for each place of artifacts that is set and not used.
    pub fn unused_store_settings(&self) -> Vec<String> {
        let artifacts = &self.artifacts;
        let store = artifacts.store.as_str();
        let places = [
            (StoreKind::Directory, artifacts.directory.is_some()),
            (StoreKind::Bucket, artifacts.bucket.is_some()),
        ];
        let unused =
            places.into_iter().filter(|(kind, is_set)| *is_set && *kind != artifacts.store);
        unused
            .map(|(kind, _)| {
                let kind = kind.as_str();
                let problem = format!("is not used, since artifacts.store is \"{store}\"; remove one of the two settings, or set artifacts.store = \"{kind}\"");
                self.fault(&format!("artifacts.{kind}"), problem).to_string()
            })
            .collect()
    }

    /// Returns where the bucket of artifacts is; none if the store is no bucket.
    ///
    /// # Errors
    /// Returns an error if the setting is not the address of a bucket.
    pub fn artifact_bucket(&self) -> Result<Option<BucketSettings>, ConfigError> {
        let artifacts = &self.artifacts;
        if artifacts.store != StoreKind::Bucket {
            return Ok(None);
        }
        let address = artifacts.bucket.as_deref().unwrap_or_default().parse();
        let address: BucketAddress = address
            .map_err(|error: AddressError| self.fault("artifacts.bucket", error.to_string()))?;
        Ok(Some(BucketSettings {
            address,
            endpoint: artifacts.bucket_endpoint.clone(),
            region: artifacts.bucket_region.clone(),
        }))
    }

    /// Returns the settings of the store of artifacts that cannot work.
    fn artifact_problems(&self) -> Vec<SettingProblem> {
        let artifacts = &self.artifacts;
        let mut problems = Vec::new();
        let sizes: &[_] = match artifacts.store {
            StoreKind::Bucket => &[("artifacts.bucket_max_bytes", artifacts.bucket_max_bytes)],
            StoreKind::Directory => {
                if let Err(error) = artifacts.check_directory() {
                    let advice = match error.kind() {
                        io::ErrorKind::AlreadyExists => {
                            ", or keep artifacts in memory with artifacts.store = \"memory\""
                        }
                        _ => "",
                    };
                    problems.push(("artifacts.directory", format!("{error}{advice}")));
                }
                &[
                    ("artifacts.directory_max_bytes", artifacts.directory_max_bytes),
                    (
                        "artifacts.directory_max_artifact_bytes",
                        artifacts.directory_max_artifact_bytes,
                    ),
                ]
            }
            _ => &[("artifacts.memory_max_bytes", artifacts.memory_max_bytes)],
        };
        let is_chosen = self.positions.0.contains_key("artifacts.store");
        if !is_chosen && artifacts.directory.is_some() && artifacts.bucket.is_some() {
            let problem = "a directory and a bucket are set; set artifacts.store to \"directory\" or \"bucket\"";
            problems.push(("artifacts.bucket", problem.to_owned()));
        }
        let no_room = "0 leaves no room for an artifact; expected a number from 1 on";
        for (key, size) in sizes {
            if *size == 0 {
                problems.push((*key, no_room.to_owned()));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Checks the errors about the settings of `text`, one on each line.
    #[track_caller]
    fn check(text: &str, want: Expect) {
        let config = Config::from_toml(text, "m.toml").unwrap();
        want.assert_eq(&config.faults().iter().map(|it| format!("{it}\n")).collect::<String>());
    }

    #[test]
    fn each_setting_that_cannot_work_is_named() {
        check("", expect![""]);
        check(
            "[server]\nlisten = 3001\n[console]\nviews_port = 3001\nviews_origin = 'x'\n\
             [gateway]\nrestart_delay_ms = 9\nrestart_max_delay_ms = 8\npass_env = ['NVM_*', '*', 'A=b', '']\n\
             ca_file = '/no/such.pem'\n[artifacts]\nmemory_max_bytes = 0\n[plantuml]\nengine = 'plantuml'\n\
             [mcp_servers.a]\nprefix = 'a'\n[mcp_servers.b]\nprefix = 'b'\n",
            expect![[r#"
                m.toml:12:20: artifacts.memory_max_bytes: 0 leaves no room for an artifact; expected a number from 1 on
                m.toml:10:11: gateway.ca_file: "/no/such.pem": No such file or directory (os error 2)
                m.toml:9:12: gateway.pass_env: "A=…" has a value; a value for one server belongs in its env; expected names such as "NVM_DIR" or "NVM_*"
                m.toml:9:12: gateway.pass_env: "" is empty; expected names such as "NVM_DIR" or "NVM_*"
                m.toml:14:10: plantuml.engine: "plantuml" is not a file; expected "auto", "off", or the path of a program or of a jar
                m.toml:5:16: console.views_origin: "x" is not an origin; expected one such as "https://views.example.org"
                m.toml:15:1: mcp_servers.a: expected "command" (a program) or "url" (a server), here or for this name in an mcp.json file
                m.toml:17:1: mcp_servers.b: expected "command" (a program) or "url" (a server), here or for this name in an mcp.json file
            "#]],
        );
    }

    #[test]
    fn a_proxy_is_a_url_and_authorities_are_certificates() {
        check(
            "[gateway]\nproxy = 'proxy.example:3128'\n",
            expect![[r#"
            m.toml:2:9: gateway.proxy: proxy 'proxy.example:3128' is not a URL like "http://proxy.example:3128"
        "#]],
        );
        check(
            "[gateway]\nproxy = 'http://user:hush@'\n",
            expect![[r#"
            m.toml:2:9: gateway.proxy: proxy 'http://' is not a URL like "http://proxy.example:3128"
        "#]],
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "no certificate").unwrap();
        let config = Config::from_toml(&format!("[gateway]\nca_file = {file:?}\n"), "m.toml");
        let error = config.unwrap().check().unwrap_err().to_string();
        let want = format!(
            "m.toml:2:11: gateway.ca_file: {file:?}: no certificate in PEM (\"BEGIN CERTIFICATE\")"
        );
        assert_eq!(error, want);
    }

    #[test]
    fn invalid_names_of_variables_are_refused() {
        for (pattern, why) in [
            ("", "is empty"),
            ("A*B", "has a * before its end"),
            ("**", "has a * before its end"),
            ("$HOME", "begins with $; expected the name alone"),
            ("A ", "has a space"),
        ] {
            let config = Config::from_toml(&format!("[gateway]\npass_env = ['{pattern}']\n"), "m");
            let error = config.unwrap().check().unwrap_err().to_string();
            let want = format!("m:2:12: gateway.pass_env: {pattern:?} {why}");
            assert!(error.starts_with(&want), "{error}");
        }
        check("[gateway]\npass_env = ['*', 'NVM_*', 'ProgramFiles(x86)', '_']\n", expect![""]);
    }

    #[test]
    fn an_empty_directory_is_refused() {
        check(
            "[artifacts]\ndirectory = \"\"\n",
            expect![[r"
                m.toml:2:13: artifacts.directory: the path is empty; expected a directory, or no setting
            "]],
        );
    }

    #[test]
    fn a_directory_means_the_directory_store() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("new");
        let toml = format!("[artifacts]\ndirectory = {directory:?}\n");
        let config = Config::from_toml(&toml, "m.toml").unwrap();
        assert_eq!(config.artifacts.store, StoreKind::Directory);
        assert_eq!(config.check(), Ok(()));
        assert!(config.unused_store_settings().is_empty());
        let toml = "artifacts = { store = 'memory', directory = 'd' }\n";
        check(toml, expect![""]);
        let config = Config::from_toml(toml, "m.toml").unwrap();
        assert_eq!(config.artifacts.store, StoreKind::Memory);
        let want = "m.toml:1:45: artifacts.directory: is not used, since artifacts.store is \"memory\"; remove one of the two settings, or set artifacts.store = \"directory\"";
        assert_eq!(config.unused_store_settings(), [want]);
        check(
            &format!(
                "[artifacts]\ndirectory = {directory:?}\ndirectory_max_bytes = 0\ndirectory_max_artifact_bytes = 0\n"
            ),
            expect![[r"
                m.toml:3:23: artifacts.directory_max_bytes: 0 leaves no room for an artifact; expected a number from 1 on
                m.toml:4:32: artifacts.directory_max_artifact_bytes: 0 leaves no room for an artifact; expected a number from 1 on
            "]],
        );
    }

    #[test]
    fn a_bucket_needs_an_address() {
        let toml = "[artifacts]\nbucket = 's3://bucket/a'\nbucket_region = 'eu-central-1'\n";
        let config = Config::from_toml(toml, "m.toml").unwrap();
        assert_eq!(config.artifacts.store, StoreKind::Bucket);
        let bucket = config.artifact_bucket().unwrap().unwrap();
        assert_eq!(bucket.address.to_string(), "s3://bucket/a");
        assert_eq!(bucket.region.as_deref(), Some("eu-central-1"));
        check(toml, expect![""]);
        check(
            "[artifacts]\nbucket = 's3://key:hush@bucket'\nbucket_max_bytes = 0\n",
            expect![[r#"
            m.toml:3:20: artifacts.bucket_max_bytes: 0 leaves no room for an artifact; expected a number from 1 on
            m.toml:2:10: artifacts.bucket: the name of a bucket has 3 to 222 letters, digits, ".", "-" and "_"; the prefix follows after a "/"
        "#]],
        );
        let toml = "artifacts = { store = 'memory', bucket = 's3://bucket' }\n";
        let config = Config::from_toml(toml, "m.toml").unwrap();
        let want = "m.toml:1:42: artifacts.bucket: is not used, since artifacts.store is \"memory\"; remove one of the two settings, or set artifacts.store = \"bucket\"";
        assert_eq!(config.unused_store_settings(), [want]);
        let error = Config::from_toml("artifacts = { store = 'bucket' }\n", "m.toml").unwrap_err();
        let want =
            "m.toml:1:23: artifacts.store: the bucket store needs \"bucket\" in the same section";
        assert_eq!(error.to_string(), want);
        let directory = tempfile::tempdir().unwrap();
        let toml = format!(
            "artifacts = {{ bucket = 's3://bucket', directory = {:?} }}\n",
            directory.path().join("new")
        );
        check(
            &toml,
            expect![[r#"
                m.toml:1:24: artifacts.bucket: a directory and a bucket are set; set artifacts.store to "directory" or "bucket"
            "#]],
        );
    }

    #[test]
    fn limits_of_clients_leave_room() {
        check(
            "[clients.small]\nmax_name_chars = 7\nmax_message_bytes = 1\n\n[clients.default]\nshown_tokens = 0\n",
            expect![[r"
                m.toml:6:16: clients.default.shown_tokens: is too small; expected a number from 300 on
                m.toml:3:21: clients.small.max_message_bytes: is too small; expected a number from 16384 on
                m.toml:2:18: clients.small.max_name_chars: is too small; expected a number from 16 on
            "]],
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_url_of_a_database_must_be_complete() {
        for url in ["postgres://", "postgres://me:hush@h:port/k", "postgres://h/k?ssl=on"] {
            let toml = format!("[knowledge]\ndatabase = '{url}'\n");
            let error = Config::from_toml(&toml, "m.toml").unwrap().check().unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("m.toml:2:12: knowledge.database: "), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
        let toml = "[knowledge]\ndatabase = 'postgres://me@h/k?sslrootcert=/no/such.pem'\n";
        let error = Config::from_toml(toml, "m.toml").unwrap().check().unwrap_err().to_string();
        assert!(error.contains("sslrootcert \"/no/such.pem\""), "{error}");
        check("[knowledge]\ndatabase = 'postgres://me:secret@h:5432/k'\n", expect![""]);
    }
}
