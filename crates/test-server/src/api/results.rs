//! Stored results: single results, short forms of many, and statistics.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Body,
    extract::{Path, RawQuery, State},
};
use marquetry_judge::{
    ResultStore, TestResult, Timestamp,
    store::{
        self, CaseHistory, Comparison, Flakiness, JudgeAgreement, Outcome, OutcomeFilter, Override,
        Page,
    },
};
use marquetry_protocol::server::Principal;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiError, Shared, body::parse};
use crate::query;

/// Outcomes in one answer at most.
const MAX_OUTCOMES: u32 = 10_000;

/// Longest reason and longest author of an override, in bytes.
const MAX_REASON: usize = 4096;
const MAX_AUTHOR: usize = 200;

/// The author of overrides without authentication and without a name.
const LOCAL: &str = "local";

/// A person's verdict on a trial.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OverrideRequest {
    /// The number of the trial, from 0.
    trial: u32,
    /// Whether the trial passed, in the person's opinion.
    passed: bool,
    /// The reason; 1 to 4,096 bytes.
    reason: String,
    /// Author of the verdict, at most 200 bytes. Defaults to "local". A server with authentication
    /// takes the caller, and refuses another name.
    author: Option<String>,
}

fn store(shared: &Shared) -> &dyn ResultStore {
    &**shared.tests.runner().store()
}

fn page<T>(items: Vec<T>) -> Json<Page<T>> {
    Json(Page { items, next_cursor: None })
}

pub(super) async fn result(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Json<TestResult>, ApiError> {
    let result = store(&shared).result(&id).await?;
    result.map(Json).ok_or(ApiError::NoResult(id))
}

pub(super) async fn outcomes(
    State(shared): State<Shared>,
    RawQuery(text): RawQuery,
) -> Result<Json<Page<Outcome>>, ApiError> {
    let [name, run, limit] = values(text, ["name", "run", "limit"])?;
    let mut filter = OutcomeFilter::default();
    filter.name = name;
    filter.run = run;
    filter.limit = limit_of(limit)?;
    Ok(page(store(&shared).outcomes(&filter).await?))
}

pub(super) async fn cases(State(shared): State<Shared>) -> Result<Json<Page<Flakiness>>, ApiError> {
    Ok(page(store::flakiness(store(&shared)).await?))
}

pub(super) async fn history(
    State(shared): State<Shared>,
    RawQuery(text): RawQuery,
) -> Result<Json<CaseHistory>, ApiError> {
    let [name, limit] = values(text, ["name", "limit"])?;
    let Some(name) = name else {
        return Err(ApiError::Query("name is missing".to_owned()));
    };
    let limit = limit_of(limit)?.unwrap_or(1000);
    Ok(Json(store::history(store(&shared), &name, limit).await?))
}

pub(super) async fn compare(
    State(shared): State<Shared>,
    RawQuery(text): RawQuery,
) -> Result<Json<Comparison>, ApiError> {
    let [base, new] = values(text, ["base", "new"])?;
    let (Some(base), Some(new)) = (base, new) else {
        return Err(ApiError::Query("base and new, the ids of two runs, are needed".to_owned()));
    };
    Ok(Json(store::compare(store(&shared), &base, &new).await?))
}

pub(super) async fn judges(
    State(shared): State<Shared>,
) -> Result<Json<Page<JudgeAgreement>>, ApiError> {
    Ok(page(store::judge_agreement(store(&shared)).await?))
}

pub(super) async fn overrides(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Json<Page<Override>>, ApiError> {
    if store(&shared).result(&id).await?.is_none() {
        return Err(ApiError::NoResult(id));
    }
    Ok(page(store(&shared).overrides(&id).await?))
}

/// Stores a person's verdict. It does not change the result, but is used to measure the judge.
pub(super) async fn put_override(
    State(shared): State<Shared>,
    caller: Option<Extension<Arc<Principal>>>,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<Override>, ApiError> {
    let request: OverrideRequest = parse(&shared, body, "override").await?;
    let reason = request.reason.trim();
    if reason.is_empty() || reason.len() > MAX_REASON {
        let problem = format!("reason has {} bytes; 1 to {MAX_REASON} are allowed", reason.len());
        return Err(ApiError::Body { expected: "override", problem });
    }
    let named = request.author.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let author = match (caller, named) {
        (Some(Extension(caller)), None) => caller.id(),
        (Some(Extension(caller)), Some(named)) if caller.id() == named => caller.id(),
        (Some(_), Some(_)) => {
            return Err(ApiError::Forbidden(
                "author is not the caller: leave it out, the server knows who you are".to_owned(),
            ));
        }
        (None, named) => named.unwrap_or(LOCAL).to_owned(),
    };
    if author.len() > MAX_AUTHOR {
        let problem = format!("author has {} bytes; {MAX_AUTHOR} are allowed", author.len());
        return Err(ApiError::Body { expected: "override", problem });
    }
    let verdict = Override {
        result_id: id,
        trial: request.trial,
        passed: request.passed,
        reason: reason.to_owned(),
        author,
        timestamp: Timestamp::now(),
    };
    store(&shared).put_override(&verdict).await?;
    Ok(Json(verdict))
}

fn values<const N: usize>(
    text: Option<String>,
    names: [&str; N],
) -> Result<[Option<String>; N], ApiError> {
    query::values(text.as_deref().unwrap_or_default(), names).map_err(ApiError::Query)
}

fn limit_of(text: Option<String>) -> Result<Option<u32>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let limit = text.parse().ok().filter(|limit| (1..=MAX_OUTCOMES).contains(limit));
    limit.map(Some).ok_or_else(|| {
        ApiError::Query(format!("limit is {text:?}; expected a number from 1 to {MAX_OUTCOMES}"))
    })
}
