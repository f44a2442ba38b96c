//! The resources that one client is subscribed to.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use marquetry_protocol_wire::RpcError;

use crate::conversation_id::ConversationId;

/// The resources that one session, or one `subscriptions/listen`, is subscribed to. Dropping it
/// unsubscribes from all of them.
pub(super) struct Subscriptions {
    /// [`None`] only in tests.
    handler: Option<Box<dyn Unsubscribe>>,
    /// The client, as in the requests that subscribe.
    client: ConversationId,
    uris: Mutex<HashSet<String>>,
    max: usize,
}

/// Ends subscriptions at their handler.
#[async_trait]
pub(super) trait Unsubscribe: Send + Sync {
    async fn unsubscribe(&self, uri: &str, client: ConversationId);
}

impl Subscriptions {
    pub(super) fn new(
        handler: impl Unsubscribe + 'static,
        client: ConversationId,
        max: usize,
    ) -> Arc<Self> {
        let handler: Box<dyn Unsubscribe> = Box::new(handler);
        Arc::new(Self { handler: Some(handler), client, uris: Mutex::default(), max })
    }

    #[cfg(test)]
    pub(super) fn of(uris: &[&str]) -> Arc<Self> {
        let client = ConversationId::next();
        let uris = uris.iter().map(|&uri| uri.to_owned()).collect();
        Arc::new(Self { handler: None, client, uris: Mutex::new(uris), max: 0 })
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    /// Notifies the handler with `subscribe`, and adds the resource if that succeeds. `subscribe`
    /// is dropped if it is not needed.
    ///
    /// # Errors
    /// Returns an error if the handler fails, or the limit is exceeded.
    pub(super) async fn add(
        &self,
        uri: &str,
        subscribe: impl Future<Output = Result<(), RpcError>>,
    ) -> Result<(), RpcError> {
        let Some(handler) = &self.handler else { return Ok(()) };
        {
            let uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
            if uris.contains(uri) {
                return Ok(());
            }
            if uris.len() >= self.max {
                let message = format!("{} subscriptions are open (max_subscriptions)", self.max);
                return Err(RpcError::limit_exceeded(message));
            }
        }
        subscribe.await?;
        let is_new =
            self.uris.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        if !is_new {
            // Two concurrent subscriptions to the same resource: the handler gets two starts, so it
            // must get one end now.
            handler.unsubscribe(uri, self.client).await;
        }
        Ok(())
    }

    /// Removes a resource; unknown ones are ignored.
    pub(super) async fn remove(&self, uri: &str) {
        let was_there = self.uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
        let Some(handler) = self.handler.as_ref().filter(|_| was_there) else { return };
        handler.unsubscribe(uri, self.client).await;
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let uris = std::mem::take(self.uris.get_mut().unwrap_or_else(PoisonError::into_inner));
        let Some(handler) = self.handler.take() else { return };
        let client = self.client;
        if uris.is_empty() {
            return;
        }
        // Without a runtime no client is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for uri in uris {
                    handler.unsubscribe(&uri, client).await;
                }
            });
        }
    }
}
