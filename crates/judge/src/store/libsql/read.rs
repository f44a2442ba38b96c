//! Reading.

use std::collections::HashMap;

use libsql::{Connection, Row, Value, params, params::IntoParams, params_from_iter};
use marquetry_database::{
    DatabaseError,
    libsql::{error, json, select},
};
use serde::de::DeserializeOwned;

use super::super::{
    Agreement, Configuration, Outcome, OutcomeFilter, Override, ResultFilter, RunStatus, TestRun,
};
use crate::{
    Status, TestResult, Timestamp, ToolCallRecord, Trial,
    result::{TrialCounts, Vote},
};

/// Returns the condition of a page of results, newest first, and its values. The page has one result more.
pub(super) fn condition(filter: &ResultFilter) -> (String, impl IntoParams) {
    let mut conditions = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |condition: &'static str, value: Option<String>| {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value.into());
        }
    };
    add("test_name = ?", filter.name.clone());
    add("status = ?", filter.status.map(|status| status.as_str().to_owned()));
    add("run_id = ?", filter.run.clone());
    add("created_at >= ?", filter.since.map(|time| time.to_string()));
    add("created_at < ?", filter.until.map(|time| time.to_string()));
    add("id < ?", filter.page.cursor.clone());
    let joined = match conditions.is_empty() {
        true => String::new(),
        false => format!("WHERE {} ", conditions.join(" AND ")),
    };
    let limit = filter.page.size() + 1;
    (format!("{joined}ORDER BY id DESC LIMIT {limit}"), params_from_iter(values))
}

pub(super) fn results(
    connection: &Connection,
    condition: &str,
    values: impl IntoParams,
) -> Result<Vec<TestResult>, DatabaseError> {
    let sql = format!(
        "SELECT id, run_id, test_case, judge_verdict, duration_ms, status, error, created_at FROM test_results {condition}"
    );
    let mut found = select(connection, &sql, values, |row| {
        let status = status(row, 5)?;
        Ok::<_, DatabaseError>(TestResult {
            id: get(row, 0)?,
            run_id: get(row, 1)?,
            test_case: json(row, 2)?,
            tool_calls: Vec::new(),
            verdict: json(row, 3)?,
            duration: number(row, 4)?,
            success: status == Status::Passed,
            status,
            error: get(row, 6)?,
            timestamp: time(row, 7)?,
            trials: Vec::new(),
        })
    })?;
    // One query a result is less than a join, which would repeat the columns of each trial.
    for result in &mut found {
        result.trials = trials(connection, &result.id)?;
        if let Some(trial) = result.deciding_trial() {
            result.tool_calls = trial.tool_calls.clone();
        }
    }
    Ok(found)
}

fn trials(connection: &Connection, result: &str) -> Result<Vec<Trial>, DatabaseError> {
    let mut calls: HashMap<u32, Vec<ToolCallRecord>> = HashMap::new();
    let sql = "SELECT trial, tool_name, server_id, parameters, response, execution_time_ms, success, error, created_at \
        FROM test_calls WHERE result_id = ? ORDER BY trial, call";
    for (trial, call) in select(connection, sql, params![result], |row| {
        let call = ToolCallRecord {
            tool_name: get(row, 1)?,
            server_id: get(row, 2)?,
            parameters: json(row, 3)?,
            response: json(row, 4)?,
            execution_time_ms: number(row, 5)?,
            success: get(row, 6)?,
            error: get(row, 7)?,
            timestamp: time(row, 8)?,
        };
        Ok::<_, DatabaseError>((get::<u32>(row, 0)?, call))
    })? {
        calls.entry(trial).or_default().push(call);
    }
    let mut votes: HashMap<u32, Vec<Vote>> = HashMap::new();
    let sql = "SELECT trial, number, passed, answers, reasoning, suggestions, model, prompt_hash, usage, duration_ms \
        FROM test_votes WHERE result_id = ? ORDER BY trial, vote";
    for (trial, vote) in select(connection, sql, params![result], |row| {
        let vote = Vote {
            index: get(row, 1)?,
            passed: get(row, 2)?,
            answers: json(row, 3)?,
            reasoning: get(row, 4)?,
            suggestions: get(row, 5)?,
            model: get(row, 6)?,
            prompt_hash: get(row, 7)?,
            usage: json(row, 8)?,
            duration_ms: number(row, 9)?,
        };
        Ok::<_, DatabaseError>((get::<u32>(row, 0)?, vote))
    })? {
        votes.entry(trial).or_default().push(vote);
    }
    let sql = "SELECT trial, status, error, answer, turns, checks, verdict, usage, work_ms, duration_ms \
        FROM test_trials WHERE result_id = ? ORDER BY trial";
    let mut trials = select(connection, sql, params![result], |row| {
        Ok::<_, DatabaseError>(Trial {
            index: get(row, 0)?,
            status: status(row, 1)?,
            error: get(row, 2)?,
            answer: get(row, 3)?,
            turns: json(row, 4)?,
            checks: json(row, 5)?,
            verdict: json(row, 6)?,
            usage: json(row, 7)?,
            work_ms: number(row, 8)?,
            duration_ms: number(row, 9)?,
            tool_calls: Vec::new(),
            votes: Vec::new(),
        })
    })?;
    for trial in &mut trials {
        trial.tool_calls = calls.remove(&trial.index).unwrap_or_default();
        trial.votes = votes.remove(&trial.index).unwrap_or_default();
    }
    Ok(trials)
}

pub(super) fn outcomes(
    connection: &Connection,
    filter: &OutcomeFilter,
) -> Result<Vec<Outcome>, DatabaseError> {
    let sql = "SELECT id, test_name, run_id, status, passed_trials, failed_trials, error_trials, tool_accuracy, \
        duration_ms, created_at FROM test_results WHERE (?1 IS NULL OR test_name = ?1) AND (?2 IS NULL OR run_id = ?2) \
        ORDER BY id DESC LIMIT ?3";
    let size = i64::try_from(filter.size()).unwrap_or(i64::MAX);
    select(connection, sql, params![filter.name.clone(), filter.run.clone(), size], |row| {
        Ok(Outcome {
            result_id: get(row, 0)?,
            test_name: get(row, 1)?,
            run_id: get(row, 2)?,
            status: status(row, 3)?,
            trials: TrialCounts {
                passed: get(row, 4)?,
                failed: get(row, 5)?,
                errors: get(row, 6)?,
            },
            tool_accuracy: get(row, 7)?,
            duration_ms: number(row, 8)?,
            timestamp: time(row, 9)?,
        })
    })
}

pub(super) fn configuration(
    connection: &Connection,
    id: &str,
) -> Result<Option<Configuration>, DatabaseError> {
    let sql = "SELECT id, name, description, server_configs, judge_config FROM test_configurations WHERE id = ?";
    let found = select(connection, sql, params![id], |row| {
        let judge_config: Option<String> = get(row, 4)?;
        Ok::<_, DatabaseError>(Configuration {
            id: get(row, 0)?,
            name: get(row, 1)?,
            description: get(row, 2)?,
            server_configs: json(row, 3)?,
            judge_config: judge_config.as_deref().map(parsed).transpose()?,
        })
    })?;
    Ok(found.into_iter().next())
}

/// The columns of [`read_run`]; the numbers are counted from results, so that those of a running batch are right, and
/// those of one whose process was killed.
const RUN: &str = "SELECT r.id, r.name, r.configuration_id, r.total_tests, r.started_at, r.completed_at, r.status, \
    (SELECT count(*) FROM test_results t WHERE t.run_id = r.id AND t.status = 'passed'), \
    (SELECT count(*) FROM test_results t WHERE t.run_id = r.id AND t.status = 'failed'), \
    (SELECT count(*) FROM test_results t WHERE t.run_id = r.id AND t.status = 'error'), \
    coalesce(r.seen_at, r.started_at) FROM test_runs r";

pub(super) fn run(connection: &Connection, id: &str) -> Result<Option<TestRun>, DatabaseError> {
    let found = select(connection, &format!("{RUN} WHERE r.id = ?"), params![id], read_run)?;
    Ok(found.into_iter().next())
}

pub(super) fn runs(
    connection: &Connection,
    before: Option<&str>,
    limit: usize,
) -> Result<Vec<TestRun>, DatabaseError> {
    let sql = format!("{RUN} WHERE (?1 IS NULL OR r.id < ?1) ORDER BY r.id DESC LIMIT {limit}");
    select(connection, &sql, params![before.map(str::to_owned)], read_run)
}

fn read_run(row: &Row) -> Result<TestRun, DatabaseError> {
    let completed: Option<String> = get(row, 5)?;
    let status: String = get(row, 6)?;
    let run = TestRun {
        id: get(row, 0)?,
        name: get(row, 1)?,
        configuration_id: get(row, 2)?,
        total_tests: get(row, 3)?,
        started_at: time(row, 4)?,
        completed_at: completed
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(DatabaseError::damaged)?,
        status: match status.as_str() {
            "running" => RunStatus::Running,
            "completed" => RunStatus::Completed,
            "failed" => RunStatus::Failed,
            other => {
                return Err(DatabaseError::damaged(format_args!("a run has the status {other:?}")));
            }
        },
        passed_tests: get(row, 7)?,
        failed_tests: get(row, 8)?,
        error_tests: get(row, 9)?,
    };
    Ok(run.seen(time(row, 10)?, Timestamp::now()))
}

pub(super) fn overrides(connection: &Connection, id: &str) -> Result<Vec<Override>, DatabaseError> {
    let sql = "SELECT result_id, trial, passed, reason, author, created_at FROM test_overrides \
        WHERE result_id = ? ORDER BY created_at";
    select(connection, sql, params![id], |row| {
        Ok(Override {
            result_id: get(row, 0)?,
            trial: get(row, 1)?,
            passed: get(row, 2)?,
            reason: get(row, 3)?,
            author: get(row, 4)?,
            timestamp: time(row, 5)?,
        })
    })
}

pub(super) fn agreements(connection: &Connection) -> Result<Vec<Agreement>, DatabaseError> {
    // Of several overrides of a trial the newest counts: SQLite takes the other columns from the row of the maximum.
    let sql = "SELECT v.model, v.prompt_hash, sum(v.passed) * 2 > count(*), o.passed FROM \
        (SELECT result_id, trial, passed, max(created_at) FROM test_overrides GROUP BY result_id, trial) o \
        JOIN test_votes v ON v.result_id = o.result_id AND v.trial = o.trial \
        GROUP BY o.result_id, o.trial ORDER BY o.result_id, o.trial";
    select(connection, sql, (), |row| {
        Ok(Agreement {
            model: get(row, 0)?,
            prompt_hash: get(row, 1)?,
            judge_passed: get(row, 2)?,
            human_passed: get(row, 3)?,
        })
    })
}

fn get<T: Column>(row: &Row, column: i32) -> Result<T, DatabaseError> {
    T::read(row, column)
}

/// A type of columns.
trait Column: Sized {
    fn read(row: &Row, column: i32) -> Result<Self, DatabaseError>;
}

macro_rules! columns {
    ($($kind:ty),*) => {$(
        impl Column for $kind {
            fn read(row: &Row, column: i32) -> Result<Self, DatabaseError> {
                row.get(column).map_err(error)
            }
        }
    )*};
}

columns!(String, Option<String>, u32, bool, f64);

fn number(row: &Row, column: i32) -> Result<u64, DatabaseError> {
    let number: i64 = row.get(column).map_err(error)?;
    u64::try_from(number).map_err(DatabaseError::damaged)
}

fn time(row: &Row, column: i32) -> Result<Timestamp, DatabaseError> {
    get::<String>(row, column)?.parse().map_err(DatabaseError::damaged)
}

fn status(row: &Row, column: i32) -> Result<Status, DatabaseError> {
    match get::<String>(row, column)?.as_str() {
        "passed" => Ok(Status::Passed),
        "failed" => Ok(Status::Failed),
        "error" => Ok(Status::Error),
        other => Err(DatabaseError::damaged(format_args!("a result has the status {other:?}"))),
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, DatabaseError> {
    serde_json::from_str(text).map_err(DatabaseError::damaged)
}
