//! Projections: the argument `_select` of upstreams' tools, a jq program over the answer.

mod answer;
mod listing;

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;
use marquetry_data_query::{JqError, QueryLimits, jq};
use marquetry_gateway::Catalog;
use marquetry_protocol::{
    server::RequestContext,
    types::{CallToolParams, Tool},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::Semaphore;

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

/// A projected answer, or the reason why there is none.
pub(crate) enum Projected {
    /// The answer passes unchanged: it is an error or not yet an answer.
    Unchanged(Box<RawValue>),
    /// The answer with the selected data in place of all, and an estimate of the tokens that the
    /// others would have cost.
    Selected(Box<RawValue>, u64),
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

    /// Applies a program to an answer.
    pub(crate) async fn apply(&self, selection: Selection, result: Box<RawValue>) -> Projected {
        let Some(running) = self.running.clone() else { return Projected::Unchanged(result) };
        // The semaphore is never closed.
        let _permit = running.acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || select(&selection, result)).await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// Returns whether a tool has a parameter of this name itself.
fn has_own(tool: &Tool) -> bool {
    tool.input_schema["properties"].get(SELECT).is_some()
}

/// Compiles a program, and runs it over `null` for a moment.
async fn check(program: &str, running: &Arc<Semaphore>) -> Result<(), String> {
    let _permit = running.clone().acquire_owned().await;
    let program = program.to_owned();
    let mut limits = QueryLimits::default();
    limits.time = Duration::from_millis(20);
    let checked = tokio::task::spawn_blocking(move || jq("null", &program, &limits)).await;
    match checked {
        Ok(Err(error @ JqError::Program(_))) => {
            Err(format!("{SELECT}: {error}. The tool was not called."))
        }
        // Only programs over real data can fail.
        _ => Ok(()),
    }
}

fn select(selection: &Selection, result: Box<RawValue>) -> Projected {
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
    let mut limits = QueryLimits::default();
    limits.max_output_bytes = MAX_BYTES;
    limits.max_rows = usize::MAX;
    let mut tokens = marquetry_tokens::estimate_by_pieces(data);
    let selected = match jq(data, &selection.program, &limits) {
        Ok(output) if output.has_more => Err(format!("the output has more than {MAX_BYTES} bytes")),
        Ok(output) => {
            let shown = marquetry_tokens::estimate_by_pieces(&output.text);
            tokens = tokens.saturating_sub(shown);
            answer.with_text(&output.text).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    match selected {
        Ok(selected) => Projected::Selected(selected, tokens),
        Err(why) => Projected::Failed(result, why),
    }
}
