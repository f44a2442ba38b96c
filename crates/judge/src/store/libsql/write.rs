//! Writing.

use libsql::params;
use marquetry_database::{DatabaseError, libsql::Sql};
use serde::Serialize;
use serde_json::Value;

use super::{
    super::{Configuration, StoreError, TestRun},
    read,
};
use crate::{TestResult, Timestamp, Trial};

/// Stores a result with its trials, calls and votes in one transaction.
pub(super) fn put_result(database: Sql<'_>, result: &TestResult) -> Result<(), StoreError> {
    database.transaction("BEGIN IMMEDIATE", || {
        if has_row(database, "test_results", &result.id)? {
            return Err(StoreError::Exists { kind: "result", id: result.id.clone() });
        }
        if let Some(run) = &result.run_id
            && !has_row(database, "test_runs", run)?
        {
            return Err(StoreError::NotFound { kind: "run", id: run.clone() });
        }
        put_row(database, result)?;
        put_trials(database, result)?;
        Ok(())
    })
}

fn has_row(database: Sql<'_>, table: &str, id: &str) -> Result<bool, DatabaseError> {
    let sql = format!("SELECT 1 FROM {table} WHERE id = ?");
    let found = database.select::<_, DatabaseError>(&sql, params![id], |_| Ok(()))?;
    Ok(!found.is_empty())
}

fn put_row(database: Sql<'_>, result: &TestResult) -> Result<(), DatabaseError> {
    let counts = result.counts();
    // In the form of `expected_tools`; results and times are in `test_calls`.
    let calls: Vec<Value> = (result.tool_calls.iter())
        .map(|call| serde_json::json!({"name": call.tool_name, "server": call.server_id, "arguments": call.parameters}))
        .collect();
    let sql = "INSERT INTO test_results (id, test_name, prompt, expected_tools, actual_tools, judge_verdict, \
        created_at, duration_ms, status, run_id, test_case, error, tool_accuracy, passed_trials, failed_trials, \
        error_trials) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let values = params![
        result.id.clone(),
        result.test_case.name.clone(),
        result.test_case.prompt.clone(),
        result.test_case.expected_tools.as_ref().map(json).transpose()?,
        json(&calls)?,
        json(&result.verdict)?,
        result.timestamp.to_string(),
        whole(result.duration),
        result.status.as_str(),
        result.run_id.clone(),
        json(&result.test_case)?,
        result.error.clone(),
        result.verdict.tool_accuracy,
        counts.passed,
        counts.failed,
        counts.errors,
    ];
    database.execute(sql, values)
}

fn put_trials(database: Sql<'_>, result: &TestResult) -> Result<(), DatabaseError> {
    let put_trial = "INSERT INTO test_trials (result_id, trial, status, error, answer, turns, checks, verdict, usage, work_ms, \
         duration_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let put_call = "INSERT INTO test_calls (result_id, trial, call, tool_name, server_id, parameters, response, \
         execution_time_ms, success, error, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let put_vote = "INSERT INTO test_votes (result_id, trial, vote, number, passed, answers, reasoning, suggestions, model, \
         prompt_hash, usage, duration_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    for trial in &result.trials {
        let Trial {
            index, status, error, turns, tool_calls, answer, checks, votes, verdict, ..
        } = trial;
        database.execute(
            put_trial,
            params![
                result.id.clone(),
                *index,
                status.as_str(),
                error.clone(),
                answer.clone(),
                json(turns)?,
                json(checks)?,
                json(verdict)?,
                json(&trial.usage)?,
                whole(trial.work_ms),
                whole(trial.duration_ms),
            ],
        )?;
        for (place, call) in (0u32..).zip(tool_calls) {
            database.execute(
                put_call,
                params![
                    result.id.clone(),
                    *index,
                    place,
                    call.tool_name.clone(),
                    call.server_id.clone(),
                    json(&call.parameters)?,
                    json(&call.response)?,
                    whole(call.execution_time_ms),
                    call.success,
                    call.error.clone(),
                    call.timestamp.to_string(),
                ],
            )?;
        }
        for (place, vote) in (0u32..).zip(votes) {
            database.execute(
                put_vote,
                params![
                    result.id.clone(),
                    *index,
                    place,
                    vote.index,
                    vote.passed,
                    json(&vote.answers)?,
                    vote.reasoning.clone(),
                    vote.suggestions.clone(),
                    vote.model.clone(),
                    vote.prompt_hash.clone(),
                    json(&vote.usage)?,
                    whole(vote.duration_ms),
                ],
            )?;
        }
    }
    Ok(())
}

pub(super) fn put_configuration(
    database: Sql<'_>,
    configuration: &Configuration,
) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO test_configurations \
        (id, name, description, server_configs, judge_config, created_at, updated_at, origin) \
        VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
        description = excluded.description, server_configs = excluded.server_configs, \
        judge_config = excluded.judge_config, updated_at = excluded.updated_at, origin = excluded.origin";
    let values = params![
        configuration.id.clone(),
        configuration.name.clone(),
        configuration.description.clone(),
        json(&configuration.server_configs)?,
        configuration.judge_config.as_ref().map(json).transpose()?,
        configuration.created_at.to_string(),
        configuration.updated_at.to_string(),
        configuration.origin.as_str(),
    ];
    database.execute(sql, values)
}

/// Deletes a configuration that no run has, and returns it.
pub(super) fn delete_configuration(
    database: Sql<'_>,
    id: &str,
) -> Result<Configuration, StoreError> {
    // A run that begins meanwhile must not refer to a configuration that is gone.
    database.transaction("BEGIN IMMEDIATE", || {
        let Some(configuration) = read::configuration(database, id)? else {
            return Err(StoreError::NotFound { kind: "configuration", id: id.to_owned() });
        };
        let runs = "SELECT count(*) FROM test_runs WHERE configuration_id = ?";
        let runs: Vec<u32> =
            database.select::<_, DatabaseError>(runs, params![id], |row| row.get(0))?;
        if let Some(&runs) = runs.first().filter(|runs| **runs > 0) {
            return Err(StoreError::InUse { id: id.to_owned(), runs });
        }
        database.execute("DELETE FROM test_configurations WHERE id = ?", params![id])?;
        Ok(configuration)
    })
}

pub(super) fn put_run(database: Sql<'_>, run: &TestRun) -> Result<(), DatabaseError> {
    let sql = "INSERT INTO test_runs (id, name, configuration_id, total_tests, passed_tests, failed_tests, \
        error_tests, started_at, status) VALUES (?, ?, ?, ?, 0, 0, 0, ?, ?)";
    let values = params![
        run.id.clone(),
        run.name.clone(),
        run.configuration_id.clone(),
        run.total_tests,
        run.started_at.to_string(),
        run.status.as_str(),
    ];
    database.execute(sql, values)
}

/// Stores the last sign of a batch. Returns whether the batch exists.
pub(super) fn touch_run(database: Sql<'_>, id: &str, at: Timestamp) -> Result<bool, DatabaseError> {
    let sql = "UPDATE test_runs SET seen_at = ? WHERE id = ? RETURNING id";
    let touched = database.select(sql, params![at.to_string(), id], |row| row.get::<String>(0))?;
    Ok(!touched.is_empty())
}

pub(super) fn finish_run(database: Sql<'_>, run: &TestRun) -> Result<(), DatabaseError> {
    let sql = "UPDATE test_runs SET status = ?, completed_at = ?, passed_tests = ?, failed_tests = ?, \
        error_tests = ? WHERE id = ?";
    let values = params![
        run.status.as_str(),
        run.completed_at.map(|at| at.to_string()),
        run.passed_tests,
        run.failed_tests,
        run.error_tests,
        run.id.clone(),
    ];
    database.execute(sql, values)
}

fn json(value: &impl Serialize) -> Result<String, DatabaseError> {
    serde_json::to_string(value).map_err(DatabaseError::engine)
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
