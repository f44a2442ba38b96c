//! Results in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use super::{
    Agreement, Configuration, NewRun, Outcome, OutcomeFilter, Override, Page, PageRequest,
    ResultFilter, ResultStore, RunStatus, StoreError, TestRun,
};
use crate::{Status, TestResult, Timestamp, time::new_id};

/// Most results: the oldest is dropped for a new one.
const MAX_RESULTS: usize = 10_000;

/// A store in memory, for tests and for runs without a history. It keeps the newest 10,000 results.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    results: BTreeMap<String, TestResult>,
    configurations: BTreeMap<String, Configuration>,
    runs: BTreeMap<String, TestRun>,
    overrides: Vec<Override>,
}

impl MemoryStore {
    /// Returns an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Returns a batch with the numbers of its results.
    fn counted(&self, run: &TestRun) -> TestRun {
        let count = |status| {
            let results = self.results.values();
            let results = results.filter(|result| {
                result.run_id.as_ref() == Some(&run.id) && result.status == status
            });
            u32::try_from(results.count()).unwrap_or(u32::MAX)
        };
        TestRun {
            passed_tests: count(Status::Passed),
            failed_tests: count(Status::Failed),
            error_tests: count(Status::Error),
            ..run.clone()
        }
    }
}

/// Returns the size of a result as JSON.
fn bytes_of(result: &TestResult) -> usize {
    serde_json::to_vec(result).map_or(0, |json| json.len())
}

#[async_trait]
impl ResultStore for MemoryStore {
    async fn put_result(&self, result: &TestResult) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.results.contains_key(&result.id) {
            return Err(StoreError::Exists { kind: "result", id: result.id.clone() });
        }
        if let Some(run) = &result.run_id
            && !tables.runs.contains_key(run)
        {
            return Err(StoreError::NotFound { kind: "run", id: run.clone() });
        }
        if tables.results.len() >= MAX_RESULTS {
            tables.results.pop_first();
        }
        let mut stored = result.clone();
        stored.test_case = stored.test_case.redacted();
        tables.results.insert(result.id.clone(), stored);
        Ok(())
    }

    async fn result(&self, id: &str) -> Result<Option<TestResult>, StoreError> {
        Ok(self.tables().results.get(id).cloned())
    }

    async fn results(&self, filter: &ResultFilter) -> Result<Page<TestResult>, StoreError> {
        let tables = self.tables();
        let found = tables.results.values().rev().filter(|result| {
            filter.name.as_ref().is_none_or(|name| *name == result.test_case.name)
                && filter.status.is_none_or(|status| status == result.status)
                && filter.run.as_ref().is_none_or(|run| Some(run) == result.run_id.as_ref())
                && filter.since.is_none_or(|since| since <= result.timestamp)
                && filter.until.is_none_or(|until| result.timestamp < until)
                && filter.page.cursor.as_ref().is_none_or(|cursor| result.id < *cursor)
        });
        let found = found.map(|result| (result, bytes_of(result)));
        let Page { items, next_cursor } =
            Page::bounded(found, filter.page.size(), |result| &result.id);
        Ok(Page { items: items.into_iter().cloned().collect(), next_cursor })
    }

    async fn outcomes(&self, filter: &OutcomeFilter) -> Result<Vec<Outcome>, StoreError> {
        let tables = self.tables();
        let found = tables.results.values().rev().filter(|result| {
            filter.name.as_ref().is_none_or(|name| *name == result.test_case.name)
                && filter.run.as_ref().is_none_or(|run| Some(run) == result.run_id.as_ref())
        });
        Ok(found.take(filter.size()).map(Outcome::of).collect())
    }

    async fn put_configuration(&self, configuration: &Configuration) -> Result<(), StoreError> {
        let stored = configuration.redacted();
        self.tables().configurations.insert(stored.id.clone(), stored);
        Ok(())
    }

    async fn configuration(&self, id: &str) -> Result<Option<Configuration>, StoreError> {
        Ok(self.tables().configurations.get(id).cloned())
    }

    async fn start_run(&self, run: NewRun) -> Result<TestRun, StoreError> {
        let mut tables = self.tables();
        if let Some(id) = &run.configuration_id
            && !tables.configurations.contains_key(id)
        {
            return Err(StoreError::NotFound { kind: "configuration", id: id.clone() });
        }
        let run = TestRun::started(run, new_id());
        tables.runs.insert(run.id.clone(), run.clone());
        Ok(run)
    }

    /// No other process can see the batch, so no sign is stored.
    async fn touch_run(&self, id: &str) -> Result<(), StoreError> {
        match self.tables().runs.contains_key(id) {
            true => Ok(()),
            false => Err(StoreError::NotFound { kind: "run", id: id.to_owned() }),
        }
    }

    async fn finish_run(&self, id: &str, status: RunStatus) -> Result<TestRun, StoreError> {
        let mut tables = self.tables();
        let Some(run) = tables.runs.get_mut(id) else {
            return Err(StoreError::NotFound { kind: "run", id: id.to_owned() });
        };
        run.status = status;
        run.completed_at = Some(Timestamp::now());
        let run = run.clone();
        Ok(tables.counted(&run))
    }

    async fn run(&self, id: &str) -> Result<Option<TestRun>, StoreError> {
        let tables = self.tables();
        Ok(tables.runs.get(id).map(|run| tables.counted(run)))
    }

    async fn runs(&self, page: &PageRequest) -> Result<Page<TestRun>, StoreError> {
        let tables = self.tables();
        let found = tables.runs.values().rev();
        let found = found.filter(|run| page.cursor.as_ref().is_none_or(|cursor| run.id < *cursor));
        let found = found.take(page.size() + 1).map(|run| tables.counted(run)).collect();
        Ok(Page::cut(found, page.size(), |run| &run.id))
    }

    async fn put_override(&self, verdict: &Override) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let result = tables.results.get(&verdict.result_id);
        let trials = result.map(|result| &result.trials);
        if !trials.is_some_and(|trials| trials.iter().any(|trial| trial.index == verdict.trial)) {
            let id = format!("{}/{}", verdict.result_id, verdict.trial);
            return Err(StoreError::NotFound { kind: "trial", id });
        }
        tables.overrides.retain(|other| {
            (&other.result_id, other.trial, &other.author)
                != (&verdict.result_id, verdict.trial, &verdict.author)
        });
        tables.overrides.push(verdict.clone());
        Ok(())
    }

    async fn overrides(&self, result_id: &str) -> Result<Vec<Override>, StoreError> {
        let tables = self.tables();
        let mut found: Vec<Override> =
            tables.overrides.iter().filter(|other| other.result_id == result_id).cloned().collect();
        found.sort_by_key(|verdict| verdict.timestamp);
        Ok(found)
    }

    async fn agreements(&self) -> Result<Vec<Agreement>, StoreError> {
        let tables = self.tables();
        let mut newest: BTreeMap<(&str, u32), &Override> = BTreeMap::new();
        for verdict in &tables.overrides {
            let place = (verdict.result_id.as_str(), verdict.trial);
            let known = newest.entry(place).or_insert(verdict);
            if verdict.timestamp >= known.timestamp {
                *known = verdict;
            }
        }
        let agreements = newest.into_iter().filter_map(|((result, trial), verdict)| {
            let trials = &tables.results.get(result)?.trials;
            // Votes of a trial that ended with an error are no verdict.
            let trial = trials
                .iter()
                .find(|known| known.index == trial && known.status != Status::Error)?;
            Agreement::of(&trial.votes, verdict.passed)
        });
        Ok(agreements.collect())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
