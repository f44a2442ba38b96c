//! Stores of results.

#[cfg(feature = "conformance")]
pub mod conformance;
mod heartbeat;
mod history;
#[cfg(feature = "libsql")]
mod libsql;
mod memory;

use std::path::Path;

use async_trait::async_trait;
use marquetry_database::{DatabaseError, DatabaseStoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "libsql")]
pub use self::libsql::{LibsqlOptions, LibsqlStore};
pub use self::{
    heartbeat::with_heartbeat,
    history::{
        CaseComparison, CaseHistory, Comparison, Flakiness, JudgeAgreement, compare, flakiness,
        history, judge_agreement,
    },
    memory::MemoryStore,
};
use crate::{
    Status, TestResult, Timestamp,
    result::{TrialCounts, Vote},
};
pub use crate::{
    configuration::{
        Configuration, ConfigurationError, ConfigurationFilter, ConfigurationOrigin,
        NewConfiguration, ResolvedConfiguration,
    },
    page::{Page, PageRequest},
};

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database failed.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// A result, a run or a trial does not exist.
    #[error("there is no {kind} {id:?}")]
    NotFound {
        /// `result`, `run`, `configuration` or `trial`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// An id is taken.
    #[error("there is a {kind} {id:?} already")]
    Exists {
        /// `result` or `run`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// A configuration cannot be deleted, because runs have it.
    #[error("{runs} runs have the configuration {id:?}, so it stays")]
    InUse {
        /// The id of the configuration.
        id: String,
        /// The number of its runs.
        runs: u32,
    },
}

impl DatabaseStoreError for StoreError {
    fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Database(error) => error.in_file(path).into(),
            error => error,
        }
    }
}

impl StoreError {
    /// Returns what a user can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Database(DatabaseError::Full) => {
                "free space on the disk, or name a database on another one, and run the test again"
            }
            Self::Database(DatabaseError::ReadOnly) => {
                "allow this user to write the file and its folder, or name another database"
            }
            Self::Database(DatabaseError::Busy) => {
                "end the program that keeps the database locked, and run the test again"
            }
            Self::Database(_) => "name another database, or mend this one, and run the test again",
            Self::NotFound { .. } | Self::Exists { .. } => {
                "begin a new run, and run the test again"
            }
            Self::InUse { .. } => {
                "create a configuration of the same name, which replaces it for later runs"
            }
        }
    }
}

/// A store of results, runs and overrides. One conformance suite checks every implementation.
///
/// The queries [`history()`], [`flakiness()`], [`compare()`] and [`judge_agreement()`] work on any
/// store.
#[async_trait]
pub trait ResultStore: Send + Sync {
    /// Stores a result with its trials, calls and votes: all or nothing. Keys are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the id is taken ([`StoreError::Exists`]), the batch is unknown
    /// ([`StoreError::NotFound`]), or the database fails.
    async fn put_result(&self, result: &TestResult) -> Result<(), StoreError>;

    /// Returns a result.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn result(&self, id: &str) -> Result<Option<TestResult>, StoreError>;

    /// Returns a page of results, newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn results(&self, filter: &ResultFilter) -> Result<Page<TestResult>, StoreError>;

    /// Returns results in the short form for statistics, newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn outcomes(&self, filter: &OutcomeFilter) -> Result<Vec<Outcome>, StoreError>;

    /// Stores a configuration, or replaces the one of its id, which keeps the time of its creation.
    /// Secrets are left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn put_configuration(&self, configuration: &Configuration) -> Result<(), StoreError>;

    /// Returns a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn configuration(&self, id: &str) -> Result<Option<Configuration>, StoreError>;

    /// Returns a page of configurations, the newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn configurations(
        &self,
        filter: &ConfigurationFilter,
    ) -> Result<Page<Configuration>, StoreError>;

    /// Deletes a configuration that no run has, and returns it.
    ///
    /// # Errors
    ///
    /// Returns an error if the id is unknown ([`StoreError::NotFound`]), runs have the
    /// configuration ([`StoreError::InUse`]), or the database fails.
    async fn delete_configuration(&self, id: &str) -> Result<Configuration, StoreError>;

    /// Begins a batch, and returns it with its id.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is unknown ([`StoreError::NotFound`]), or if the
    /// database fails.
    async fn start_run(&self, run: NewRun) -> Result<TestRun, StoreError>;

    /// Records a sign that the program of a batch still runs. A batch without a sign for a minute
    /// is shown as failed; [`with_heartbeat`] sends the signs.
    ///
    /// # Errors
    ///
    /// Returns an error if the batch is unknown ([`StoreError::NotFound`]), or if the database
    /// fails.
    async fn touch_run(&self, id: &str) -> Result<(), StoreError>;

    /// Ends a batch. Its numbers are counted from its results.
    ///
    /// # Errors
    ///
    /// Returns an error if the batch is unknown ([`StoreError::NotFound`]), or if the database
    /// fails.
    async fn finish_run(&self, id: &str, status: RunStatus) -> Result<TestRun, StoreError>;

    /// Returns a batch; the numbers of a running one count the results so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn run(&self, id: &str) -> Result<Option<TestRun>, StoreError>;

    /// Returns a page of batches, newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn runs(&self, page: &PageRequest) -> Result<Page<TestRun>, StoreError>;

    /// Stores a person's verdict on a trial; a later one of the same author replaces it.
    ///
    /// # Errors
    ///
    /// Returns an error if the trial is unknown ([`StoreError::NotFound`]), or if the database
    /// fails.
    async fn put_override(&self, verdict: &Override) -> Result<(), StoreError>;

    /// Returns the overrides of a result, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn overrides(&self, result_id: &str) -> Result<Vec<Override>, StoreError>;

    /// Returns the newest override of each trial, with the judge's verdict on the same trial.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn agreements(&self) -> Result<Vec<Agreement>, StoreError>;

    /// Checks that the store can be used.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    async fn check(&self) -> Result<(), StoreError>;
}

/// Filter of results. A result must match every member that is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ResultFilter {
    /// The name of the case.
    pub name: Option<String>,
    /// The status.
    pub status: Option<Status>,
    /// The id of the batch.
    pub run: Option<String>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// The time before which all results are.
    pub until: Option<Timestamp>,
    /// The page.
    #[serde(flatten)]
    pub page: PageRequest,
}

/// Filter of the results for statistics. A result must match every member that is set.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OutcomeFilter {
    /// The name of the case.
    pub name: Option<String>,
    /// The id of the batch.
    pub run: Option<String>,
    /// Maximum results; 1000 if absent, and never more than 10,000.
    pub limit: Option<u32>,
}

impl OutcomeFilter {
    pub(crate) fn size(&self) -> usize {
        self.limit.unwrap_or(1000).clamp(1, 10_000) as usize
    }

    /// Returns a filter of the results of a case.
    pub fn of_case(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// Returns a filter of the results of a batch.
    pub fn of_run(id: impl Into<String>) -> Self {
        Self { run: Some(id.into()), ..Self::default() }
    }
}

/// A result in the short form for statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Outcome {
    /// The id of the result.
    pub result_id: String,
    /// The name of the case.
    pub test_name: String,
    /// The batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The status of the result.
    pub status: Status,
    /// The numbers of its trials.
    pub trials: TrialCounts,
    /// Its `toolAccuracy`.
    pub tool_accuracy: f64,
    /// Its duration, in milliseconds.
    pub duration_ms: u64,
    /// When it began.
    pub timestamp: Timestamp,
}

impl Outcome {
    /// Returns the short form of a result for statistics.
    pub fn of(result: &TestResult) -> Self {
        Self {
            result_id: result.id.clone(),
            test_name: result.test_case.name.clone(),
            run_id: result.run_id.clone(),
            status: result.status,
            trials: result.counts(),
            tool_accuracy: result.verdict.tool_accuracy,
            duration_ms: result.duration,
            timestamp: result.timestamp,
        }
    }
}

/// A batch that begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NewRun {
    /// Its name.
    pub name: Option<String>,
    /// The configuration of its cases.
    pub configuration_id: Option<String>,
    /// Number of its cases.
    pub total_tests: u32,
}

/// A batch of cases; the seed's `test_runs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TestRun {
    /// Its id. Ids sort by the time of the beginning.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The configuration of its cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_id: Option<String>,
    /// Number of its cases.
    pub total_tests: u32,
    /// Results that passed.
    pub passed_tests: u32,
    /// Results that failed.
    pub failed_tests: u32,
    /// Results without a verdict.
    pub error_tests: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Its state.
    pub status: RunStatus,
}

/// The state of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Cases are still running.
    Running,
    /// Every case has a result.
    Completed,
    /// It was ended early, or its program gave no sign for a minute.
    Failed,
}

impl TestRun {
    /// Returns a batch that begins now.
    pub(crate) fn started(run: NewRun, id: String) -> Self {
        Self {
            id,
            name: run.name,
            configuration_id: run.configuration_id,
            total_tests: run.total_tests,
            passed_tests: 0,
            failed_tests: 0,
            error_tests: 0,
            started_at: Timestamp::now(),
            completed_at: None,
            status: RunStatus::Running,
        }
    }
}

impl RunStatus {
    /// Returns its name in JSON and in databases.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// A person's verdict on a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    /// The result.
    pub result_id: String,
    /// The number of the trial, from 0.
    pub trial: u32,
    /// Whether the trial passed, in the person's opinion.
    pub passed: bool,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// Author of the verdict.
    #[serde(default)]
    pub author: String,
    /// The time.
    pub timestamp: Timestamp,
}

/// A person's verdict beside the judge's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// The judging model.
    pub model: String,
    /// Hash of the judge's instructions.
    pub prompt_hash: String,
    /// The judge's verdict.
    pub judge_passed: bool,
    /// The person's verdict.
    pub human_passed: bool,
}

impl Agreement {
    /// Returns the verdict of a judge's votes with a person's verdict; `None` without votes.
    pub(crate) fn of(votes: &[Vote], human_passed: bool) -> Option<Self> {
        let first = votes.first()?;
        let passed = votes.iter().filter(|vote| vote.passed).count();
        Some(Self {
            model: first.model.clone(),
            prompt_hash: first.prompt_hash.clone(),
            judge_passed: passed * 2 > votes.len(),
            human_passed,
        })
    }
}
