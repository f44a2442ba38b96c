//! The OpenAPI document, from the types that the handlers use.

use marquetry_judge::{
    TestCase, TestResult,
    store::{Page, TestRun},
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    batch::{BatchRequest, ResultEvent},
    operations::Operation,
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
    // The data of the events of a batch.
    schemas.subschema_for::<ResultEvent>();
    json!({
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
    })
}

/// Returns the JSON Schema of a test case.
pub(super) fn case_schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<TestCase>().into()
}

fn describe(operation: Operation, schemas: &mut SchemaGenerator) -> Value {
    match operation {
        Operation::Health => json!({
            "operationId": "health",
            "summary": "Tells whether tests can be run here. Needs no token.",
            "responses": answers(json_of::<Health>(schemas), &[]),
        }),
        Operation::Run => json!({
            "operationId": "runTest",
            "summary": "Runs one test. A test that fails or cannot be run is answered with its result and status 200.",
            "requestBody": {"required": true, "content": json_of::<TestCase>(schemas)},
            "responses": answers(json_of::<TestResult>(schemas), &["400", "413", "415", "503"]),
        }),
        Operation::Batch => json!({
            "operationId": "runBatch",
            "summary": "Runs many tests as one run. The events are `started` (TestRun), `result` (ResultEvent) for each test, and `completed` (TestRun) or `failed` (Error). Closing the connection stops the batch.",
            "requestBody": {"required": true, "content": json_of::<BatchRequest>(schemas)},
            "responses": answers(
                json!({"text/event-stream": {"schema": {"type": "string"}}}),
                &["400", "413", "415"],
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
            "parameters": [
                {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
            ],
            "responses": answers(json_of::<TestRun>(schemas), &["404"]),
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
        answers.insert(
            (*status).to_owned(),
            json!({"description": "Why there is no answer.", "content": content}),
        );
    }
    answers.into()
}
