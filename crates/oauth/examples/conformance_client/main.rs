//! The client for the official conformance suite; the suite's scenarios define what it does.
//!
//! `cargo xtask conformance --side client` runs the suite against it. By hand: `conformance client
//! --command target/debug/examples/conformance_client --scenario initialize`. The suite starts the
//! program once for each scenario, with the URL of a server as its last argument.

mod answers;
mod auth;
mod basics;
mod skills;

use std::{env, error::Error};

use marquetry_protocol::{
    Revision,
    client::{Client, ClientOptions, HttpTarget, RevisionChoice},
};
use serde_json::{Value, json};

/// Any failure ends the program, with a message for the suite's log.
type Failed = Box<dyn Error + Send + Sync>;

/// The scenario that the suite runs.
struct Assignment {
    scenario: String,
    revision: Revision,
    /// Data of the scenario, for example credentials; null for most scenarios.
    context: Value,
    url: String,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let assignment = Assignment::from_environment()?;
    match assignment.scenario.as_str() {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            basics::connect(&assignment).await
        }
        "tools_call" => basics::call_tools(&assignment, &json!({ "a": 5, "b": 3 })).await,
        "elicitation-sep1034-client-defaults" | "sse-retry" => {
            basics::call_tools(&assignment, &json!({})).await
        }
        "http-invalid-tool-headers" => {
            basics::call_tools(&assignment, &json!({ "region": "eu" })).await
        }
        "http-custom-headers" => basics::call_as_told(&assignment).await,
        "http-standard-headers" => basics::use_everything(&assignment).await,
        "json-schema-2020-12-preservation" => basics::return_schema(&assignment).await,
        "sep-2322-client-request-state" => Box::pin(basics::answer_questions(&assignment)).await,
        "sep-2640-client-no-prefetch" => skills::list(&assignment).await,
        name if name.starts_with("sep-2640-client-verify-") => skills::load(&assignment).await,
        name if name.starts_with("auth/") => auth::run(&assignment).await,
        _ => Err(assignment.not_supported()),
    }
}

impl Assignment {
    fn from_environment() -> Result<Self, Failed> {
        let revision = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")
            .map_or(Ok(Revision::LATEST_SESSION), |version| version.parse())?;
        let context = env::var("MCP_CONFORMANCE_CONTEXT")
            .map_or(Ok(Value::Null), |context| serde_json::from_str(&context))?;
        Ok(Self {
            scenario: env::var("MCP_CONFORMANCE_SCENARIO")?,
            revision,
            context,
            url: env::args().next_back().ok_or("usage: conformance_client URL")?,
        })
    }

    async fn connect(&self, options: ClientOptions) -> Result<Client, Failed> {
        let target = HttpTarget { url: self.url.clone(), ..Default::default() };
        let options = ClientOptions { revision: RevisionChoice::Only(self.revision), ..options };
        Ok(Client::http(target, options).await?)
    }

    fn not_supported(&self) -> Failed {
        format!("scenario '{}' is not supported", self.scenario).into()
    }
}
