#![doc = include_str!("../README.md")]

mod answer;
mod listing;

use std::{sync::Arc, time::Duration};

use indexmap::IndexMap;
use marquetry_artifacts::report::KeptFromModel;
use marquetry_data_query::{JqError, QueryLimits, jq_holding};
use marquetry_protocol::types::{CallToolParams, Tool};
use marquetry_tokens::estimate_by_pieces;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::answer::Answer;
pub use self::{answer::failed_selection, listing::announce};

/// Name of the argument.
pub const SELECT: &str = "_select";

/// Projections that run at the same time. Each holds its answer in memory several times; further
/// ones wait.
const MAX_AT_ONCE: usize = 4;

/// Largest data that a program works on, and its largest output, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// Runs the programs of calls over their answers, a few at the same time.
#[derive(Debug)]
pub struct Projections {
    running: Arc<Semaphore>,
}

/// Why the value of `_select` is not a program; the tool was not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSelection {
    /// The value is not a string.
    #[error("{SELECT} must be a jq program, as a string")]
    NotText,
    /// The program does not compile.
    #[error("{SELECT}: {why}. The tool was not called.")]
    Program {
        /// What is wrong with it.
        why: String,
    },
}

/// A program that a call applies to its answer.
#[derive(Debug)]
pub struct Selection {
    program: String,
}

/// The outcome of a program over an answer.
#[derive(Debug)]
pub enum Projected {
    /// The answer passes unchanged: it is an error or not yet an answer.
    Unchanged(Box<RawValue>),
    /// The answer with the selected data in place of all, and the rest.
    Selected(Box<RawValue>, KeptFromModel),
    /// The whole answer, and the reason why nothing was selected from it.
    Failed(Box<RawValue>, String),
}

impl Default for Projections {
    fn default() -> Self {
        Self { running: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }
}

impl Projections {
    /// Removes the argument from a call, and returns its program. A program that is not valid is
    /// refused before the tool is called.
    ///
    /// # Errors
    ///
    /// Returns an error if the argument is not a program.
    pub async fn take(
        &self,
        params: &mut CallToolParams,
    ) -> Result<Option<Selection>, InvalidSelection> {
        if !may_select(params) {
            return Ok(None);
        }
        let arguments = params.arguments.as_deref().map_or("", RawValue::get);
        let Ok(mut members) = serde_json::from_str::<IndexMap<String, Box<RawValue>>>(arguments)
        else {
            return Ok(None);
        };
        let Some(program) = members.shift_remove(SELECT) else { return Ok(None) };
        // Texts and raw values are always JSON.
        params.arguments = to_raw_value(&members).ok();
        let program = match serde_json::from_str(program.get()) {
            Ok(Value::String(program)) => program,
            Ok(Value::Null) => return Ok(None),
            _ => return Err(InvalidSelection::NotText),
        };
        check(&program, &self.running).await?;
        Ok(Some(Selection { program }))
    }

    /// Applies a program to an answer. The program ends early if this future is dropped.
    pub async fn apply(&self, selection: Selection, result: Box<RawValue>) -> Projected {
        let permit = permit(&self.running).await;
        let mut limits = QueryLimits::default();
        limits.max_output_bytes = MAX_BYTES;
        limits.max_rows = usize::MAX;
        let _cancelled = limits.cancel.on_drop();
        let done =
            tokio::task::spawn_blocking(move || select(&selection, result, &limits, permit)).await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

/// Returns whether a call may have the argument. Most calls have none, and are not parsed.
#[must_use]
pub fn may_select(params: &CallToolParams) -> bool {
    let arguments = params.arguments.as_deref().map_or("", RawValue::get);
    // An escaped name is parsed, too.
    arguments.contains(SELECT) || arguments.contains("\\u")
}

/// Returns whether a tool has a parameter of this name itself.
#[must_use]
pub fn has_own(tool: &Tool) -> bool {
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
async fn check(program: &str, running: &Arc<Semaphore>) -> Result<(), InvalidSelection> {
    let permit = permit(running).await;
    let program = program.to_owned();
    let mut limits = QueryLimits::default();
    limits.time = Duration::from_millis(20);
    let done =
        tokio::task::spawn_blocking(move || jq_holding("null", &program, &limits, permit)).await;
    match done {
        Ok(Err(error @ JqError::Program(_))) => {
            Err(InvalidSelection::Program { why: error.to_string() })
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
        let projections = Projections::default();
        let running = &projections.running;
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
