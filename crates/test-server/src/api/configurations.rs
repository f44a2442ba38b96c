//! Stored configurations: servers and a judge, with which cases can be run by an id.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension, Json,
    body::Body,
    extract::{Path, RawQuery, State},
};
use marquetry_judge::{
    TestCase,
    store::{Configuration, ConfigurationError, NewConfiguration, Page},
};
use marquetry_protocol::server::http::ConnectionInfo;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    ApiError, Shared,
    batch::{self, Batch, BatchRequest, BatchSlot, EventStream},
    body::parse,
};
use crate::query;

/// A request to run cases with a stored configuration.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ConfigurationRunRequest {
    /// Name of the run; the name of the configuration if absent.
    name: Option<String>,
    /// The tests. The servers and the judge of the configuration replace their own.
    cases: Vec<TestCase>,
    /// Tests that run at a time; the server's limit applies, too.
    concurrency: Option<usize>,
    /// Values of the variables that the configuration refers to. They are not stored.
    #[serde(default)]
    variables: BTreeMap<String, String>,
}

pub(super) async fn create(
    State(shared): State<Shared>,
    body: Body,
) -> Result<Json<Configuration>, ApiError> {
    const EXPECTED: &str = "configuration";
    let new: NewConfiguration = parse(&shared, body, EXPECTED).await?;
    let configuration = Configuration::new(new)
        .map_err(|error| ApiError::Body { expected: EXPECTED, problem: error.to_string() })?;
    if let Some(refusal) = shared.tests.refusal_of_servers(&configuration.server_configs) {
        return Err(ApiError::Forbidden(refusal));
    }
    shared.tests.runner().store().put_configuration(&configuration).await?;
    Ok(Json(configuration))
}

pub(super) async fn list(
    State(shared): State<Shared>,
    RawQuery(text): RawQuery,
) -> Result<Json<Page<Configuration>>, ApiError> {
    let filter =
        query::configurations(text.as_deref().unwrap_or_default()).map_err(ApiError::Query)?;
    Ok(Json(shared.tests.runner().store().configurations(&filter).await?))
}

pub(super) async fn configuration(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Json<Configuration>, ApiError> {
    find(&shared, id).await.map(Json)
}

pub(super) async fn delete(
    State(shared): State<Shared>,
    Path(id): Path<String>,
) -> Result<Json<Configuration>, ApiError> {
    Ok(Json(shared.tests.runner().store().delete_configuration(&id).await?))
}

/// Runs cases with the servers and the judge of a configuration; the run has the id of the
/// configuration.
pub(super) async fn run(
    State(shared): State<Shared>,
    connection: Option<Extension<ConnectionInfo>>,
    Path(id): Path<String>,
    body: Body,
) -> Result<EventStream, ApiError> {
    const EXPECTED: &str = "run of a configuration";
    let slot = BatchSlot::acquire(&shared)?;
    let request: ConfigurationRunRequest = parse(&shared, body, EXPECTED).await?;
    let configuration = find(&shared, id).await?;
    let ConfigurationRunRequest { name, mut cases, concurrency, variables } = request;
    let known = configuration.variables();
    if let Some(unknown) = variables.keys().find(|name| !known.contains(*name)) {
        let names = known.into_iter().collect::<Vec<_>>().join(", ");
        let known = if names.is_empty() { "none" } else { &names };
        let problem = format!(
            "variables has {unknown:?}, which the configuration does not refer to; it refers to {known}"
        );
        return Err(ApiError::Body { expected: EXPECTED, problem });
    }
    let resolved = configuration.resolve(|name| variables.get(name).cloned()).map_err(|error| {
        let problem = match error {
            ConfigurationError::SecretsLost { .. } => return ApiError::Unusable(error),
            ConfigurationError::MissingVariables { .. } => {
                format!("{error}: give them in variables")
            }
            error => error.to_string(),
        };
        ApiError::Body { expected: EXPECTED, problem }
    })?;
    // They are replaced when their test begins.
    if !configuration.server_configs.is_empty() {
        for case in &mut cases {
            case.server_configs = None;
        }
    }
    if configuration.judge_config.is_some() {
        for case in &mut cases {
            case.judge_config = None;
        }
    }
    batch::check(&shared, &cases, EXPECTED)?;
    if let Some(refusal) = shared.tests.refusal_of_servers(&configuration.server_configs) {
        return Err(ApiError::Forbidden(refusal));
    }
    let name = name.unwrap_or(configuration.name);
    let batch = Batch {
        request: BatchRequest { name: Some(name), cases, concurrency },
        configuration_id: Some(configuration.id),
        configuration: Some(Arc::new(resolved)),
    };
    batch::start(shared, slot, connection, batch).await
}

async fn find(shared: &Shared, id: String) -> Result<Configuration, ApiError> {
    let found = shared.tests.runner().store().configuration(&id).await?;
    found.ok_or(ApiError::NoConfiguration(id))
}
