//! How client and server find a revision that both speak.

use serde::Deserialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{
    ClientError, ClientOptions, RevisionChoice, ServerPeer,
    link::{Link, Own},
};
use crate::{
    Era, Revision, RpcError, error_code,
    types::{
        DiscoverResult, Implementation, InitializeParams, InitializeResult, ServerCapabilities,
        meta_key,
    },
};

/// Introduces us: with `server/discover`, and where that is not understood with `initialize`.
pub(super) async fn introduce(
    link: &Link,
    options: &ClientOptions,
) -> Result<ServerPeer, ClientError> {
    match options.revision {
        RevisionChoice::Only(revision) if revision.era() == Era::Stateless => {
            discover(link, options, revision)
                .await?
                .ok_or_else(|| ClientError::Revision(revision.to_string()))
        }
        RevisionChoice::Only(revision) => initialize(link, options, revision).await,
        RevisionChoice::Auto => match discover(link, options, Revision::LATEST).await? {
            Some(server) => Ok(server),
            None => initialize(link, options, Revision::LATEST_SESSION).await,
        },
    }
}

/// None when the server is not of the stateless era: it knows no such method, refuses the request in some other way,
/// or says nothing (2026-07-28, "Backward Compatibility").
async fn discover(
    link: &Link,
    options: &ClientOptions,
    revision: Revision,
) -> Result<Option<ServerPeer>, ClientError> {
    match discover_once(link, options, revision).await {
        // One that names what it supports is asked again in those words, once ("Protocol Version Negotiation").
        Err(ClientError::Rpc(error)) if error.code == error_code::UNSUPPORTED_VERSION => {
            let Some(other) = stateless_of(&error) else {
                tracing::debug!(%error, "server is stateless, of a revision that we do not speak");
                return Ok(None);
            };
            if options.revision != RevisionChoice::Auto && other != revision {
                return Ok(None);
            }
            match discover_once(link, options, other).await {
                Err(ClientError::Rpc(_)) => Ok(None),
                outcome => outcome,
            }
        }
        outcome => outcome,
    }
}

/// The newest stateless revision that both the refusal names and we speak.
fn stateless_of(refusal: &RpcError) -> Option<Revision> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data: Data = serde_json::from_str(refusal.data.as_ref()?.get()).ok()?;
    let known = data.supported.iter().filter_map(|version| version.parse::<Revision>().ok());
    known.filter(|revision| revision.era() == Era::Stateless).max()
}

async fn discover_once(
    link: &Link,
    options: &ClientOptions,
    revision: Revision,
) -> Result<Option<ServerPeer>, ClientError> {
    let unknown = ServerPeer {
        revision,
        info: Implementation::default(),
        capabilities: ServerCapabilities::default(),
        instructions: None,
    };
    let own = Own::default();
    let request = link.request(&unknown, options, "server/discover", None, &own);
    let result = match tokio::time::timeout(options.probe_timeout, request).await {
        Ok(Ok(result)) => result,
        Ok(Err(
            error @ ClientError::Rpc(RpcError { code: error_code::UNSUPPORTED_VERSION, .. }),
        )) => {
            return Err(error);
        }
        Ok(Err(ClientError::Rpc(_) | ClientError::Http { status: 400..500, .. })) | Err(_) => {
            return Ok(None);
        }
        Ok(Err(error)) => return Err(error),
    };
    let Ok(found) = serde_json::from_str::<DiscoverResult>(result.get()) else { return Ok(None) };
    if !found.supported_versions.iter().any(|version| version == revision.as_str()) {
        return Ok(None);
    }
    let info = found
        .meta
        .get(meta_key::SERVER_INFO)
        .and_then(|info| Implementation::deserialize(info).ok());
    Ok(Some(ServerPeer {
        revision,
        info: info.unwrap_or_default(),
        capabilities: found.capabilities,
        instructions: found.instructions,
    }))
}

async fn initialize(
    link: &Link,
    options: &ClientOptions,
    revision: Revision,
) -> Result<ServerPeer, ClientError> {
    let protocol = |error: serde_json::Error| {
        ClientError::Protocol(format!("answer to 'initialize': {error}"))
    };
    let params = to_raw_value(&InitializeParams {
        protocol_version: revision.to_string(),
        capabilities: options.capabilities.clone(),
        client_info: options.implementation.clone(),
    })
    .map_err(protocol)?;
    let mut server = ServerPeer {
        revision,
        info: Implementation::default(),
        capabilities: ServerCapabilities::default(),
        instructions: None,
    };
    let own = Own::default();
    let request = link.request(&server, options, "initialize", Some(&params), &own);
    let result = tokio::time::timeout(options.connect_timeout, request)
        .await
        .map_err(|_| ClientError::Timeout(options.connect_timeout))??;
    let found: InitializeResult = serde_json::from_str(result.get()).map_err(protocol)?;
    server.revision = match found.protocol_version.parse::<Revision>() {
        Ok(agreed) if agreed == revision => agreed,
        Ok(agreed) if options.revision == RevisionChoice::Auto && agreed.era() == Era::Session => {
            agreed
        }
        _ => {
            return Err(ClientError::Revision(format!(
                "{revision}, but {}",
                found.protocol_version
            )));
        }
    };
    server.info = found.server_info;
    server.capabilities = found.capabilities;
    server.instructions = found.instructions;
    let told = link.notify(&server, "notifications/initialized", None);
    tokio::time::timeout(options.connect_timeout, told)
        .await
        .map_err(|_| ClientError::Timeout(options.connect_timeout))??;
    Ok(server)
}

/// What to ask `subscriptions/listen` for: every announcement that the server promises. None when it promises none.
pub(super) fn listen_params(capabilities: &ServerCapabilities) -> Option<Box<RawValue>> {
    let tools = capabilities.tools.is_some_and(|tools| tools.list_changed);
    let prompts = capabilities.prompts.is_some_and(|prompts| prompts.list_changed);
    let resources = capabilities.resources.is_some_and(|resources| resources.list_changed);
    if !(tools || prompts || resources) {
        return None;
    }
    let wanted = json!({
        "toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resources,
    });
    to_raw_value(&json!({ "notifications": wanted })).ok()
}
