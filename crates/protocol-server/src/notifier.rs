//! Announcements of a server to all of its clients.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use marquetry_protocol_wire::{
    RequestId,
    envelope::write_notification,
    types::{JsonObject, meta_key},
};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::sync::Notify;

use super::{Principal, conversation_id::ConversationId, subscriptions::Subscriptions};

const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// Maximum bytes of the messages that wait for one client.
const MAX_QUEUED_BYTES: usize = 256 << 10;

/// Announces changes to all clients that listen: sessions, and `subscriptions/listen` of the
/// stateless era.
pub struct Notifier {
    listeners: Mutex<Vec<Weak<Listener>>>,
    max_queued: usize,
}

/// Is notified of changed lists or resources of a server, to announce them with a [`Notifier`];
/// `()` ignores them.
pub trait ChangeListener: Send + Sync + 'static {
    /// Announces that the list of tools has changed.
    fn tools_changed(&self);
    /// Announces that the list of prompts has changed.
    fn prompts_changed(&self);
    /// Announces that the list of resources or of resource templates has changed.
    fn resources_changed(&self);
    /// Announces that the list of prompts has changed for one principal; `None` means all clients
    /// without a token.
    fn prompts_changed_for(&self, principal: Option<&Principal>);
    /// Announces that the list of resources has changed for one principal; `None` means all clients
    /// without a token.
    fn resources_changed_for(&self, principal: Option<&Principal>);
    /// Announces that the resource `uri` has changed.
    fn resource_updated(&self, uri: &str);
    /// Announces to one principal that the resource `uri` has changed.
    fn resource_updated_for(&self, uri: &str, principal: Option<&Principal>);
    /// Announces to one client that the resource `uri` has changed. The request that subscribed had
    /// the same [`RequestContext::conversation`](super::RequestContext::conversation) `client`.
    fn resource_updated_in(&self, uri: &str, client: ConversationId);
}

impl ChangeListener for () {
    fn tools_changed(&self) {}
    fn prompts_changed(&self) {}
    fn resources_changed(&self) {}
    fn prompts_changed_for(&self, _principal: Option<&Principal>) {}
    fn resources_changed_for(&self, _principal: Option<&Principal>) {}
    fn resource_updated(&self, _uri: &str) {}
    fn resource_updated_for(&self, _uri: &str, _principal: Option<&Principal>) {}
    fn resource_updated_in(&self, _uri: &str, _client: ConversationId) {}
}

/// Announcements that wait for one client. An announcement is never queued twice: one is enough to
/// say that a list has changed.
pub(super) struct Listener {
    filter: Filter,
    recipient: Recipient,
    queue: Mutex<VecDeque<Bytes>>,
    ready: Notify,
    max_queued: usize,
}

/// Sends notifications to one client, independent of its requests. Does not keep the client's
/// session alive. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Announcer {
    listener: Weak<Listener>,
}

impl Announcer {
    pub(super) fn new(listener: &Arc<Listener>) -> Self {
        Self { listener: Arc::downgrade(listener) }
    }

    /// Sends a notification. Returns false if the client has gone. If too many notifications wait,
    /// the oldest is dropped.
    pub fn notify(&self, method: &str, params: &RawValue) -> bool {
        let Some(listener) = self.listener.upgrade() else { return false };
        listener.push(write_notification(method, Some(params)));
        true
    }

    /// Returns whether the client is still connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.listener.strong_count() > 0
    }
}

/// The announcements that a client wants.
pub(super) enum Filter {
    /// A session gets all that the server's capabilities declare.
    Session { subscriptions: Arc<Subscriptions> },
    /// A stateless client names the notifications that it wants; each message has the id of its
    /// `subscriptions/listen`.
    Listen { id: RequestId, methods: Vec<&'static str>, subscriptions: Arc<Subscriptions> },
}

/// An announcement.
struct Announcement<'a> {
    method: &'static str,
    /// The changed resource; only its subscribers get the announcement.
    uri: Option<&'a str>,
    audience: Audience<'a>,
    params: JsonObject,
}

/// A client that listens for announcements.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recipient {
    /// The principal of the client, if it is authenticated, as it was when it began to listen.
    pub principal: Option<Arc<Principal>>,
    /// The profile of the server that it has selected.
    pub profile: Option<Arc<str>>,
    /// The client, as in its requests.
    pub(super) client: ConversationId,
}

/// The clients for an announcement.
enum Audience<'a> {
    All,
    /// Clients of this principal, or those without one.
    Of(Option<&'a Principal>),
    /// Clients for which this returns true.
    If(&'a dyn Fn(&Recipient) -> bool),
    /// One client.
    In(ConversationId),
}

impl Notifier {
    pub(super) fn new(max_queued: usize) -> Self {
        Self { listeners: Mutex::default(), max_queued }
    }

    /// Announces a changed list of tools.
    pub fn tools_changed(&self) {
        self.announce("notifications/tools/list_changed", Audience::All);
    }

    /// Announces a changed list of tools to the clients for which `reaches` returns true.
    pub fn tools_changed_if(&self, reaches: impl Fn(&Recipient) -> bool) {
        self.announce("notifications/tools/list_changed", Audience::If(&reaches));
    }

    /// Announces a changed list of prompts to the clients for which `reaches` returns true.
    pub fn prompts_changed_if(&self, reaches: impl Fn(&Recipient) -> bool) {
        self.announce(PROMPTS_CHANGED, Audience::If(&reaches));
    }

    /// Announces a changed list of resources to the clients for which `reaches` returns true.
    pub fn resources_changed_if(&self, reaches: impl Fn(&Recipient) -> bool) {
        self.announce(RESOURCES_CHANGED, Audience::If(&reaches));
    }

    /// Announces a change of the resource `uri` to the subscribers for which `reaches` returns
    /// true.
    pub fn resource_updated_if(&self, uri: &str, reaches: impl Fn(&Recipient) -> bool) {
        self.announce_update(uri, Audience::If(&reaches));
    }

    /// Announces a changed list of prompts.
    pub fn prompts_changed(&self) {
        self.announce(PROMPTS_CHANGED, Audience::All);
    }

    /// Announces that the list of prompts has changed for one principal; `None` means all clients
    /// without a token. Clients of other principals are not notified.
    pub fn prompts_changed_for(&self, principal: Option<&Principal>) {
        self.announce(PROMPTS_CHANGED, Audience::Of(principal));
    }

    /// Announces a changed list of resources.
    pub fn resources_changed(&self) {
        self.announce(RESOURCES_CHANGED, Audience::All);
    }

    /// Announces that the list of resources has changed for one principal, as
    /// [`Self::prompts_changed_for`] does for prompts.
    pub fn resources_changed_for(&self, principal: Option<&Principal>) {
        self.announce(RESOURCES_CHANGED, Audience::Of(principal));
    }

    /// Announces a change of the resource `uri` to its subscribers.
    pub fn resource_updated(&self, uri: &str) {
        self.announce_update(uri, Audience::All);
    }

    /// Announces a change of the resource `uri` to the subscribers of one principal alone.
    pub fn resource_updated_for(&self, uri: &str, principal: Option<&Principal>) {
        self.announce_update(uri, Audience::Of(principal));
    }

    /// Announces a change of the resource `uri` to one client, if it is subscribed.
    pub fn resource_updated_in(&self, uri: &str, client: ConversationId) {
        self.announce_update(uri, Audience::In(client));
    }

    fn announce_update(&self, uri: &str, audience: Audience<'_>) {
        const METHOD: &str = "notifications/resources/updated";
        let params = JsonObject::from_iter([("uri".to_owned(), uri.into())]);
        self.offer(&Announcement { method: METHOD, uri: Some(uri), audience, params });
    }

    fn announce(&self, method: &'static str, audience: Audience<'_>) {
        self.offer(&Announcement { method, uri: None, audience, params: JsonObject::new() });
    }

    fn offer(&self, announcement: &Announcement<'_>) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| {
            let Some(listener) = listener.upgrade() else { return false };
            listener.offer(announcement);
            true
        });
    }

    pub(super) fn listen(&self, filter: Filter, recipient: Recipient) -> Arc<Listener> {
        let listener = Arc::new(Listener {
            filter,
            recipient,
            queue: Mutex::default(),
            ready: Notify::new(),
            max_queued: self.max_queued,
        });
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener));
        listener
    }
}

impl Listener {
    /// Waits for the next announcement. Cancel safe.
    pub(super) async fn next(&self) -> Bytes {
        loop {
            if let Some(message) =
                self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
            {
                return message;
            }
            self.ready.notified().await;
        }
    }

    fn offer(&self, announcement: &Announcement<'_>) {
        let Announcement { method, uri, audience, params } = announcement;
        let is_reached = match audience {
            Audience::All => true,
            Audience::Of(principal) => {
                Principal::is_same(*principal, self.recipient.principal.as_deref())
            }
            Audience::If(reaches) => reaches(&self.recipient),
            Audience::In(client) => *client == self.recipient.client,
        };
        if !is_reached {
            return;
        }
        let message = match &self.filter {
            Filter::Session { subscriptions } => {
                if uri.is_some_and(|uri| !subscriptions.contains(uri)) {
                    return;
                }
                let params = to_raw_value(params).expect("a map of JSON values serialises");
                write_notification(method, (!announcement.params.is_empty()).then_some(&*params))
            }
            Filter::Listen { id, methods, subscriptions } => {
                let wanted = match uri {
                    Some(uri) => subscriptions.contains(uri),
                    None => methods.contains(method),
                };
                if !wanted {
                    return;
                }
                write_notification(method, Some(&tagged(id, params.clone())))
            }
        };
        self.push(message);
    }

    fn push(&self, message: Vec<u8>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.iter().any(|waiting| *waiting == message) {
            return;
        }
        queue.push_back(message.into());
        // One message passes whatever its length is; those of upstreams have at most 64 KiB.
        while queue.len() > 1
            && (queue.len() > self.max_queued
                || queue.iter().map(Bytes::len).sum::<usize>() > MAX_QUEUED_BYTES)
        {
            queue.pop_front();
            tracing::warn!("a client fetches no announcements; the oldest is dropped");
        }
        drop(queue);
        self.ready.notify_one();
    }
}

/// Adds the id of the `subscriptions/listen` to parameters (2026-07-28).
pub(super) fn tagged(id: &RequestId, mut params: JsonObject) -> Box<RawValue> {
    params.insert("_meta".to_owned(), json!({ meta_key::SUBSCRIPTION_ID: id }));
    to_raw_value(&params).expect("a map of JSON values serialises")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_same_announcement_waits_once() {
        let notifier = Notifier::new(8);
        let listener = notifier.listen(session(), recipient(None));
        notifier.tools_changed();
        notifier.tools_changed();
        notifier.prompts_changed();
        for list in ["tools", "prompts"] {
            let end = format!(r#""method":"notifications/{list}/list_changed"}}"#);
            assert!(listener.next().await.ends_with(end.as_bytes()));
        }
        assert!(listener.queue.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn stateless_clients_get_the_requested_notifications_with_their_id() {
        let notifier = Notifier::new(8);
        let methods = vec!["notifications/prompts/list_changed"];
        let listener = notifier.listen(
            Filter::Listen { id: 7.into(), methods, subscriptions: Subscriptions::of(&[]) },
            recipient(None),
        );
        notifier.tools_changed();
        notifier.prompts_changed();
        let want = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#;
        assert_eq!(&listener.next().await[..], want.as_bytes());
    }

    #[tokio::test]
    async fn a_change_for_one_principal_reaches_its_clients_alone() {
        let notifier = Notifier::new(8);
        let alice = Arc::new(Principal::new(None, "alice"));
        let bob = Arc::new(Principal::new(None, "bob"));
        let listeners = [Some(alice.clone()), Some(alice.clone()), Some(bob), None]
            .map(|principal| notifier.listen(session(), recipient(principal)));
        notifier.resources_changed_for(Some(&alice));
        assert_eq!(listeners.each_ref().map(waiting), [1, 1, 0, 0]);
        notifier.resources_changed_for(None);
        assert_eq!(listeners.each_ref().map(waiting), [1, 1, 0, 1]);
        notifier.resources_changed();
        assert_eq!(listeners.each_ref().map(waiting), [1, 1, 1, 1]);
    }

    #[tokio::test]
    async fn an_update_for_one_client_reaches_it_alone() {
        let notifier = Notifier::new(8);
        let anna = Arc::new(Principal::new(None, "anna"));
        let recipients = [0; 2].map(|_| recipient(Some(anna.clone())));
        let clients = recipients.each_ref().map(|recipient| recipient.client);
        let listeners = recipients.map(|recipient| notifier.listen(session(), recipient));
        notifier.resource_updated_in("note://a", clients[0]);
        notifier.resource_updated_in("note://b", clients[1]);
        assert_eq!(listeners.each_ref().map(waiting), [1, 0]);
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_the_departed_are_forgotten() {
        let notifier = Notifier::new(1);
        let listener = notifier.listen(session(), recipient(None));
        notifier.tools_changed();
        notifier.resources_changed();
        assert_eq!(listener.queue.lock().unwrap().len(), 1);
        let many = Notifier::new(100).listen(session(), recipient(None));
        (0..9_u8).for_each(|number| many.push(vec![number; MAX_QUEUED_BYTES / 4]));
        assert_eq!((waiting(&many), many.next().await[0]), (4, 5));
        drop(listener);
        notifier.tools_changed();
        assert!(notifier.listeners.lock().unwrap().is_empty());
    }

    fn recipient(principal: Option<Arc<Principal>>) -> Recipient {
        Recipient { principal, profile: None, client: ConversationId::next() }
    }

    fn waiting(listener: &Arc<Listener>) -> usize {
        listener.queue.lock().unwrap().len()
    }

    fn session() -> Filter {
        Filter::Session { subscriptions: Subscriptions::of(&["note://a"]) }
    }
}
