//! `marquetry policy`

use std::path::{Path, PathBuf};

use marquetry_config::ConfigError;
use marquetry_policy_command::{KnownServer, PolicyArgs, PolicySettings, explain};

use super::{Failure, print};

pub(super) fn policy(arguments: &PolicyArgs) -> Result<(), Failure> {
    let report = explain(arguments, |file, servers| {
        settings(file, servers).map_err(|error| error.to_string())
    });
    print(&report.map_err(|message| Failure { code: 2, message })?)
}

fn settings(file: Option<&Path>, servers: &[PathBuf]) -> Result<PolicySettings, ConfigError> {
    let mut config = marquetry_config::load(file)?.config;
    for servers in servers {
        config.add_mcp_json_file(servers)?;
    }
    let servers = config.server_prefixes().map(|(name, head)| KnownServer::new(name, head));
    let settings = PolicySettings::new(config.access_policy()?).with_servers(servers);
    Ok(settings.with_tokens(config.token_callers()))
}
