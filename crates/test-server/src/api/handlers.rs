//! Handlers of the operations.

use std::time::Duration;

use axum::{
    Extension, Json,
    body::Body,
    extract::{Path, RawQuery, State},
    http::header,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, delete, get, post},
};
use futures_util::stream;
use marquetry_judge::{
    TestCase, TestResult,
    store::{Outcome, Page, TestRun},
};
use marquetry_protocol::server::http::ConnectionInfo;
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinHandle},
};

use super::{
    ApiError, Shared, batch,
    body::parse,
    configurations,
    live::{self, EndedEvent},
    openapi,
    operations::Operation,
    results,
    stop::{CLIENT_LEFT, half_closed, stop_signal},
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
        Operation::CaseSchema => get(async || Json(TestCase::schema())),
        Operation::Result => get(results::result),
        Operation::Overrides => get(results::overrides),
        Operation::Override => post(results::put_override),
        Operation::Outcomes => get(results::outcomes),
        Operation::Cases => get(results::cases),
        Operation::History => get(results::history),
        Operation::Compare => get(results::compare),
        Operation::Judges => get(results::judges),
        Operation::Events => get(live::events),
        Operation::Configurations => get(configurations::list),
        Operation::CreateConfiguration => post(configurations::create),
        Operation::Configuration => get(configurations::configuration),
        Operation::DeleteConfiguration => delete(configurations::delete),
        Operation::RunConfiguration => post(configurations::run),
    }
}

async fn health(State(shared): State<Shared>) -> Json<Health> {
    Json(shared.tests.health().await)
}

/// Runs a test. One that cannot be run is a result with the status `error`, as in the seed. So is a
/// test whose client disconnects.
async fn run(
    State(shared): State<Shared>,
    connection: Option<Extension<ConnectionInfo>>,
    body: Body,
) -> Result<Response, ApiError> {
    let case: TestCase = parse(&shared, body, "test case").await?;
    if let Some(refusal) = shared.tests.refusal(&case) {
        return Err(ApiError::Forbidden(refusal));
    }
    // The request is dropped when its client disconnects. The task continues and stores the result.
    let (request, dropped) = oneshot::channel::<()>();
    let stop = stop_signal(&shared, async {
        tokio::select! {
            _ = dropped => {}
            () = half_closed(connection) => {}
        }
        CLIENT_LEFT
    });
    let tasks = shared.tasks.clone();
    let answer_after = shared.options.answer_after;
    let mut work = tasks.spawn(async move {
        let _slot = tokio::select! {
            biased;
            _ = stop.clone() => None,
            slot = shared.slot() => Some(slot?),
        };
        let context = live::streamed_context(&shared, None, 0, &case.name).stopped_by(stop);
        let result = shared.tests.run_with(case, context).await;
        let ended = EndedEvent { index: 0, done: 1, total: 1, outcome: Outcome::of(&result) };
        shared.live.send("ended", None, &ended);
        Ok(result)
    });
    match tokio::time::timeout(answer_after, &mut work).await {
        Ok(outcome) => result_of(outcome).map(|result| Json(result).into_response()),
        Err(_) => Ok(late_answer(work, request)),
    }
}

/// A task that runs a test.
type Work = JoinHandle<Result<TestResult, ApiError>>;

fn result_of(
    outcome: Result<Result<TestResult, ApiError>, JoinError>,
) -> Result<TestResult, ApiError> {
    match outcome.map_err(JoinError::try_into_panic) {
        Ok(result) => result,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => Err(ApiError::Stopping),
    }
}

/// Returns an answer whose body sends spaces until the test has ended. `request` is dropped with
/// the body.
fn late_answer(work: Work, request: oneshot::Sender<()>) -> Response {
    let parts = stream::unfold(Some((work, request, Duration::ZERO)), async |state| {
        let (mut work, request, wait) = state?;
        let part = match tokio::time::timeout(wait, &mut work).await {
            Err(_) => return Some((Ok(" ".to_owned()), Some((work, request, SPACE_EVERY)))),
            Ok(outcome) => match result_of(outcome) {
                Ok(result) => serde_json::to_string(&result).map_err(std::io::Error::other),
                // The status was already sent, so only breaking the answer off can report that
                // there is no result.
                Err(_) => Err(std::io::Error::other("the test server is stopping")),
            },
        };
        Some((part, None))
    });
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(parts)).into_response()
}

/// Interval of the spaces in an answer that waits for its test.
const SPACE_EVERY: Duration = Duration::from_secs(15);

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
