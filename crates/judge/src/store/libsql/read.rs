//! Reading.

use std::collections::HashMap;

use libsql::{Value, params, params::IntoParams, params_from_iter};
use marquetry_database::{
    DatabaseError,
    libsql::{Row, Sql},
};
use serde::de::DeserializeOwned;

use super::super::{
    Agreement, Configuration, ConfigurationFilter, ConfigurationOrigin, Outcome, OutcomeFilter,
    Override, ResultFilter, RunStatus, TestRun,
};
use crate::{
    Status, TestResult, Timestamp, ToolCallRecord, Trial,
    result::{TrialCounts, Vote},
};

/// Returns the ids of a page of results, newest first, and one more id; each with the approximate
/// size of its result in bytes.
pub(super) fn ids(
    database: Sql<'_>,
    filter: &ResultFilter,
) -> Result<Vec<(String, usize)>, DatabaseError> {
    let (condition, values) = condition(filter);
    let sql = format!(
        "SELECT id, octet_length(test_case) \
         + (SELECT coalesce(sum(octet_length(parameters) + octet_length(response)), 0) FROM test_calls c WHERE c.result_id = r.id) \
         + (SELECT coalesce(sum(octet_length(answer) + octet_length(turns) + octet_length(checks)), 0) FROM test_trials t \
            WHERE t.result_id = r.id) \
         FROM test_results r {condition}"
    );
    database.select(&sql, values, |row| {
        let bytes = usize::try_from(row.get::<u64>(1)?).unwrap_or(usize::MAX);
        Ok((row.get(0)?, bytes))
    })
}

fn condition(filter: &ResultFilter) -> (String, impl IntoParams) {
    let all = [
        ("test_name = ?", filter.name.clone()),
        ("status = ?", filter.status.map(|status| status.as_str().to_owned())),
        ("run_id = ?", filter.run.clone()),
        ("created_at >= ?", filter.since.map(|time| time.to_string())),
        ("created_at < ?", filter.until.map(|time| time.to_string())),
        ("id < ?", filter.page.cursor.clone()),
    ];
    let given =
        all.into_iter().filter_map(|(condition, value)| Some((condition, Value::from(value?))));
    let (conditions, values): (Vec<&str>, Vec<Value>) = given.unzip();
    let joined = if conditions.is_empty() {
        String::new()
    } else {
        format!("WHERE {} ", conditions.join(" AND "))
    };
    let limit = filter.page.size() + 1;
    (format!("{joined}ORDER BY id DESC LIMIT {limit}"), params_from_iter(values))
}

pub(super) fn result(database: Sql<'_>, id: &str) -> Result<Option<TestResult>, DatabaseError> {
    let sql = "SELECT id, run_id, test_case, judge_verdict, duration_ms, status, error, created_at FROM test_results \
        WHERE id = ?";
    let found = database.select(sql, params![id], |row| {
        let status = status(row, 5)?;
        Ok::<_, DatabaseError>(TestResult {
            id: row.get(0)?,
            run_id: row.get(1)?,
            test_case: row.json(2)?,
            tool_calls: Vec::new(),
            verdict: row.json(3)?,
            duration: row.get(4)?,
            success: status == Status::Passed,
            status,
            error: row.get(6)?,
            timestamp: time(row, 7)?,
            trials: Vec::new(),
        })
    })?;
    let Some(mut result) = found.into_iter().next() else { return Ok(None) };
    // Separate queries return less data than a join, which would repeat the columns of each trial.
    result.trials = trials(database, id)?;
    if let Some(trial) = result.deciding_trial() {
        result.tool_calls = trial.tool_calls.clone();
    }
    Ok(Some(result))
}

fn trials(database: Sql<'_>, result: &str) -> Result<Vec<Trial>, DatabaseError> {
    let mut calls: HashMap<u32, Vec<ToolCallRecord>> = HashMap::new();
    let sql = "SELECT trial, tool_name, server_id, parameters, response, execution_time_ms, success, error, created_at \
        FROM test_calls WHERE result_id = ? ORDER BY trial, call";
    for (trial, call) in database.select(sql, params![result], |row| {
        let call = ToolCallRecord {
            tool_name: row.get(1)?,
            server_id: row.get(2)?,
            parameters: row.json(3)?,
            response: row.json(4)?,
            execution_time_ms: row.get(5)?,
            success: row.get(6)?,
            error: row.get(7)?,
            timestamp: time(row, 8)?,
        };
        Ok::<_, DatabaseError>((row.get::<u32>(0)?, call))
    })? {
        calls.entry(trial).or_default().push(call);
    }
    let mut votes: HashMap<u32, Vec<Vote>> = HashMap::new();
    let sql = "SELECT trial, number, passed, answers, reasoning, suggestions, model, prompt_hash, usage, duration_ms \
        FROM test_votes WHERE result_id = ? ORDER BY trial, vote";
    for (trial, vote) in database.select(sql, params![result], |row| {
        let vote = Vote {
            index: row.get(1)?,
            passed: row.get(2)?,
            answers: row.json(3)?,
            reasoning: row.get(4)?,
            suggestions: row.get(5)?,
            model: row.get(6)?,
            prompt_hash: row.get(7)?,
            usage: row.json(8)?,
            duration_ms: row.get(9)?,
        };
        Ok::<_, DatabaseError>((row.get::<u32>(0)?, vote))
    })? {
        votes.entry(trial).or_default().push(vote);
    }
    let sql = "SELECT trial, status, error, answer, turns, checks, verdict, usage, work_ms, duration_ms \
        FROM test_trials WHERE result_id = ? ORDER BY trial";
    let mut trials = database.select(sql, params![result], |row| {
        Ok::<_, DatabaseError>(Trial {
            index: row.get(0)?,
            status: status(row, 1)?,
            error: row.get(2)?,
            answer: row.get(3)?,
            turns: row.json(4)?,
            checks: row.json(5)?,
            verdict: row.json(6)?,
            usage: row.json(7)?,
            work_ms: row.get(8)?,
            duration_ms: row.get(9)?,
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
    database: Sql<'_>,
    filter: &OutcomeFilter,
) -> Result<Vec<Outcome>, DatabaseError> {
    let sql = "SELECT id, test_name, run_id, status, passed_trials, failed_trials, error_trials, tool_accuracy, \
        duration_ms, created_at FROM test_results WHERE (?1 IS NULL OR test_name = ?1) AND (?2 IS NULL OR run_id = ?2) \
        ORDER BY id DESC LIMIT ?3";
    let size = i64::try_from(filter.size()).unwrap_or(i64::MAX);
    database.select(sql, params![filter.name.clone(), filter.run.clone(), size], |row| {
        Ok(Outcome {
            result_id: row.get(0)?,
            test_name: row.get(1)?,
            run_id: row.get(2)?,
            status: status(row, 3)?,
            trials: TrialCounts { passed: row.get(4)?, failed: row.get(5)?, errors: row.get(6)? },
            tool_accuracy: row.get(7)?,
            duration_ms: row.get(8)?,
            timestamp: time(row, 9)?,
        })
    })
}

pub(super) fn configuration(
    database: Sql<'_>,
    id: &str,
) -> Result<Option<Configuration>, DatabaseError> {
    let sql = format!("{CONFIGURATION} WHERE id = ?");
    let found = database.select(&sql, params![id], read_configuration)?;
    Ok(found.into_iter().next())
}

/// The columns of [`read_configuration`].
const CONFIGURATION: &str = "SELECT id, name, description, server_configs, judge_config, origin, created_at, updated_at \
    FROM test_configurations";

pub(super) fn configurations(
    database: Sql<'_>,
    filter: &ConfigurationFilter,
    limit: usize,
) -> Result<Vec<Configuration>, DatabaseError> {
    let (time, id) = filter.after().unzip();
    let sql = format!(
        "{CONFIGURATION} WHERE (?1 IS NULL OR name = ?1) AND (?2 IS NULL OR origin = ?2) \
         AND (?3 IS NULL OR (created_at, id) < (?3, ?4)) ORDER BY created_at DESC, id DESC LIMIT {limit}"
    );
    let values = params![
        filter.name.clone(),
        filter.origin.map(|origin| origin.as_str().to_owned()),
        time.map(str::to_owned),
        id.map(str::to_owned),
    ];
    database.select(&sql, values, read_configuration)
}

fn read_configuration(row: &Row) -> Result<Configuration, DatabaseError> {
    let judge_config: Option<String> = row.get(4)?;
    Ok(Configuration {
        id: row.get(0)?,
        name: row.get(1)?,
        description: row.get(2)?,
        server_configs: row.json(3)?,
        judge_config: judge_config.as_deref().map(parsed).transpose()?,
        origin: match row.get::<String>(5)?.as_str() {
            "created" => ConfigurationOrigin::Created,
            "derived" => ConfigurationOrigin::Derived,
            other => {
                let problem = format_args!("a configuration has the origin {other:?}");
                return Err(DatabaseError::damaged(problem));
            }
        },
        created_at: time(row, 6)?,
        updated_at: time(row, 7)?,
    })
}

/// The columns of [`read_run`]; the numbers are counted from results, so that they are also right
/// for a running batch and for one whose process was killed.
const RUN: &str = "SELECT r.id, r.name, r.configuration_id, r.total_tests, r.started_at, r.completed_at, r.status, \
    (SELECT count(*) FROM test_results t WHERE t.run_id = r.id AND t.status = 'passed'), \
    (SELECT count(*) FROM test_results t WHERE t.run_id = r.id AND t.status = 'failed'), \
    (SELECT count(*) FROM test_results t WHERE t.run_id = r.id AND t.status = 'error'), \
    coalesce(r.seen_at, r.started_at) FROM test_runs r";

pub(super) fn run(database: Sql<'_>, id: &str) -> Result<Option<TestRun>, DatabaseError> {
    let found = database.select(&format!("{RUN} WHERE r.id = ?"), params![id], read_run)?;
    Ok(found.into_iter().next())
}

pub(super) fn runs(
    database: Sql<'_>,
    before: Option<&str>,
    limit: usize,
) -> Result<Vec<TestRun>, DatabaseError> {
    let sql = format!("{RUN} WHERE (?1 IS NULL OR r.id < ?1) ORDER BY r.id DESC LIMIT {limit}");
    database.select(&sql, params![before.map(str::to_owned)], read_run)
}

fn read_run(row: &Row) -> Result<TestRun, DatabaseError> {
    let completed: Option<String> = row.get(5)?;
    let status: String = row.get(6)?;
    let run = TestRun {
        id: row.get(0)?,
        name: row.get(1)?,
        configuration_id: row.get(2)?,
        total_tests: row.get(3)?,
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
        passed_tests: row.get(7)?,
        failed_tests: row.get(8)?,
        error_tests: row.get(9)?,
    };
    Ok(run.seen_at(time(row, 10)?, Timestamp::now()))
}

pub(super) fn overrides(database: Sql<'_>, id: &str) -> Result<Vec<Override>, DatabaseError> {
    let sql = "SELECT result_id, trial, passed, reason, author, created_at FROM test_overrides \
        WHERE result_id = ? ORDER BY created_at";
    database.select(sql, params![id], |row| {
        Ok(Override {
            result_id: row.get(0)?,
            trial: row.get(1)?,
            passed: row.get(2)?,
            reason: row.get(3)?,
            author: row.get(4)?,
            timestamp: time(row, 5)?,
        })
    })
}

pub(super) fn agreements(database: Sql<'_>) -> Result<Vec<Agreement>, DatabaseError> {
    // If a trial has several overrides, the newest counts: SQLite takes the other columns from the
    // row with the maximum.
    let sql = "SELECT v.model, v.prompt_hash, sum(v.passed) * 2 > count(*), o.passed FROM \
        (SELECT result_id, trial, passed, max(created_at) FROM test_overrides GROUP BY result_id, trial) o \
        JOIN test_trials t ON t.result_id = o.result_id AND t.trial = o.trial AND t.status <> 'error' \
        JOIN test_votes v ON v.result_id = o.result_id AND v.trial = o.trial \
        GROUP BY o.result_id, o.trial ORDER BY o.result_id, o.trial";
    database.select(sql, (), |row| {
        Ok(Agreement {
            model: row.get(0)?,
            prompt_hash: row.get(1)?,
            judge_passed: row.get(2)?,
            human_passed: row.get(3)?,
        })
    })
}

fn time(row: &Row, column: usize) -> Result<Timestamp, DatabaseError> {
    row.get::<String>(column)?.parse().map_err(DatabaseError::damaged)
}

fn status(row: &Row, column: usize) -> Result<Status, DatabaseError> {
    match row.get::<String>(column)?.as_str() {
        "passed" => Ok(Status::Passed),
        "failed" => Ok(Status::Failed),
        "error" => Ok(Status::Error),
        other => Err(DatabaseError::damaged(format_args!("a result has the status {other:?}"))),
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, DatabaseError> {
    serde_json::from_str(text).map_err(DatabaseError::damaged)
}
