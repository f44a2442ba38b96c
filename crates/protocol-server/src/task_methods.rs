//! `tasks/get`, `tasks/update`, `tasks/cancel` and `notifications/tasks`.

use std::{collections::BTreeMap, sync::Arc};

use marquetry_protocol_wire::{
    RpcError,
    envelope::write_notification,
    types::{JsonObject, TASKS_EXTENSION, Task, meta_key},
};
use serde::{Deserialize, Serialize};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{
    context::RequestContext,
    reply::Reply,
    tasks::{Job, Tasks, needs_tasks},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskAlone {
    task_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answers {
    task_id: String,
    input_responses: BTreeMap<String, Box<RawValue>>,
}

/// Answers `tasks/get`.
pub(super) fn get(
    tasks: &Tasks,
    cx: &RequestContext,
    TaskAlone { task_id }: TaskAlone,
) -> Result<Reply, RpcError> {
    Reply::json(&found(tasks, cx, &task_id)?.to_task())
}

/// Answers `tasks/update`.
pub(super) fn update(
    tasks: &Tasks,
    cx: &RequestContext,
    Answers { task_id, input_responses }: Answers,
) -> Result<Reply, RpcError> {
    found(tasks, cx, &task_id)?.deliver_answers(input_responses);
    Reply::json(&json!({}))
}

/// Answers `tasks/cancel`.
pub(super) fn cancel(
    tasks: &Tasks,
    cx: &RequestContext,
    TaskAlone { task_id }: TaskAlone,
) -> Result<Reply, RpcError> {
    found(tasks, cx, &task_id)?.cancel();
    Reply::json(&json!({}))
}

fn found(tasks: &Tasks, cx: &RequestContext, id: &str) -> Result<Arc<Job>, RpcError> {
    if !tasks.declared() {
        return Err(RpcError::method_not_found(cx.method()));
    }
    if !cx.capabilities().has_extension(TASKS_EXTENSION) {
        return Err(needs_tasks(cx.method()));
    }
    tasks.job(id, cx.principal().map(|it| &**it))
}

/// Returns the `notifications/tasks` for a `subscriptions/listen`, with the same content as
/// `tasks/get`; [`None`] if the task is no longer stored.
pub(super) fn notification(tasks: &Tasks, task_id: &str, cx: &RequestContext) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: JsonObject,
        #[serde(flatten)]
        task: Task,
    }
    let task = tasks.job(task_id, cx.principal().map(|it| &**it)).ok()?.to_task();
    let meta = JsonObject::from_iter([(meta_key::SUBSCRIPTION_ID.to_owned(), json!(cx.id()))]);
    let params = to_raw_value(&Params { meta, task }).ok()?;
    Some(write_notification("notifications/tasks", Some(&params)))
}
