//! Converts the configuration into the gateway's options.

use std::{path::PathBuf, sync::Arc, time::Duration};

use marquetry_artifacts::settings::CaptureLevel;
use marquetry_gateway::{GatewayLimits, GatewayOptions, HttpAccess, ToolCapture, UpstreamOptions};
use marquetry_policy::{Policy, Rule};
use marquetry_protocol::{
    client::{AuthorizationError, Authorizer, ClientError, Network},
    types::Root,
};

use crate::{
    Config, Transport,
    apps::Gating,
    gateway::GatewayConfig,
    limits::Limits,
    login::{LoginConfig, LoginGrant},
    tool_overrides::overrides,
    upstream::UpstreamConfig,
};

impl Config {
    /// Returns the options of the gateway to the configured upstreams. `reserved_tools` are the
    /// names of our own tools.
    pub fn gateway_options(&self, reserved_tools: &[&str]) -> GatewayOptions {
        let gateway = &self.gateway;
        let mut options = GatewayOptions::default();
        options.upstreams = self
            .mcp_servers
            .iter()
            .map(|(name, upstream)| self.upstream_options(name, upstream))
            .collect();
        options.reserved_tools = reserved_tools.iter().map(|&name| name.to_owned()).collect();
        options.list_wait = Duration::from_millis(gateway.list_wait_ms);
        options.list_refetch = Duration::from_millis(gateway.list_refetch_ms);
        options.ping_timeout = Duration::from_millis(gateway.ping_timeout_ms);
        options.restart_delay = Duration::from_millis(gateway.restart_delay_ms);
        options.restart_max_delay = Duration::from_millis(gateway.restart_max_delay_ms);
        options.restart_max_failures = gateway.restart_max_failures;
        options.stop_grace = Duration::from_millis(gateway.stop_grace_ms);
        options.pass_env.clone_from(&gateway.pass_env);
        options.secret_variables = self.auth.variables().map(str::to_owned).collect();
        options.guard.clone_from(&gateway.guard);
        options.assumes_views = self.apps.gating == Gating::Always;
        // An upstream may write the data of one caller to its stderr, where the other callers would
        // read it.
        options.shows_stderr = !self.auth.is_set();
        options.tool_cache = gateway.tool_cache_directory.clone().filter(|_| gateway.tool_cache);
        options.serves_one_user = !self.auth.is_set();
        // A policy that cannot be used must not leave everything open.
        options.policy = self.access_policy().unwrap_or_else(|_| Policy::new([Rule::new()]));
        options.pins_file.clone_from(&gateway.pins_file);
        options.limits = gateway_limits(&self.limits);
        options
    }

    fn upstream_options(&self, name: &str, upstream: &UpstreamConfig) -> UpstreamOptions {
        let gateway = &self.gateway;
        let access = ConfiguredAccess {
            upstream: name.to_owned(),
            url: upstream.transport.url().unwrap_or_default().to_owned(),
            login: upstream.auth.clone(),
            credentials: gateway.credentials_directory.clone(),
            gateway: gateway.clone(),
        };
        let transport = upstream_transport(&upstream.transport, access);
        let mut options = UpstreamOptions::new(name, transport);
        options.is_disabled = upstream.disabled;
        options.inherit_env = upstream.inherit_env;
        options.prefix = upstream.prefix.as_ref().map(|prefix| prefix.as_str().to_owned());
        gateway.separator.as_str().clone_into(&mut options.separator);
        options.capture = self.tool_capture(name, upstream);
        options.filter = upstream.filter.clone();
        let disabled = upstream.tools.iter().filter(|(_, tool)| tool.disabled);
        options.filter.disabled.extend(disabled.map(|(name, _)| name.clone()));
        options.overrides = overrides(&upstream.tools);
        options.pins = self.pin_mode(upstream);
        options.revision = upstream.revision;
        let start = upstream.start_timeout_ms.unwrap_or(gateway.start_timeout_ms);
        options.start_timeout = Duration::from_millis(start.get());
        options.call_timeout = match upstream.call_timeout_ms.unwrap_or(gateway.call_timeout_ms) {
            0 => Duration::MAX,
            limited => Duration::from_millis(limited),
        };
        options.max_calls_per_minute = upstream.max_calls_per_minute;
        options.longest_call = Duration::from_millis(gateway.max_call_ms);
        options.isolation = upstream.isolation.into();
        options.max_instances = upstream.max_instances.get();
        options.instance_idle = Duration::from_millis(upstream.instance_idle_ms.get());
        options.roots = upstream.roots.as_ref().map(|roots| {
            roots.iter().map(|root| Root { uri: root.uri().to_owned(), name: None }).collect()
        });
        options
    }

    /// Returns the capture settings of a server's tools: those of `[artifacts]`, overridden by the
    /// first policy that matches, by `capture` of the server, and by `capture` of the tool.
    fn tool_capture(&self, server: &str, upstream: &UpstreamConfig) -> ToolCapture {
        let base = CaptureLevel::server(self.artifacts.settings());
        let policies = &self.artifacts.policies;
        let mut capture = ToolCapture::new(upstream.capture.resolve(&base).settings());
        for policy in policies.iter().filter(|policy| policy.server.matches(server)) {
            let level = upstream.capture.resolve(&policy.capture.resolve(&base));
            capture = capture.with_pattern(policy.tool.clone(), level.settings());
        }
        for (tool, config) in &upstream.tools {
            let policy = policies.iter().find(|policy| policy.matches(server, tool));
            let of_policy = policy.map_or(base.clone(), |policy| policy.capture.resolve(&base));
            let level = config.capture.resolve(&upstream.capture.resolve(&of_policy));
            capture = capture.with_tool(tool, level.settings());
        }
        capture
    }
}

/// Returns the transport of an upstream. A URL is reached through `access`.
fn upstream_transport(
    transport: &Transport,
    access: ConfiguredAccess,
) -> marquetry_gateway::Transport {
    use marquetry_gateway::Transport as GatewayTransport;
    match transport {
        Transport::Stdio { command, args, env, cwd } => GatewayTransport::Stdio {
            command: command.clone(),
            args: args.clone(),
            env: env.clone(),
            cwd: cwd.clone(),
        },
        Transport::Http { url, headers, .. } => GatewayTransport::Http {
            url: url.clone(),
            headers: headers.clone(),
            access: Arc::new(access),
        },
        Transport::Unusable { problem, .. } => {
            GatewayTransport::Unusable { problem: problem.clone() }
        }
        Transport::NotGiven => {
            let problem = "it has neither a command nor a URL".to_owned();
            GatewayTransport::Unusable { problem }
        }
    }
}

fn gateway_limits(limits: &Limits) -> GatewayLimits {
    let mut gateway = GatewayLimits::default();
    gateway.max_in_flight_per_upstream = limits.max_in_flight_per_upstream.get();
    gateway.max_in_flight_per_caller = limits.max_in_flight_per_caller.get();
    gateway.max_in_flight_total = limits.max_in_flight_total.get();
    gateway.queue_time = Duration::from_millis(limits.queue_ms);
    gateway.question_time = Duration::from_millis(limits.question_ms.get());
    gateway.max_questions_per_call = limits.max_questions_per_call.get();
    gateway.max_parked_calls = limits.max_parked_calls.get();
    gateway.max_parked_calls_per_caller = limits.max_parked_calls_per_caller.get();
    gateway.max_waiting_requests = limits.max_waiting_requests.get();
    gateway.max_waiting_requests_per_caller = limits.max_waiting_requests_per_caller.get();
    gateway.max_url_elicitations = limits.max_url_elicitations.get();
    gateway.max_resource_routes = limits.max_resource_routes.get();
    gateway.max_resource_routes_per_agent = limits.max_resource_routes_per_agent.get();
    gateway.max_upstream_message_bytes = limits.max_upstream_message_bytes.get();
    gateway.max_upstream_list = limits.max_upstream_list.get();
    gateway.max_log_lines_per_second = limits.max_log_lines_per_second.get();
    gateway
}

/// Access to an upstream over HTTP, as set in `[gateway]` and in the upstream's `auth`.
struct ConfiguredAccess {
    upstream: String,
    url: String,
    login: Option<LoginConfig>,
    /// Directory in which tokens are stored.
    credentials: Option<PathBuf>,
    gateway: GatewayConfig,
}

impl HttpAccess for ConfiguredAccess {
    fn network(&self) -> Result<Network, AuthorizationError> {
        self.gateway.network()
    }

    fn authorizer(
        &self,
        network: &Network,
    ) -> Result<Option<Arc<dyn Authorizer>>, AuthorizationError> {
        let Some(login) = &self.login else { return Ok(None) };
        let oauth = login.authorizer(&self.url, self.credentials.as_deref(), None, network)?;
        Ok(Some(Arc::new(oauth)))
    }

    fn is_always_the_same_caller(&self) -> bool {
        // Another person may have logged in.
        self.login.is_none()
    }

    fn identity(&self) -> String {
        let Self { upstream: _, url: _, login, credentials, gateway } = self;
        let GatewayConfig { proxy, no_proxy, ca_file, .. } = gateway;
        format!("{login:?} {credentials:?} {proxy:?} {no_proxy:?} {ca_file:?}")
    }

    fn advice(&self, error: &ClientError) -> Option<String> {
        let name = &self.upstream;
        let login = self.login.as_ref();
        match error {
            ClientError::Authorization(AuthorizationError::LoginRequired { .. }) => {
                Some(format!("log in with `marquetry login {name}`"))
            }
            ClientError::Unauthorized(_) if login.is_none() => {
                Some(format!("log in with `marquetry login {name}`"))
            }
            // The authorization server may be refusing for a moment, or for good: it has revoked
            // the refresh token, or has deleted the client's registration, which is then renewed.
            ClientError::Authorization(AuthorizationError::Denied { .. })
                if login.is_some_and(|login| login.grant == LoginGrant::Person) =>
            {
                Some(format!("if the error persists, log in with `marquetry login {name}`"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use marquetry_gateway::Isolation;

    use super::*;

    #[test]
    fn defaults_match_the_gateway() {
        assert_eq!(gateway_limits(&Limits::default()), GatewayLimits::default());
        let text = "mcp_servers.a.command = 'x'";
        let config = Config::from_toml(text, "test").unwrap().gateway_options(&["t"]);
        let default = GatewayOptions::default();
        assert_eq!(config.reserved_tools, ["t"]);
        for (ours, theirs) in [
            (config.list_refetch, default.list_refetch),
            (config.ping_timeout, default.ping_timeout),
            (config.restart_delay, default.restart_delay),
            (config.restart_max_delay, default.restart_max_delay),
            (config.stop_grace, default.stop_grace),
        ] {
            assert_eq!(ours, theirs);
        }
        let new = UpstreamOptions::new("a", marquetry_gateway::Transport::http("http://h"));
        let upstream = &config.upstreams[0];
        assert_eq!(
            (upstream.start_timeout, upstream.call_timeout, &upstream.separator),
            (new.start_timeout, new.call_timeout, &new.separator)
        );
        assert_eq!(
            (upstream.isolation, upstream.max_instances, upstream.instance_idle),
            (new.isolation, new.max_instances, new.instance_idle)
        );
    }

    #[test]
    fn capture_settings_of_tools_override_those_of_their_upstream() {
        let text = "[mcp_servers.a]\ncommand = 'x'\ncapture = false\n\
                    tools.captured.capture.mcp_tool_llm_return_max_bytes = 9\ntools.raw.capture = false";
        let config = Config::from_toml(text, "test").unwrap().gateway_options(&[]);
        let capture = &config.upstreams[0].capture;
        assert_eq!(capture.default, None);
        assert_eq!(capture.tools["captured"].as_ref().unwrap().mcp_tool_llm_return_max_bytes, 9);
        assert_eq!(capture.tools["raw"], None);
    }

    #[test]
    fn an_isolated_server_may_name_its_instance() {
        let text = "[mcp_servers.a]\ncommand = 'x'\nenv.FILE = '/srv/${instance:id}'\n\
                    isolation = 'session'\nmax_instances = 3\ninstance_idle_ms = 5";
        let config = Config::from_toml(text, "test").unwrap();
        config.check().unwrap();
        let options = config.gateway_options(&[]);
        let upstream = &options.upstreams[0];
        assert_eq!((upstream.isolation, upstream.max_instances), (Isolation::Session, 3));
        assert_eq!(upstream.instance_idle, Duration::from_millis(5));
        let marquetry_gateway::Transport::Stdio { env, .. } = &upstream.transport else { panic!() };
        assert_eq!(env["FILE"], "/srv/${instance:id}", "the gateway replaces it");

        let file = r#"{"mcpServers":{"b":{"url":"http://h/${instance:id}","headers":{"X":"${instance:id}"}}}}"#;
        let mut config = Config::from_toml("mcp_servers.b.isolation = 'principal'", "t").unwrap();
        config.add_mcp_json(file, "mcp.json").unwrap();
        config.check().unwrap();
        let options = config.gateway_options(&[]);
        let marquetry_gateway::Transport::Http { url, .. } = &options.upstreams[0].transport else {
            panic!("{:?}", options.upstreams[0])
        };
        assert_eq!(url, "http://h/${instance:id}");

        let shared = text.replace("'session'", "'shared'");
        let error = Config::from_toml(&shared, "test").unwrap().check().unwrap_err().to_string();
        assert!(error.contains("mcp_servers.a.isolation"), "{error}");
        assert!(error.contains("\"principal\" or \"session\""), "{error}");
    }

    #[test]
    fn roots_are_absolute_paths_or_uris() {
        let text = "[mcp_servers.a]\ncommand = 'x'\nroots = ['/srv/my shop', 'file:///b']";
        let options = Config::from_toml(text, "test").unwrap().gateway_options(&[]);
        let roots = options.upstreams[0].roots.as_ref().unwrap();
        let uris: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
        assert_eq!(uris, ["file:///srv/my%20shop", "file:///b"]);
        let text = "mcp_servers.a = { command = 'x', roots = ['shop'] }";
        let error = Config::from_toml(text, "test").unwrap_err().to_string();
        assert!(error.contains("\"shop\" is not a root"), "{error}");
    }

    #[test]
    fn a_refused_person_is_advised_to_log_in() {
        let denied = ClientError::Authorization(AuthorizationError::Denied {
            error: "invalid_client".to_owned(),
            description: String::new(),
        });
        let mut access = ConfiguredAccess {
            upstream: "files".to_owned(),
            url: "http://h".to_owned(),
            login: Some(LoginConfig::default()),
            credentials: None,
            gateway: GatewayConfig::default(),
        };
        let advice = access.advice(&denied).unwrap();
        assert!(advice.contains("marquetry login files"), "{advice}");
        access.login.as_mut().unwrap().grant = LoginGrant::ClientCredentials;
        assert_eq!(access.advice(&denied), None, "no person can log in");
    }
}
