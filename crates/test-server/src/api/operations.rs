//! The operations of the API. The router and the OpenAPI document are both made of [`Operation::ALL`].

use axum::{
    Json,
    body::Bytes,
    extract::{Path, RawQuery, State, rejection::BytesRejection},
    routing::{MethodRouter, get, post},
};
use http::StatusCode;
use marquetry_judge::{
    TestCase, TestResult,
    store::{Page, TestRun},
};
use serde::de::DeserializeOwned;

use super::{ApiError, Shared, batch, openapi};
use crate::{Health, query};

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Health,
    Run,
    Batch,
    Results,
    Runs,
    RunOfId,
    Document,
    CaseSchema,
}

impl Operation {
    pub(super) const ALL: [Self; 8] = [
        Self::Health,
        Self::Run,
        Self::Batch,
        Self::Results,
        Self::Runs,
        Self::RunOfId,
        Self::Document,
        Self::CaseSchema,
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Health => "/api/test/health",
            Self::Run => "/api/test/run",
            Self::Batch => "/api/test/batch",
            Self::Results => "/api/test/results",
            Self::Runs => "/api/test/runs",
            Self::RunOfId => "/api/test/runs/{id}",
            Self::Document => "/api/test/openapi.json",
            Self::CaseSchema => "/api/test/schema.json",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Run | Self::Batch => "post",
            _ => "get",
        }
    }

    pub(super) fn handler(self) -> MethodRouter<Shared> {
        match self {
            Self::Health => get(health),
            Self::Run => post(run),
            Self::Batch => post(batch::batch),
            Self::Results => get(results),
            Self::Runs => get(runs),
            Self::RunOfId => get(run_of_id),
            Self::Document => get(async || Json(openapi::document())),
            Self::CaseSchema => get(async || Json(openapi::case_schema())),
        }
    }
}

async fn health(State(shared): State<Shared>) -> Json<Health> {
    Json(shared.tests.health().await)
}

/// A test that cannot be run is a result with the status `error`, as in the seed.
async fn run(
    State(shared): State<Shared>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<TestResult>, ApiError> {
    let case: TestCase = parse(&shared, body, "test case")?;
    if let Some(refusal) = shared.tests.refusal(&case) {
        return Err(ApiError::Forbidden(refusal));
    }
    let _place = shared.place().await?;
    Ok(Json(shared.tests.run(case, None).await))
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

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(
    shared: &Shared,
    body: Result<Bytes, BytesRejection>,
    wanted: &'static str,
) -> Result<T, ApiError> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::TooLong(shared.options.max_body_bytes),
        _ => ApiError::Body { wanted, problem: rejection.body_text() },
    })?;
    // serde would read a list as the members of an object, in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::Body { wanted, problem: "it is not a JSON object".to_owned() });
    }
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::Body { wanted, problem: error.to_string() })
}
