//! `marquetry login`

use std::{sync::Arc, time::Duration};

use marquetry_config::{Loaded, Transport};
use marquetry_oauth::client::{CredentialStore as _, DirectoryStore, LoopbackBrowser, OAuth};
use marquetry_protocol::client::{Client, ClientError, ClientOptions, HttpTarget};
use serde_json::json;

use super::{Failure, LoginArgs, print_message, serve::on_runtime};
use marquetry_program_log as program_log;

pub(super) fn login(arguments: &LoginArgs) -> Result<(), Failure> {
    let Loaded { config, warnings, .. } = arguments.config.load()?;
    for warning in &warnings {
        program_log::warn(warning);
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
        let auth = upstream.auth.clone().unwrap_or_default();
        let redirect_uri = auth.redirect_uri.as_deref().unwrap_or("http://127.0.0.1/callback");
        let browser = LoopbackBrowser::bind(redirect_uri, show_page).await.map_err(Failure::new)?;
        let directory = config.gateway.credentials_directory.clone();
        if let Some(directory) = directory.as_deref().filter(|_| arguments.forget) {
            DirectoryStore::new(directory).delete(url).await.map_err(Failure::new)?;
        }
        let network = config.gateway.network().map_err(Failure::new)?;
        let authorizer = auth
            .authorizer(url, directory.as_deref(), Some(Arc::new(browser)), &network)
            .map_err(Failure::new)?;
        let options = ClientOptions {
            network,
            connect_timeout: Duration::from_millis(config.gateway.start_timeout_ms.get()),
            ..ClientOptions::default()
        };
        let target =
            HttpTarget { url: url.clone(), headers: headers.clone().into_iter().collect() };
        log_in(name, target, options, authorizer).await?;
        let hint = match upstream.auth {
            Some(_) => String::new(),
            None => {
                format!("; add `auth = {{}}` to [mcp_servers.{name}], so that the server uses it")
            }
        };
        print_message(&format!("logged in to {name}{hint}\n"))
    })
}

/// Logs in, and connects with the token.
async fn log_in(
    name: &str,
    target: HttpTarget,
    mut options: ClientOptions,
    authorizer: OAuth,
) -> Result<(), Failure> {
    // Some servers, such as Google's, connect everybody and ask for a token only at calls. Nothing
    // shows then whether a stored token is still accepted.
    match Client::http(target.clone(), options.clone()).await {
        Ok(client) => {
            client.close().await;
            if !authorizer.log_in().await.map_err(Failure::new)? {
                let message = format!(
                    "server {name:?} needs no login: it connects without a token, and names no \
                     authorization server"
                );
                return Err(Failure { code: 2, message });
            }
        }
        Err(ClientError::Unauthorized(_)) => {}
        Err(error) => return Err(Failure::new(error)),
    }
    options.authorizer = Some(Arc::new(authorizer));
    let client = Client::http(target, options).await.map_err(Failure::new)?;
    client.close().await;
    Ok(())
}

/// Shows a person the page to log in on.
fn show_page(page: &str) {
    const REQUEST: &str = "Log in on this page, in a browser on this machine:";
    if program_log::is_json() {
        program_log::emit("INFO", REQUEST, &[("page", json!(page))]);
    } else {
        eprintln!("{REQUEST}\n\n  {page}\n");
    }
}
