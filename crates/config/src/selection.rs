//! Selections of servers, for commands that need only some of them.

use marquetry_gateway::Namer;
use marquetry_nearest::nearest;

use crate::{
    Config, ConfigError,
    sections::{Capture, Prefix},
};

impl Config {
    /// Prepares a call of one tool: disables the servers that cannot have a tool of this exposed
    /// name. If the name does not tell, all servers stay. With `is_raw`, answers are not captured.
    pub fn keep_for_call(&mut self, tool: &str, own_tools: &[&str], is_raw: bool) {
        if is_raw {
            self.without_capture();
        }
        let separator = self.gateway.separator.as_str();
        let heads = self.mcp_servers.iter().map(|(name, server)| {
            let prefix = server.prefix.as_ref().map(Prefix::as_str);
            Namer::new(name, prefix, separator).head().to_owned()
        });
        // An empty prefix fits every name.
        let fits: Vec<bool> = heads.map(|head| tool.starts_with(&head)).collect();
        let is_known = fits.contains(&true) || own_tools.contains(&tool);
        for (server, fits) in self.mcp_servers.values_mut().zip(fits) {
            server.disabled |= is_known && !fits;
        }
    }

    /// Disables all servers except the one that `--server` names, and the tools of this program.
    /// Without a name, everything stays.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such server.
    pub fn keep_only_server(&mut self, name: Option<&str>) -> Result<(), ConfigError> {
        let Some(name) = name else { return Ok(()) };
        if !self.mcp_servers.contains_key(name) {
            let known: Vec<&str> = self.mcp_servers.keys().map(String::as_str).collect();
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None if known.is_empty() => "no server is configured".to_owned(),
                None => format!("configured servers: {}", known.join(", ")),
            };
            return Err(ConfigError {
                file: "command line".into(),
                position: None,
                key: Some("--server".into()),
                problem: format!("unknown server {name:?}; {hint}"),
            });
        }
        for (other, server) in &mut self.mcp_servers {
            server.disabled |= other != name;
        }
        self.tools.diagrams = false;
        self.tools.artifacts = false;
        self.knowledge.enabled = false;
        Ok(())
    }

    /// Switches the capture of answers off for every server.
    fn without_capture(&mut self) {
        for server in self.mcp_servers.values_mut() {
            server.capture = Capture::Switch(false);
            for tool in server.tools.values_mut() {
                tool.capture = Capture::Switch(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVERS: &str = "[mcp_servers.files]\ncommand = 'x'\ntools.read.capture = true\n\
        [mcp_servers.web]\ncommand = 'x'\nprefix = 'files__web'\n[mcp_servers.off]\ncommand = 'x'\ndisabled = true\n";

    fn enabled(config: &Config) -> Vec<&str> {
        let servers = config.mcp_servers.iter().filter(|(_, server)| !server.disabled);
        servers.map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn servers_that_may_have_a_tool_stay() {
        for (tool, want) in [
            ("files__read", &["files"][..]),
            ("files__web__get", &["files", "web"]),
            ("off__x", &[]),
            ("encode", &[]),
            ("unknown", &["files", "web"]),
        ] {
            let mut config = Config::from_toml(SERVERS, "t").unwrap();
            config.keep_for_call(tool, &["encode"], false);
            assert_eq!(enabled(&config), want, "{tool}");
        }
        let text = format!("{SERVERS}[mcp_servers.bare]\ncommand = 'x'\nprefix = ''\n");
        let mut config = Config::from_toml(&text, "t").unwrap();
        config.keep_for_call("files__read", &[], false);
        assert_eq!(enabled(&config), ["files", "bare"]);
    }

    #[test]
    fn one_server_stays() {
        let mut config = Config::from_toml(SERVERS, "t").unwrap();
        config.keep_only_server(None).unwrap();
        assert_eq!(enabled(&config), ["files", "web"]);
        let error = config.keep_only_server(Some("wb")).unwrap_err().to_string();
        assert!(error.contains("unknown server \"wb\"; did you mean \"web\"?"), "{error}");
        config.keep_only_server(Some("web")).unwrap();
        assert_eq!(enabled(&config), ["web"]);
        assert!(!config.knowledge.enabled && !config.tools.artifacts);
    }

    #[test]
    fn no_answer_is_captured() {
        let mut config = Config::from_toml(SERVERS, "t").unwrap();
        config.keep_for_call("files__read", &[], true);
        let options = config.gateway_options(&[]);
        assert!(options.upstreams.iter().all(|upstream| upstream.capture.of("read").is_none()));
    }
}
