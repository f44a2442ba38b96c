//! What the operations do.

use axum::{
    Json,
    body::Body,
    extract::{Path, RawQuery, State},
    routing::{MethodRouter, get, post},
};
use futures_util::FutureExt as _;
use marquetry_judge::{
    TestCase, TestResult,
    store::{Outcome, Page, TestRun},
};
use tokio::{sync::oneshot, task::JoinError};

use super::{
    ApiError, Shared, batch,
    body::parse,
    live::{self, EndedEvent},
    openapi,
    operations::Operation,
    stop::stopped,
    stored,
};
use crate::{Health, query};

/// Returns the handler of an operation.
pub(super) fn handler(operation: Operation) -> MethodRouter<Shared> {
    match operation {
        Operation::Health => get(health),
        Operation::Run => post(run),
        Operation::Batch => post(batch::batch),
        Operation::Results => get(results),
        Operation::Runs => get(runs),
        Operation::RunOfId => get(run_of_id),
        Operation::Document => get(async || Json(openapi::document())),
        Operation::CaseSchema => get(async || Json(openapi::case_schema())),
        Operation::Result => get(stored::result),
        Operation::Overrides => get(stored::overrides),
        Operation::Override => post(stored::put_override),
        Operation::Outcomes => get(stored::outcomes),
        Operation::Cases => get(stored::cases),
        Operation::History => get(stored::history),
        Operation::Compare => get(stored::compare),
        Operation::Judges => get(stored::judges),
        Operation::Events => get(live::events),
    }
}

async fn health(State(shared): State<Shared>) -> Json<Health> {
    Json(shared.tests.health().await)
}

/// A test that cannot be run is a result with the status `error`, as in the seed. So is a test whose client leaves.
async fn run(State(shared): State<Shared>, body: Body) -> Result<Json<TestResult>, ApiError> {
    let case: TestCase = parse(&shared, body, "test case").await?;
    if let Some(refusal) = shared.tests.refusal(&case) {
        return Err(ApiError::Forbidden(refusal));
    }
    // The request is dropped when its client leaves; the task goes on, and stores the result.
    let (request, dropped) = oneshot::channel::<()>();
    let stopped = stopped(&shared, dropped.map(drop));
    let tasks = shared.tasks.clone();
    let work = tasks.spawn(async move {
        let _place = tokio::select! {
            biased;
            _ = stopped.clone() => None,
            place = shared.place() => Some(place?),
        };
        let context = live::watched(&shared, None, 0, &case.name).stopped_by(stopped);
        let result = shared.tests.run_with(case, context).await;
        let ended = EndedEvent { index: 0, done: 1, total: 1, outcome: Outcome::of(&result) };
        shared.live.send("ended", None, &ended);
        Ok(result)
    });
    let outcome = work.await;
    drop(request);
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(result) => result.map(Json),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => Err(ApiError::Stopping),
    }
}

async fn results(
    State(shared): State<Shared>,
    RawQuery(text): RawQuery,
) -> Result<Json<Page<TestResult>>, ApiError> {
    let filter = query::parse(text.as_deref().unwrap_or_default()).map_err(ApiError::Query)?;
    Ok(Json(shared.tests.runner().store().results(&filter).await?))
}

async fn runs(
    State(shared): State<Shared>,
    RawQuery(text): RawQuery,
) -> Result<Json<Page<TestRun>>, ApiError> {
    let filter = query::parse(text.as_deref().unwrap_or_default()).map_err(ApiError::Query)?;
    Ok(Json(shared.tests.runner().store().runs(&filter.page).await?))
}

async fn run_of_id(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Json<TestRun>, ApiError> {
    let run = shared.tests.runner().store().run(&id).await?;
    run.map(Json).ok_or(ApiError::NoRun(id))
}
