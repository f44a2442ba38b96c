//! Results in a libSQL database: one file, or a server.

mod read;
mod schema;

use std::{path::Path, time::Duration};

use async_trait::async_trait;
use libsql::{Connection, params};
use marquetry_database::{
    DatabaseError,
    libsql::{Sql, Tables, TablesOptions, error},
};
use serde::Serialize;
use serde_json::Value;

#[cfg(feature = "remote")]
use marquetry_database::libsql::RemoteLibsql;

use self::schema::SCHEMA;
use super::{
    Agreement, Configuration, ConfigurationFilter, NewRun, Outcome, OutcomeFilter, Override, Page,
    PageRequest, ResultFilter, ResultStore, RunStatus, StoreError, TestRun,
};
use crate::{TestResult, Timestamp, Trial, time::new_id};

/// A store in one file or on a libSQL server, which several processes may use at once. The file may
/// hold other data, too: only tables whose names begin with `test_` are touched.
///
/// A stored result survives the end of the process, even by a kill. A power failure may lose the
/// last results. Secrets of cases are not written.
pub struct LibsqlStore {
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    File(Tables),
    #[cfg(feature = "remote")]
    Server(RemoteLibsql),
}

/// Options of a [`LibsqlStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibsqlOptions {
    /// Largest size of the database in bytes, for writes of this store; beyond it they fail with
    /// [`DatabaseError::Full`]. No limit by default.
    pub max_bytes: Option<u64>,
    /// Opens the file for reading only.
    pub read_only: bool,
    /// Longest wait of a write while another process has the database locked; beyond it the write
    /// fails with [`DatabaseError::Busy`]. 10 s by default.
    pub lock_timeout: Duration,
}

impl Default for LibsqlOptions {
    fn default() -> Self {
        Self { max_bytes: None, read_only: false, lock_timeout: Duration::from_secs(10) }
    }
}

impl LibsqlStore {
    /// Opens the results in a file, and creates a missing file. Its folder must exist.
    ///
    /// # Errors
    ///
    /// Returns an error if a newer version of this program wrote the results
    /// ([`DatabaseError::NewerSchema`]), or if the file is not a database
    /// ([`DatabaseError::Unusable`]).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, LibsqlOptions::default()).await
    }

    /// Opens the results in a file, with options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] would.
    pub async fn open_with(
        path: impl AsRef<Path>,
        options: LibsqlOptions,
    ) -> Result<Self, StoreError> {
        let LibsqlOptions { max_bytes, read_only, lock_timeout } = options;
        let options = TablesOptions { max_bytes, read_only };
        let tables =
            Tables::open(path.as_ref(), &SCHEMA, options, move |connection: Connection| {
                connection.busy_timeout(lock_timeout).map_err(error)?;
                Ok(connection)
            })
            .await?;
        Ok(Self { backend: Backend::File(tables) })
    }

    /// Opens the results on a libSQL server (sqld, Turso): `libsql://host`, `https://host`, or
    /// `http://` on this machine. Missing tables are created.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] would, if the token is wrong ([`DatabaseError::Denied`]),
    /// or if the server does not answer ([`DatabaseError::Disconnected`]).
    #[cfg(feature = "remote")]
    pub async fn connect(url: &str, token: Option<&str>) -> Result<Self, StoreError> {
        let server = RemoteLibsql::new(url, token)?;
        server.run(|session| SCHEMA.open(session, false)).await?;
        Ok(Self { backend: Backend::Server(server) })
    }

    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(Sql<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.backend {
            Backend::File(tables) => tables.write(|connection| work(connection.into())).await,
            #[cfg(feature = "remote")]
            Backend::Server(server) => server.run(|session| work(session.into())).await,
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(Sql<'_>) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.backend {
            Backend::File(tables) => Ok(tables.read(|connection| work(connection.into())).await?),
            #[cfg(feature = "remote")]
            Backend::Server(server) => Ok(server.run(|session| work(session.into())).await?),
        }
    }
}

impl std::fmt::Debug for LibsqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LibsqlStore").field("backend", &self.backend).finish_non_exhaustive()
    }
}

#[async_trait]
impl ResultStore for LibsqlStore {
    async fn put_result(&self, result: &TestResult) -> Result<(), StoreError> {
        let mut result = result.clone();
        result.test_case = result.test_case.redacted();
        self.write(move |database| put_result(database, &result)).await
    }

    async fn result(&self, id: &str) -> Result<Option<TestResult>, StoreError> {
        let id = id.to_owned();
        self.read(move |database| read::result(database, &id)).await
    }

    async fn results(&self, filter: &ResultFilter) -> Result<Page<TestResult>, StoreError> {
        let filter = filter.clone();
        self.read(move |database| {
            let ids = read::ids(database, &filter)?;
            let Page { items, next_cursor } = Page::bounded(ids, filter.page.size(), |id| id);
            let mut results = Vec::with_capacity(items.len());
            for id in items {
                results.extend(read::result(database, &id)?);
            }
            Ok(Page { items: results, next_cursor })
        })
        .await
    }

    async fn outcomes(&self, filter: &OutcomeFilter) -> Result<Vec<Outcome>, StoreError> {
        let filter = filter.clone();
        self.read(move |database| read::outcomes(database, &filter)).await
    }

    async fn put_configuration(&self, configuration: &Configuration) -> Result<(), StoreError> {
        let stored = configuration.redacted();
        self.write(move |database| Ok(put_configuration(database, &stored)?)).await
    }

    async fn configuration(&self, id: &str) -> Result<Option<Configuration>, StoreError> {
        let id = id.to_owned();
        self.read(move |database| read::configuration(database, &id)).await
    }

    async fn configurations(
        &self,
        filter: &ConfigurationFilter,
    ) -> Result<Page<Configuration>, StoreError> {
        let filter = filter.clone();
        let size = filter.page.size();
        let found =
            self.read(move |database| read::configurations(database, &filter, size + 1)).await?;
        Ok(crate::configuration::page(found, size))
    }

    async fn delete_configuration(&self, id: &str) -> Result<Configuration, StoreError> {
        let id = id.to_owned();
        self.write(move |database| delete_configuration(database, &id)).await
    }

    async fn start_run(&self, run: NewRun) -> Result<TestRun, StoreError> {
        self.write(move |database| {
            if let Some(id) = &run.configuration_id
                && read::configuration(database, id)?.is_none()
            {
                return Err(StoreError::NotFound { kind: "configuration", id: id.clone() });
            }
            let run = TestRun::started(run, new_id());
            put_run(database, &run)?;
            Ok(run)
        })
        .await
    }

    async fn touch_run(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write(move |database| {
            if touch_run(database, &id, Timestamp::now())? {
                Ok(())
            } else {
                Err(StoreError::NotFound { kind: "run", id })
            }
        })
        .await
    }

    async fn finish_run(&self, id: &str, status: RunStatus) -> Result<TestRun, StoreError> {
        let id = id.to_owned();
        self.write(move |database| {
            let Some(run) = read::run(database, &id)? else {
                return Err(StoreError::NotFound { kind: "run", id });
            };
            let run = TestRun { status, completed_at: Some(Timestamp::now()), ..run };
            finish_run(database, &run)?;
            Ok(run)
        })
        .await
    }

    async fn run(&self, id: &str) -> Result<Option<TestRun>, StoreError> {
        let id = id.to_owned();
        self.read(move |database| read::run(database, &id)).await
    }

    async fn runs(&self, page: &PageRequest) -> Result<Page<TestRun>, StoreError> {
        let cursor = page.cursor.clone();
        let size = page.size();
        self.read(move |database| {
            let found = read::runs(database, cursor.as_deref(), size + 1)?;
            Ok(Page::cut(found, size, |run| &run.id))
        })
        .await
    }

    async fn put_override(&self, verdict: &Override) -> Result<(), StoreError> {
        let verdict = verdict.clone();
        self.write(move |database| {
            let sql = "SELECT 1 FROM test_trials WHERE result_id = ? AND trial = ?";
            let trial = params![verdict.result_id.clone(), verdict.trial];
            if database.select::<_, DatabaseError>(sql, trial, |_| Ok(()))?.is_empty() {
                let id = format!("{}/{}", verdict.result_id, verdict.trial);
                return Err(StoreError::NotFound { kind: "trial", id });
            }
            let sql = "INSERT OR REPLACE INTO test_overrides \
                (result_id, trial, author, passed, reason, created_at) VALUES (?, ?, ?, ?, ?, ?)";
            let values = params![
                verdict.result_id,
                verdict.trial,
                verdict.author,
                verdict.passed,
                verdict.reason,
                verdict.timestamp.to_string(),
            ];
            Ok(database.execute(sql, values)?)
        })
        .await
    }

    async fn overrides(&self, result_id: &str) -> Result<Vec<Override>, StoreError> {
        let id = result_id.to_owned();
        self.read(move |database| read::overrides(database, &id)).await
    }

    async fn agreements(&self) -> Result<Vec<Agreement>, StoreError> {
        self.read(read::agreements).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.read(|database| database.number("SELECT count(*) FROM test_setting").map(drop)).await
    }
}

/// Stores a result with its trials, calls and votes in one transaction.
fn put_result(database: Sql<'_>, result: &TestResult) -> Result<(), StoreError> {
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

fn put_configuration(
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
fn delete_configuration(database: Sql<'_>, id: &str) -> Result<Configuration, StoreError> {
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

fn put_run(database: Sql<'_>, run: &TestRun) -> Result<(), DatabaseError> {
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
fn touch_run(database: Sql<'_>, id: &str, at: Timestamp) -> Result<bool, DatabaseError> {
    let sql = "UPDATE test_runs SET seen_at = ? WHERE id = ? RETURNING id";
    let touched = database.select(sql, params![at.to_string(), id], |row| row.get::<String>(0))?;
    Ok(!touched.is_empty())
}

fn finish_run(database: Sql<'_>, run: &TestRun) -> Result<(), DatabaseError> {
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
