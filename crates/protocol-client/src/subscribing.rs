//! Subscriptions to single resources, in both eras.

use std::{collections::BTreeSet, time::Duration};

use marquetry_protocol_wire::{Era, RequestId, RpcError, types::meta_key};
use serde::Deserialize;
use serde_json::{json, value::to_raw_value};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::DropGuard;

use super::{CallOptions, Client, ClientError, ProtocolError, ServerNotification};

/// Subscribed resources of a stateless server, and the stream with their updates.
#[derive(Default)]
pub(super) struct Watched {
    uris: BTreeSet<String>,
    /// Ends the stream when dropped.
    stream: Option<DropGuard>,
}

impl Client {
    /// Subscribes to the resource `uri`: its updates arrive as `notifications/resources/updated`
    /// among [`Self::notifications`].
    ///
    /// In a session this is `resources/subscribe`. A stateless server gets one
    /// `subscriptions/listen` for all resources; each change opens a new one before the old one
    /// ends.
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does; "resource not found" if a stateless server does
    /// not accept it.
    pub async fn subscribe(&self, uri: &str) -> Result<(), ClientError> {
        if self.inner.server.revision.era() == Era::Session {
            return self.about("resources/subscribe", uri).await;
        }
        let mut watched = self.inner.watched.lock().await;
        if watched.uris.contains(uri) {
            return Ok(());
        }
        let mut uris = watched.uris.clone();
        uris.insert(uri.to_owned());
        let stream = self.listen_to(&uris, Some(uri)).await?;
        *watched = Watched { uris, stream: Some(stream) };
        Ok(())
    }

    /// Ends a subscription; without one it does nothing.
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), ClientError> {
        if self.inner.server.revision.era() == Era::Session {
            return self.about("resources/unsubscribe", uri).await;
        }
        let mut watched = self.inner.watched.lock().await;
        if !watched.uris.remove(uri) {
            return Ok(());
        }
        let uris = watched.uris.clone();
        watched.stream =
            if uris.is_empty() { None } else { Some(self.listen_to(&uris, None).await?) };
        Ok(())
    }

    async fn about(&self, method: &str, uri: &str) -> Result<(), ClientError> {
        let params = to_raw_value(&json!({ "uri": uri })).map_err(ClientError::params)?;
        self.request(method, Some(&params), CallOptions::default()).await.map(drop)
    }

    /// Opens a stream and waits until the server has accepted it, including `wanted`.
    async fn listen_to(
        &self,
        uris: &BTreeSet<String>,
        wanted: Option<&str>,
    ) -> Result<DropGuard, ClientError> {
        const PATIENCE: Duration = Duration::from_secs(10);
        let params = to_raw_value(&json!({ "notifications": { "resourceSubscriptions": uris } }))
            .map_err(ClientError::params)?;
        let notifications = self.notifications();
        let inner = &self.inner;
        let (id, stream) = inner.link.open_stream(&inner.server, &inner.options, &params).await?;
        let accepted = tokio::time::timeout(PATIENCE, accepted_resources(notifications, &id))
            .await
            .map_err(|_| ClientError::Timeout(PATIENCE))?
            .ok_or(ProtocolError::NoNotificationStream)?;
        match wanted {
            Some(uri) if !accepted.iter().any(|accepted| accepted == uri) => {
                Err(ClientError::Rpc(RpcError::resource_not_found(uri)))
            }
            _ => Ok(stream),
        }
    }
}

/// Returns the resources that the server has accepted on the stream `id`.
async fn accepted_resources(
    mut notifications: broadcast::Receiver<ServerNotification>,
    id: &RequestId,
) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Acknowledged {
        #[serde(rename = "_meta", default)]
        meta: marquetry_protocol_wire::types::JsonObject,
        #[serde(default)]
        notifications: Agreed,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Agreed {
        resource_subscriptions: Vec<String>,
    }
    loop {
        let notification = match notifications.recv().await {
            Ok(notification) => notification,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return None,
        };
        if &*notification.method != "notifications/subscriptions/acknowledged" {
            continue;
        }
        let params = notification.params.as_ref();
        let Some(Ok(found)) =
            params.map(|params| serde_json::from_str::<Acknowledged>(params.get()))
        else {
            continue;
        };
        if found.meta.get(meta_key::SUBSCRIPTION_ID) == Some(&json!(id)) {
            return Some(found.notifications.resource_subscriptions);
        }
    }
}
