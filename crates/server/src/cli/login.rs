//! `marquetry login`

use std::{sync::Arc, time::Duration};

use marquetry_config::{Loaded, Transport};
use marquetry_oauth::client::{CredentialStore as _, DirectoryStore, LoopbackBrowser};
use marquetry_protocol::client::{Client, ClientOptions, HttpTarget};
use serde_json::json;
use tokio::net::TcpListener;

use super::{Failure, LoginArgs, print_message, serve::on_runtime};
use crate::logging;

pub(super) fn login(arguments: &LoginArgs) -> Result<(), Failure> {
    let Loaded { config, warnings, .. } = arguments.config.load()?;
    for warning in &warnings {
        logging::warn(warning);
    }
    let name = &arguments.server;
    let Some(upstream) = config.mcp_servers.get(name) else {
        let known: Vec<&str> = config.mcp_servers.keys().map(String::as_str).collect();
        let message = if known.is_empty() {
            format!("unknown server {name:?}; no server is configured")
        } else {
            format!("unknown server {name:?}; configured servers: {}", known.join(", "))
        };
        return Err(Failure { code: 2, message });
    };
    let Transport::Http { url, headers, .. } = &upstream.transport else {
        let message = format!("server {name:?} needs no login: it is not reached over HTTP");
        return Err(Failure { code: 2, message });
    };
    on_runtime(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Failure::new)?;
        let browser = LoopbackBrowser::new(listener, |page| {
            const REQUEST: &str = "Log in on this page, in a browser on this machine:";
            if logging::is_json() {
                logging::emit("INFO", REQUEST, &[("page", json!(page.to_string()))]);
            } else {
                eprintln!("{REQUEST}\n\n  {page}\n");
            }
        });
        let browser = Arc::new(browser.map_err(Failure::new)?);
        let directory = config.gateway.credentials_directory.clone();
        if let Some(directory) = directory.as_deref().filter(|_| arguments.forget) {
            DirectoryStore::new(directory).delete(url).await.map_err(Failure::new)?;
        }
        let auth = upstream.auth.clone().unwrap_or_default();
        let network = config.gateway.network().map_err(Failure::new)?;
        let authorizer = auth
            .authorizer(url, directory.as_deref(), Some(browser), &network)
            .map_err(Failure::new)?;
        let options = ClientOptions {
            authorizer: Some(Arc::new(authorizer)),
            network,
            connect_timeout: Duration::from_millis(config.gateway.start_timeout_ms.get()),
            ..ClientOptions::default()
        };
        let headers = headers.clone().into_iter().collect();
        let target = HttpTarget { url: url.clone(), headers };
        let client = Client::http(target, options).await.map_err(Failure::new)?;
        client.close().await;
        let hint = match upstream.auth {
            Some(_) => String::new(),
            None => {
                format!("; add `auth = {{}}` to [mcp_servers.{name}], so that the server uses it")
            }
        };
        print_message(&format!("logged in to {name}{hint}\n"))
    })
}
