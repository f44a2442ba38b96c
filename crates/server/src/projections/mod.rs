//! Projections: the argument `_select` of upstreams' tools, a jq program over the answer.

mod answer;
mod listing;

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;
use marquetry_artifacts::report::KeptFromModel;
use marquetry_data_query::{JqError, QueryLimits, jq_holding};
use marquetry_gateway::Catalog;
use marquetry_protocol::{
    server::RequestContext,
    types::{CallToolParams, Tool},
};
use marquetry_tokens::estimate_by_pieces;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::answer::Answer;
pub(crate) use self::answer::failed_selection;
use crate::clients::Client;

/// Name of the argument.
pub(crate) const SELECT: &str = "_select";

/// Projections that run at the same time. Each holds its answer in memory several times; further
/// ones wait.
const MAX_AT_ONCE: usize = 4;

/// Largest data that a program works on, and its largest output, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Projections of answers, if `artifacts.projections` is on.
pub(crate) struct Projections {
    running: Option<Arc<Semaphore>>,
}

/// A program that a call applies to its answer.
#[derive(Debug)]
pub(crate) struct Selection {
    program: String,
}

/// The outcome of a program over an answer.
pub(crate) enum Projected {
    /// The answer passes unchanged: it is an error or not yet an answer.
    Unchanged(Box<RawValue>),
    /// The answer with the selected data in place of all, and the rest.
    Selected(Box<RawValue>, KeptFromModel),
    /// The whole answer, and the reason why nothing was selected from it.
    Failed(Box<RawValue>, String),
}

impl Projections {
    pub(crate) fn new(is_on: bool) -> Self {
        Self { running: is_on.then(|| Arc::new(Semaphore::new(MAX_AT_ONCE))) }
    }

    /// Returns a listed tool with the argument, if it is a tool of an upstream that takes it.
    pub(crate) fn listed(
        &self,
        mut tool: Tool,
        catalog: &Catalog,
        client: &Client,
        cx: &RequestContext,
    ) -> Tool {
        let route = catalog.tool(&tool.name);
        if self.running.is_some() && route.is_some_and(|route| !client.shows_view(&route.ui, cx)) {
            listing::announce(&mut tool);
        }
        tool
    }

    /// Removes the argument from a call of an upstream's tool. A program that is not valid is
    /// refused before the tool is called.
    ///
    /// # Errors
    ///
    /// Returns an error if the argument is not a program.
    pub(crate) async fn take(
        &self,
        params: &mut CallToolParams,
        catalog: &Catalog,
        client: &Client,
        cx: &RequestContext,
    ) -> Result<Option<Selection>, String> {
        let Some(running) = &self.running else { return Ok(None) };
        let Some(route) = catalog.tool(&params.name) else { return Ok(None) };
        let arguments = params.arguments.as_deref().map_or("", RawValue::get);
        // Most calls have none, and are not parsed. An escaped name is parsed, too.
        if !arguments.contains(SELECT) && !arguments.contains("\\u") {
            return Ok(None);
        }
        let is_own = catalog.tools.iter().any(|tool| tool.name == params.name && has_own(tool));
        let Ok(mut members) = serde_json::from_str::<IndexMap<String, Box<RawValue>>>(arguments)
        else {
            return Ok(None);
        };
        if is_own || !members.contains_key(SELECT) {
            return Ok(None);
        }
        let program = members.shift_remove(SELECT).map(|value| serde_json::from_str(value.get()));
        params.arguments = Some(
            to_raw_value(&members).map_err(|error| format!("{SELECT} is not valid: {error}"))?,
        );
        let program = match program {
            Some(Ok(Value::String(program))) => program,
            Some(Ok(Value::Null)) | None => return Ok(None),
            _ => return Err(format!("{SELECT} must be a jq program, as a string")),
        };
        if client.shows_view(&route.ui, cx) {
            // The View needs the whole answer.
            return Ok(None);
        }
        check(&program, running).await?;
        Ok(Some(Selection { program }))
    }

    /// Applies a program to an answer. The program ends early if this future is dropped.
    pub(crate) async fn apply(&self, selection: Selection, result: Box<RawValue>) -> Projected {
        let Some(running) = &self.running else { return Projected::Unchanged(result) };
        let permit = permit(running).await;
        let mut limits = QueryLimits::default();
        limits.max_output_bytes = MAX_BYTES;
        limits.max_rows = usize::MAX;
        let _cancelled = limits.cancel.on_drop();
        let done =
            tokio::task::spawn_blocking(move || select(&selection, result, &limits, permit)).await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// Returns whether a tool has a parameter of this name itself.
fn has_own(tool: &Tool) -> bool {
    tool.input_schema["properties"].get(SELECT).is_some()
}

/// A place among the programs that run at the same time. The work holds it, because it goes on for
/// some time when its call is cancelled.
type Permit = Option<OwnedSemaphorePermit>;

async fn permit(running: &Arc<Semaphore>) -> Permit {
    // The semaphore is never closed.
    running.clone().acquire_owned().await.ok()
}

/// Compiles a program, and runs it over `null` for a moment.
async fn check(program: &str, running: &Arc<Semaphore>) -> Result<(), String> {
    let permit = permit(running).await;
    let program = program.to_owned();
    let mut limits = QueryLimits::default();
    limits.time = Duration::from_millis(20);
    let done =
        tokio::task::spawn_blocking(move || jq_holding("null", &program, &limits, permit)).await;
    match done {
        Ok(Err(error @ JqError::Program(_))) => {
            Err(format!("{SELECT}: {error}. The tool was not called."))
        }
        // Only programs over real data can fail.
        _ => Ok(()),
    }
}

fn select(
    selection: &Selection,
    result: Box<RawValue>,
    limits: &QueryLimits,
    permit: Permit,
) -> Projected {
    let permit = Arc::new(permit);
    let answer = match Answer::parse(&result) {
        Ok(Some(answer)) => answer,
        Ok(None) => return Projected::Unchanged(result),
        Err(why) => return Projected::Failed(result, why),
    };
    let data = answer.data();
    if data.len() > MAX_BYTES {
        let why = format!("the data has {} bytes, more than {MAX_BYTES}", data.len());
        return Projected::Failed(result, why);
    }
    let tokens = estimate_by_pieces(data);
    let selected = match jq_holding(data, &selection.program, limits, permit.clone()) {
        Ok(output) if output.has_more => Err(format!("the output has more than {MAX_BYTES} bytes")),
        Ok(output) => {
            let shown = estimate_by_pieces(&output.text);
            let selected = answer.with_text(&output.text).map_err(|error| error.to_string());
            selected.map(|selected| (selected, tokens.saturating_sub(shown)))
        }
        Err(error) => Err(error.to_string()),
    };
    match selected {
        Ok((selected, tokens)) => {
            let mut kept = KeptFromModel::default();
            kept.bytes = result.get().len().saturating_sub(selected.get().len()) as u64;
            kept.tokens = if kept.is_nothing() { 0 } else { tokens };
            Projected::Selected(selected, kept)
        }
        Err(why) => Projected::Failed(result, why),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn cancelled_programs_end_and_hold_their_places_until_then() {
        let projections = Projections::new(true);
        let running = projections.running.as_ref().unwrap();
        let result = to_raw_value(&json!({"content": [{"type": "text", "text": "1"}]})).unwrap();
        let mut calls = Vec::new();
        for _ in 0..MAX_AT_ONCE {
            let selection = Selection { program: "def f: f; f".to_owned() };
            calls.push(projections.apply(selection, result.clone()));
        }
        let all = futures_util::future::join_all(calls);
        let cancelled = tokio::time::timeout(Duration::from_millis(200), all).await;
        let places = running.available_permits();
        assert!(cancelled.is_err() && places < MAX_AT_ONCE, "{places} places are free");
        let start = Instant::now();
        while running.available_permits() < MAX_AT_ONCE {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Alone, the programs take two seconds.
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
}
