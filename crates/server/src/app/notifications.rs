//! Notifications of changed lists and resources, for clients and the console.

use std::sync::Arc;

use marquetry_gateway::{Gateway, List};
use marquetry_protocol::server::Server;
use tokio_util::sync::CancellationToken;

use crate::{changes::Changes, console::ListListener};

/// Notifies every client and the console of changes until `stop` is cancelled.
pub(super) async fn announce(
    changes: Arc<Changes>,
    server: Server,
    console: ListListener,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
) {
    let notifier = server.notifier();
    loop {
        tokio::select! {
            () = changes.tools.notified() => {
                let change = gateway.list_change(List::Tools);
                notifier.tools_changed_if(|it| change.reaches(it));
                console.tools_changed();
            }
            () = changes.prompts.notified() => {
                let change = gateway.list_change(List::Prompts);
                notifier.prompts_changed_if(|it| change.reaches(it));
                console.prompts_changed();
            }
            () = changes.resources.notified() => {
                let change = gateway.list_change(List::Resources);
                notifier.resources_changed_if(|it| change.reaches(it));
                console.resources_changed();
            }
            // Only clients of the principal see these lists, so only they list them again.
            principals = changes.own_resources.take() => {
                for principal in principals.values() {
                    notifier.resources_changed_for(principal.as_ref());
                    console.resources_changed_for(principal.as_ref());
                }
            }
            principals = changes.own_prompts.take() => {
                for principal in principals.values() {
                    notifier.prompts_changed_for(principal.as_ref());
                    console.prompts_changed_for(principal.as_ref());
                }
            }
            updates = changes.updated.take() => {
                for uri in updates.keys() {
                    notifier.resource_updated_if(uri, |it| {
                        gateway.may_hear_of(uri, it)
                    });
                }
            }
            updates = changes.own_updated.take() => {
                for ((uri, _), principal) in &updates {
                    notifier.resource_updated_for(uri, principal.as_ref());
                }
            }
            updates = changes.updated_in.take() => {
                for (uri, client) in updates.keys() {
                    notifier.resource_updated_in(uri, *client);
                }
            }
            () = stop.cancelled() => return,
        }
    }
}
