//! The resources that one client wants to hear of.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_protocol_wire::RpcError;

/// The resources that one session, or one `subscriptions/listen`, is subscribed to. When it is dropped, each of them is
/// unsubscribed from.
pub(super) struct Subscriptions {
    /// None in tests alone.
    unsubscribe: Option<Arc<Unsubscribe>>,
    uris: Mutex<HashSet<String>>,
    most: usize,
}

/// Tells the handler that a client no longer wants to hear of a resource.
pub(super) type Unsubscribe = dyn Fn(String) -> Unsubscribing + Send + Sync;
pub(super) type Unsubscribing = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Subscriptions {
    pub(super) fn new(unsubscribe: Arc<Unsubscribe>, most: usize) -> Arc<Self> {
        Arc::new(Self { unsubscribe: Some(unsubscribe), uris: Mutex::default(), most })
    }

    #[cfg(test)]
    pub(super) fn none() -> Arc<Self> {
        Arc::new(Self { unsubscribe: None, uris: Mutex::default(), most: 0 })
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    /// Adds a resource once `subscribe`, which tells the handler, has succeeded; it is dropped if it is not needed.
    ///
    /// # Errors
    /// The handler's own error; the limit, when there are too many.
    pub(super) async fn add(
        &self,
        uri: &str,
        subscribe: impl Future<Output = Result<(), RpcError>>,
    ) -> Result<(), RpcError> {
        let Some(unsubscribe) = &self.unsubscribe else { return Ok(()) };
        {
            let uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
            if uris.contains(uri) {
                return Ok(());
            }
            if uris.len() >= self.most {
                let message = format!("more than {} resources are subscribed to", self.most);
                return Err(RpcError::limit_exceeded(message));
            }
        }
        subscribe.await?;
        let is_new =
            self.uris.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        if !is_new {
            // Asked for twice at once: the handler counts, and will be told of the end once.
            unsubscribe(uri.to_owned()).await;
        }
        Ok(())
    }

    /// One that is not there is no error.
    pub(super) async fn remove(&self, uri: &str) {
        let was_there = self.uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
        if let (true, Some(unsubscribe)) = (was_there, &self.unsubscribe) {
            unsubscribe(uri.to_owned()).await;
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let uris = std::mem::take(self.uris.get_mut().unwrap_or_else(PoisonError::into_inner));
        let (Some(unsubscribe), false) = (self.unsubscribe.take(), uris.is_empty()) else { return };
        // Without a runtime there is no client left to tell.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for uri in uris {
                    unsubscribe(uri).await;
                }
            });
        }
    }
}
