//! The resources that one client wants to hear of.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Handler, RequestContext};
use crate::RpcError;

/// What one session, or one `subscriptions/listen`, is subscribed to. When it goes, the handler is told for each.
pub(super) struct Subscriptions {
    handler: Option<Arc<dyn Handler>>,
    uris: Mutex<HashSet<String>>,
    most: usize,
}

impl Subscriptions {
    pub(super) fn new(handler: Arc<dyn Handler>, most: usize) -> Arc<Self> {
        Arc::new(Self { handler: Some(handler), uris: Mutex::default(), most })
    }

    #[cfg(test)]
    pub(super) fn none() -> Arc<Self> {
        Arc::new(Self { handler: None, uris: Mutex::default(), most: 0 })
    }

    pub(super) fn contains(&self, uri: &str) -> bool {
        self.uris.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }

    /// # Errors
    /// The handler's own error; the limit, when there are too many.
    pub(super) async fn add(&self, uri: &str, cx: &RequestContext) -> Result<(), RpcError> {
        let Some(handler) = &self.handler else { return Ok(()) };
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
        handler.subscribe(uri, cx).await?;
        let is_new =
            self.uris.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.to_owned());
        if !is_new {
            // Asked for twice at once: the handler counts, and will be told of the end once.
            handler.unsubscribe(uri).await;
        }
        Ok(())
    }

    /// One that is not there is no error.
    pub(super) async fn remove(&self, uri: &str) {
        let was_there = self.uris.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
        if let (true, Some(handler)) = (was_there, &self.handler) {
            handler.unsubscribe(uri).await;
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let uris = std::mem::take(self.uris.get_mut().unwrap_or_else(PoisonError::into_inner));
        let (Some(handler), false) = (self.handler.take(), uris.is_empty()) else { return };
        // Without a runtime there is nobody left to tell.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for uri in uris {
                    handler.unsubscribe(&uri).await;
                }
            });
        }
    }
}
