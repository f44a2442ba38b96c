//! Negotiates a revision that both client and server speak.

use std::pin::pin;

use marquetry_protocol_wire::{
    DEFAULT_MAX_NESTING, Era, Revision, RpcError, UnknownRevision, error_code,
    types::{
        DiscoverResult, Implementation, InitializeParams, InitializeResult, ServerCapabilities,
        meta_key,
    },
    with_finite_numbers, without_deep_values,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    error::ClientError,
    options::{ClientOptions, RevisionChoice, ServerPeer},
    request::Link,
    shared::RequestState,
};

/// Introduces this client: with `server/discover`, or with `initialize` if the server does not know
/// that method.
pub(super) async fn introduce(
    link: &Link,
    options: &ClientOptions,
) -> Result<ServerPeer, ClientError> {
    let limit = options.connect_timeout;
    let introduction = async {
        match options.revision {
            RevisionChoice::Only(revision) if revision.era() == Era::Stateless => {
                discover(link, options, revision)
                    .await?
                    .ok_or_else(|| ClientError::Revision(revision.to_string()))
            }
            RevisionChoice::Only(revision) => initialize(link, options, revision).await,
            RevisionChoice::Session => initialize(link, options, Revision::LATEST_SESSION).await,
            // Boxed, since it would make all futures that connect three times as large.
            RevisionChoice::Auto => Box::pin(negotiate(link, options)).await,
        }
    };
    tokio::time::timeout(limit, introduction)
        .await
        .unwrap_or_else(|_| Err(ClientError::Timeout(limit)))
}

/// Determines the era of the server.
///
/// A server that is still starting (`uvx` and `npx` download it first) is as silent as one that
/// ignores `server/discover`. Therefore `initialize` is sent as well after
/// [`ClientOptions::probe_timeout`], and the answer to either is used. A stateless server refuses
/// `initialize`, but it has answered `server/discover` before.
async fn negotiate(link: &Link, options: &ClientOptions) -> Result<ServerPeer, ClientError> {
    let mut discovery = pin!(discover_any(link, options));
    match tokio::time::timeout(options.probe_timeout, &mut discovery).await {
        Ok(Ok(Some(server))) => return Ok(server),
        Ok(Ok(None)) => return initialize(link, options, Revision::LATEST_SESSION).await,
        Ok(Err(error)) => return Err(error),
        Err(_) => {}
    }
    let mut initialization = pin!(initialize(link, options, Revision::LATEST_SESSION));
    tokio::select! {
        biased;
        discovered = &mut discovery => match discovered? {
            Some(server) => Ok(server),
            None => initialization.await,
        },
        initialized = &mut initialization => match initialized {
            // The server is running now, so its answer to the earlier request will come.
            Err(refusal @ (ClientError::Rpc(_) | ClientError::Http { .. })) => {
                match tokio::time::timeout(options.probe_timeout, discovery).await {
                    Ok(Ok(Some(server))) => Ok(server),
                    _ => Err(refusal),
                }
            }
            initialized => initialized,
        },
    }
}

/// Discovers the newest revision. Returns [`None`] also after failures that do not tell the era:
/// some servers of the session era close the connection at an unknown method, or refuse any request
/// outside of a session as unauthorized. If there is another cause, `initialize` fails as well.
async fn discover_any(
    link: &Link,
    options: &ClientOptions,
) -> Result<Option<ServerPeer>, ClientError> {
    match discover(link, options, Revision::LATEST).await {
        Err(ClientError::Io { .. }) => Ok(None),
        #[cfg(feature = "http")]
        Err(ClientError::Unauthorized(refusal)) if refusal.challenges.is_empty() => Ok(None),
        outcome => outcome,
    }
}

/// Returns [`None`] if the server is not of the stateless era: its answer is anything but a result
/// (2026-07-28, "Backward Compatibility"). Waits as long as the server does not answer.
async fn discover(
    link: &Link,
    options: &ClientOptions,
    revision: Revision,
) -> Result<Option<ServerPeer>, ClientError> {
    match discover_once(link, options, revision).await {
        // A server that names its revisions is asked again with one of them, once ("Protocol
        // Version Negotiation").
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

/// Returns the newest stateless revision that both the refusal names and the client speaks.
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
    let own = RequestState::default();
    let request = link.request(&unknown, options, "server/discover", None, &own);
    let result = match request.await {
        Ok(result) => result,
        Err(error @ ClientError::Rpc(RpcError { code: error_code::UNSUPPORTED_VERSION, .. })) => {
            return Err(error);
        }
        // Servers of the session era answer an unknown method with any status, or with an empty
        // body.
        Err(ClientError::Rpc(_) | ClientError::Http { .. } | ClientError::Protocol(_)) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let Ok(found) = parse::<DiscoverResult>(&result) else { return Ok(None) };
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
    let params = to_raw_value(&InitializeParams {
        protocol_version: revision.to_string(),
        capabilities: options.capabilities.clone(),
        client_info: options.implementation.clone(),
    })
    .map_err(|error| ClientError::result("initialize", error))?;
    let mut server = ServerPeer {
        revision,
        info: Implementation::default(),
        capabilities: ServerCapabilities::default(),
        instructions: None,
    };
    let own = RequestState::default();
    let request = link.request(&server, options, "initialize", Some(&params), &own);
    let result = request.await?;
    let found: InitializeResult =
        parse(&result).map_err(|error| ClientError::result("initialize", error))?;
    server.revision = match revision_named(&found, revision, options) {
        Ok(agreed) if agreed == revision => agreed,
        Ok(agreed)
            if matches!(options.revision, RevisionChoice::Auto | RevisionChoice::Session)
                && agreed.era() == Era::Session =>
        {
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
    link.notify(&server, "notifications/initialized", None).await?;
    Ok(server)
}

/// Returns the revision that a server names in its answer to `initialize`. A server that names none
/// speaks the oldest one that is in use, of which all later ones are extensions: handwritten
/// servers leave it out.
fn revision_named(
    found: &InitializeResult,
    asked: Revision,
    options: &ClientOptions,
) -> Result<Revision, UnknownRevision> {
    let named = found.protocol_version.trim();
    if !named.is_empty() {
        return named.parse();
    }
    let assumed = match options.revision {
        RevisionChoice::Auto | RevisionChoice::Session => Revision::V2024_11_05,
        RevisionChoice::Only(_) => asked,
    };
    tracing::warn!(
        assumed = assumed.as_str(),
        "the server's answer to initialize lacks a valid protocolVersion"
    );
    Ok(assumed)
}

/// Parses what a server says of itself. A number that is too large, or a value that is nested too
/// deep, somewhere in its capabilities does not hide the server; the last of repeated members
/// counts.
fn parse<T: DeserializeOwned>(result: &RawValue) -> serde_json::Result<T> {
    let shallow = without_deep_values(result.get(), DEFAULT_MAX_NESTING);
    let json = shallow.as_deref().unwrap_or(result.get());
    let value: Value =
        serde_json::from_str(json).or_else(|error| match with_finite_numbers(json) {
            Some(finite) => serde_json::from_str(&finite),
            None => Err(error),
        })?;
    T::deserialize(value)
}
