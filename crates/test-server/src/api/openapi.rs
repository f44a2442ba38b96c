//! The OpenAPI document, from the types that the handlers use.

use marquetry_judge::{
    TestCase, TestResult,
    store::{
        CaseHistory, Comparison, Configuration, Flakiness, JudgeAgreement, NewConfiguration,
        Outcome, Override, Page, TestRun,
    },
};
use marquetry_protocol::join_description_lines;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    batch::{BatchRequest, ResultEvent},
    configurations::ConfigurationRunRequest,
    live::{EndedEvent, ProgressEvent},
    operations::Operation,
    results::OverrideRequest,
};
use crate::{Health, query};

/// Returns the OpenAPI 3.1 document of the API.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for operation in Operation::ALL {
        let item = paths.entry(operation.path()).or_insert_with(|| json!({}));
        item[operation.method()] = describe(operation, &mut schemas);
    }
    // The data of events.
    schemas.subschema_for::<ResultEvent>();
    schemas.subschema_for::<ProgressEvent>();
    schemas.subschema_for::<EndedEvent>();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Marquetry test API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs end-to-end tests of MCP servers: a prompt, an agent with a model, the tools that it calls, and a judge.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    });
    join_description_lines(&mut document);
    document
}

/// Statuses of refused bodies: malformed (400), too slow (408), too long (413), of another type
/// (415).
const BODY_FAILURES: [&str; 4] = ["400", "408", "413", "415"];

fn describe(operation: Operation, schemas: &mut SchemaGenerator) -> Value {
    match operation {
        Operation::Health => json!({
            "operationId": "health",
            "summary": "Returns whether tests can be run here. Needs no token.",
            "responses": answers(json_of::<Health>(schemas), &[]),
        }),
        Operation::Run => json!({
            "operationId": "runTest",
            "summary": "Runs one test. A test that fails or cannot be run is answered with its result and status 200.",
            "requestBody": {"required": true, "content": json_of::<TestCase>(schemas)},
            "responses": answers(json_of::<TestResult>(schemas), &[&BODY_FAILURES[..], &["503"]].concat()),
        }),
        Operation::Batch => json!({
            "operationId": "runBatch",
            "summary": "Runs many tests as one run. The events are `started` (TestRun), `result` (ResultEvent) for each test, and `completed` (TestRun) or `failed` (Error). The batch stops if the client closes the connection or reads nothing for a minute.",
            "requestBody": {"required": true, "content": json_of::<BatchRequest>(schemas)},
            "responses": answers(
                json!({"text/event-stream": {"schema": {"type": "string"}}}),
                &[&BODY_FAILURES[..], &["503"]].concat(),
            ),
        }),
        Operation::Results => json!({
            "operationId": "results",
            "summary": "Returns a page of stored results, the newest first.",
            "parameters": parameters(),
            "responses": answers(json_of::<Page<TestResult>>(schemas), &["400"]),
        }),
        Operation::Runs => json!({
            "operationId": "runs",
            "summary": "Returns a page of runs, the newest first.",
            "parameters": [parameters()[5].clone(), parameters()[6].clone()],
            "responses": answers(json_of::<Page<TestRun>>(schemas), &["400"]),
        }),
        Operation::RunOfId => json!({
            "operationId": "run",
            "summary": "Returns one run.",
            "parameters": [id()],
            "responses": answers(json_of::<TestRun>(schemas), &["404"]),
        }),
        Operation::Result => json!({
            "operationId": "result",
            "summary": "Returns one result with its trials, calls and votes.",
            "parameters": [id()],
            "responses": answers(json_of::<TestResult>(schemas), &["404"]),
        }),
        Operation::Overrides => json!({
            "operationId": "overrides",
            "summary": "Returns people's verdicts on the trials of a result, the oldest first.",
            "parameters": [id()],
            "responses": answers(json_of::<Page<Override>>(schemas), &["404"]),
        }),
        Operation::Override => json!({
            "operationId": "putOverride",
            "summary": "Stores a person's verdict on a trial; a later one of the same author replaces it. The result stays unchanged; the verdict measures the judge.",
            "parameters": [id()],
            "requestBody": {"required": true, "content": json_of::<OverrideRequest>(schemas)},
            "responses": answers(json_of::<Override>(schemas), &[&BODY_FAILURES[..], &["404"]].concat()),
        }),
        Operation::Outcomes => json!({
            "operationId": "outcomes",
            "summary": "Returns short forms of results, without trials, the newest first.",
            "parameters": [
                parameters()[0].clone(),
                parameters()[2].clone(),
                integer("limit", "Items: 1,000 by default, at most 10,000."),
            ],
            "responses": answers(json_of::<Page<Outcome>>(schemas), &["400"]),
        }),
        Operation::Cases => json!({
            "operationId": "cases",
            "summary": "Returns the pass rate of each case and how often its verdict changed, the most varying first, from the newest 10,000 results.",
            "responses": answers(json_of::<Page<Flakiness>>(schemas), &[]),
        }),
        Operation::History => json!({
            "operationId": "history",
            "summary": "Returns the history of a case.",
            "parameters": [
                required("name", "Name of the test."),
                integer("limit", "Results: 1,000 by default, at most 10,000."),
            ],
            "responses": answers(json_of::<CaseHistory>(schemas), &["400"]),
        }),
        Operation::Compare => json!({
            "operationId": "compare",
            "summary": "Compares two runs.",
            "parameters": [
                required("base", "Id of the older run."),
                required("new", "Id of the newer run."),
            ],
            "responses": answers(json_of::<Comparison>(schemas), &["400", "404"]),
        }),
        Operation::Judges => json!({
            "operationId": "judges",
            "summary": "Returns how well each judge agrees with people's verdicts: agreement and Cohen's kappa, by model and instructions.",
            "responses": answers(json_of::<Page<JudgeAgreement>>(schemas), &[]),
        }),
        Operation::Events => json!({
            "operationId": "events",
            "summary": "Streams the progress of running tests. The events are `open` first, then the last steps of the tests that run; `runStarted` and `runEnded` (TestRun), `progress` (ProgressEvent), `ended` (EndedEvent), and `missed` ({count}) for events that a slow reader lost.",
            "parameters": [
                text("run", "Id of a run; without it, all tests."),
            ],
            "responses": answers(json!({"text/event-stream": {"schema": {"type": "string"}}}), &["400", "503"]),
        }),
        Operation::Configurations => json!({
            "operationId": "configurations",
            "summary": "Returns a page of configurations, the newest first. The first configuration of a name is the current one.",
            "parameters": [
                text("name", "Name of a configuration."),
                {
                    "name": "origin",
                    "in": "query",
                    "description": "Whether a user created it, or it was stored with a run.",
                    "schema": {"enum": ["created", "derived"]},
                },
                parameters()[5].clone(),
                parameters()[6].clone(),
            ],
            "responses": answers(json_of::<Page<Configuration>>(schemas), &["400"]),
        }),
        Operation::CreateConfiguration => json!({
            "operationId": "createConfiguration",
            "summary": "Stores servers and a judge under a name. Values of variables, headers and keys are references such as `${NAME}`: secrets are refused. A configuration of an existing name is a new version; the older ones stay for the runs that used them.",
            "requestBody": {"required": true, "content": json_of::<NewConfiguration>(schemas)},
            "responses": answers(json_of::<Configuration>(schemas), &BODY_FAILURES),
        }),
        Operation::Configuration => json!({
            "operationId": "configuration",
            "summary": "Returns one configuration.",
            "parameters": [id()],
            "responses": answers(json_of::<Configuration>(schemas), &["404"]),
        }),
        Operation::DeleteConfiguration => json!({
            "operationId": "deleteConfiguration",
            "summary": "Deletes a configuration, and returns it. A configuration that a run uses is not deleted (409).",
            "parameters": [id()],
            "responses": answers(json_of::<Configuration>(schemas), &["404", "409"]),
        }),
        Operation::RunConfiguration => json!({
            "operationId": "runConfiguration",
            "summary": "Runs many tests as one run, with the servers and the judge of a configuration instead of their own. The events are those of `runBatch`. A configuration that was stored with a run is refused (409) if it had secrets.",
            "parameters": [id()],
            "requestBody": {"required": true, "content": json_of::<ConfigurationRunRequest>(schemas)},
            "responses": answers(
                json!({"text/event-stream": {"schema": {"type": "string"}}}),
                &[&BODY_FAILURES[..], &["404", "409", "503"]].concat(),
            ),
        }),
        Operation::Document => json!({
            "operationId": "document",
            "summary": "Returns this document.",
            "responses": answers(any_json(), &[]),
        }),
        Operation::CaseSchema => json!({
            "operationId": "caseSchema",
            "summary": "Returns the JSON Schema of a test case.",
            "responses": answers(any_json(), &[]),
        }),
    }
}

/// The filters of results.
fn parameters() -> Vec<Value> {
    query::PARAMETERS
        .into_iter()
        .map(|(name, about, schema)| {
            let schema: Value = match schema {
                "integer" => json!({"type": "integer", "minimum": 1}),
                "status" => json!({"enum": ["passed", "failed", "error"]}),
                "time" => json!({"type": "string", "format": "date-time"}),
                _ => json!({"type": "string"}),
            };
            json!({"name": name, "in": "query", "description": about, "schema": schema})
        })
        .collect()
}

fn id() -> Value {
    json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}})
}

fn text(name: &str, about: &str) -> Value {
    let text = json!({"type": "string"});
    json!({"name": name, "in": "query", "description": about, "schema": text})
}

fn required(name: &str, about: &str) -> Value {
    let mut parameter = text(name, about);
    parameter["required"] = true.into();
    parameter
}

fn integer(name: &str, about: &str) -> Value {
    let number = json!({"type": "integer", "minimum": 1});
    json!({"name": name, "in": "query", "description": about, "schema": number})
}

fn json_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    json!({"application/json": {"schema": schemas.subschema_for::<T>()}})
}

fn any_json() -> Value {
    json!({"application/json": {"schema": {"type": "object"}}})
}

fn answers(content: Value, failures: &[&str]) -> Value {
    let error = json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string"}},
    });
    let mut answers = Map::new();
    answers.insert("200".to_owned(), json!({"description": "The answer.", "content": content}));
    for status in failures.iter().chain(&["401", "403", "500"]) {
        let content = json!({"application/json": {"schema": error}});
        answers
            .insert((*status).to_owned(), json!({"description": "The error.", "content": content}));
    }
    answers.into()
}
