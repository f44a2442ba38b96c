//! `subscriptions/listen`: the notifications that a stateless client wants.

use marquetry_protocol_wire::{
    RpcError,
    envelope::write_notification,
    types::{JsonObject, TASKS_EXTENSION, meta_key},
};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::to_raw_value};

use super::{
    Reply, RequestContext, Server,
    notifier::{Filter, tagged},
    outgoing::Outgoing,
    subscriptions::Subscriptions,
    task_methods, tasks,
};

/// The parameters of `subscriptions/listen`.
#[derive(Deserialize)]
pub(super) struct ListenParams {
    notifications: NotificationFilter,
}

/// The notifications that a stateless client wants.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct NotificationFilter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    task_ids: Vec<String>,
}

/// Answers `subscriptions/listen`: the answer comes when the server stops, the notifications come
/// before it.
pub(super) async fn listen(
    server: &Server,
    cx: &RequestContext,
    ListenParams { notifications: mut wanted }: ListenParams,
) -> Result<Reply, RpcError> {
    let tasks = &server.shared.tasks;
    if !wanted.task_ids.is_empty() && !cx.capabilities().has_extension(TASKS_EXTENSION) {
        return Err(tasks::needs_tasks("notifications/tasks"));
    }
    wanted.task_ids.truncate(server.limits().max_tasks);
    wanted.task_ids.retain(|id| tasks.job(id, cx.principal().map(|it| &**it)).is_ok());
    // The server accepts only what its capabilities declare.
    let has = server.shared.handler.describe().capabilities;
    wanted.tools_list_changed &= has.tools.is_some_and(|tools| tools.list_changed);
    wanted.prompts_list_changed &= has.prompts.is_some_and(|prompts| prompts.list_changed);
    wanted.resources_list_changed &= has.resources.is_some_and(|resources| resources.list_changed);
    let subscriptions = Subscriptions::new(
        server.shared.handler.clone(),
        cx.conversation(),
        server.limits().max_subscriptions,
    );
    // Resources without subscriptions are left out of the accepted ones.
    let mut agreed_uris = Vec::new();
    for uri in std::mem::take(&mut wanted.resource_subscriptions) {
        let subscribe = server.shared.handler.subscribe(&uri, cx);
        if subscriptions.add(&uri, subscribe).await.is_ok() {
            agreed_uris.push(uri);
        }
    }
    wanted.resource_subscriptions = agreed_uris;
    let methods = [
        (wanted.tools_list_changed, "notifications/tools/list_changed"),
        (wanted.prompts_list_changed, "notifications/prompts/list_changed"),
        (wanted.resources_list_changed, "notifications/resources/list_changed"),
    ];
    let methods =
        methods.into_iter().filter_map(|(wanted, method)| wanted.then_some(method)).collect();
    let id = cx.id();
    let filter = Filter::Listen { id: id.clone(), methods, subscriptions };
    let listener = server.notifier().listen(filter, cx.recipient());

    let watch = tasks.watch(wanted.task_ids.iter().cloned());

    let mut agreed = JsonObject::new();
    agreed.insert("notifications".to_owned(), json!(wanted));
    let acknowledged =
        write_notification("notifications/subscriptions/acknowledged", Some(&tagged(id, agreed)));
    cx.send(Outgoing::notification(acknowledged)).await;
    loop {
        tokio::select! {
            message = listener.next() => cx.send(Outgoing::notification(message)).await,
            id = watch.next() => {
                if let Some(message) = task_methods::notification(tasks, &id, cx) {
                    cx.send(Outgoing::notification(message)).await;
                }
            }
            () = server.shared.shutdown.cancelled() => break,
            () = cx.request().conversation.ending.cancelled() => break,
        }
    }
    let end = json!({ "_meta": { meta_key::SUBSCRIPTION_ID: id } });
    to_raw_value(&end).map(Reply::raw).map_err(|error| RpcError::internal(error.to_string()))
}
