//! Results in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use super::{
    Agreement, Configuration, ConfigurationFilter, ConfigurationOrigin, NewRun, Outcome,
    OutcomeFilter, Override, Page, PageRequest, ResultFilter, ResultStore, RunStatus, StoreError,
    TestRun,
};
use crate::{Status, TestResult, Timestamp, stats::saturated, time::new_id};

/// Limits of a store. The oldest entries are dropped for new ones.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    results: usize,
    /// Length of all results as JSON.
    result_bytes: usize,
    /// Runs that have ended, and configurations.
    runs: usize,
}

const BOUNDS: Bounds = Bounds { results: 10_000, result_bytes: 256 << 20, runs: 10_000 };

/// A store in memory, for tests and for runs without a history. It keeps the newest 10,000 results
/// of up to 256 MiB of JSON together, and their runs and overrides.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    bounds: Bounds,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { tables: Mutex::default(), bounds: BOUNDS }
    }
}

#[derive(Debug, Default)]
struct Tables {
    results: BTreeMap<String, StoredResult>,
    /// Length of all results as JSON.
    result_bytes: usize,
    configurations: BTreeMap<String, Configuration>,
    runs: BTreeMap<String, TestRun>,
    overrides: Vec<Override>,
}

#[derive(Debug)]
struct StoredResult {
    result: TestResult,
    /// Its length as JSON.
    bytes: usize,
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
    /// Returns the results, the oldest first.
    fn results(&self) -> impl DoubleEndedIterator<Item = &TestResult> {
        self.results.values().map(|stored| &stored.result)
    }

    /// Removes the oldest result with its overrides, and its run if that has ended and has no other
    /// result.
    fn drop_oldest_result(&mut self) {
        let Some((id, StoredResult { result, bytes })) = self.results.pop_first() else { return };
        self.result_bytes -= bytes;
        self.overrides.retain(|verdict| verdict.result_id != id);
        if let Some(run) = &result.run_id
            && self.is_unused(run)
        {
            self.runs.remove(run);
        }
    }

    /// Returns whether a run has ended and has no result.
    fn is_unused(&self, run: &String) -> bool {
        self.runs.get(run).is_some_and(|run| run.status != RunStatus::Running)
            && self.results().all(|result| result.run_id.as_ref() != Some(run))
    }

    /// Makes room for a run: removes the oldest one that is not needed.
    fn drop_unused_run(&mut self) {
        let unused = self.runs.keys().find(|run| self.is_unused(run)).cloned();
        if let Some(run) = unused {
            self.runs.remove(&run);
        }
    }

    /// Makes room for a configuration: removes the oldest one that no run has, and one that a user
    /// created only if there is no other.
    fn drop_unused_configuration(&mut self) {
        let unused = self.configurations.values().filter(|it| self.runs_of(&it.id) == 0);
        let oldest = unused
            .min_by_key(|it| (it.origin == ConfigurationOrigin::Created, it.created_at, &it.id))
            .map(|configuration| configuration.id.clone());
        if let Some(id) = oldest {
            self.configurations.remove(&id);
        }
    }

    /// Returns the number of runs that have a configuration.
    fn runs_of(&self, configuration: &str) -> usize {
        let runs = self.runs.values();
        runs.filter(|run| run.configuration_id.as_deref() == Some(configuration)).count()
    }

    /// Returns a batch with the numbers of its results.
    fn counted(&self, run: &TestRun) -> TestRun {
        TestRun {
            passed_tests: self.count_results(&run.id, Status::Passed),
            failed_tests: self.count_results(&run.id, Status::Failed),
            error_tests: self.count_results(&run.id, Status::Error),
            ..run.clone()
        }
    }

    fn count_results(&self, run: &str, status: Status) -> u32 {
        let results = self.results();
        let of_run = results
            .filter(|result| result.run_id.as_deref() == Some(run) && result.status == status);
        saturated(of_run.count())
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
        let mut stored = result.clone();
        stored.test_case = stored.test_case.redacted();
        let stored = StoredResult { bytes: bytes_of(&stored), result: stored };
        // One result is kept, however long it is.
        while tables.results.len() >= self.bounds.results
            || (tables.result_bytes + stored.bytes > self.bounds.result_bytes
                && !tables.results.is_empty())
        {
            tables.drop_oldest_result();
        }
        tables.result_bytes += stored.bytes;
        tables.results.insert(result.id.clone(), stored);
        Ok(())
    }

    async fn result(&self, id: &str) -> Result<Option<TestResult>, StoreError> {
        Ok(self.tables().results.get(id).map(|stored| stored.result.clone()))
    }

    async fn results(&self, filter: &ResultFilter) -> Result<Page<TestResult>, StoreError> {
        let tables = self.tables();
        let found = tables.results.values().rev().filter(|StoredResult { result, .. }| {
            filter.name.as_ref().is_none_or(|name| *name == result.test_case.name)
                && filter.status.is_none_or(|status| status == result.status)
                && filter.run.as_ref().is_none_or(|run| Some(run) == result.run_id.as_ref())
                && filter.since.is_none_or(|since| since <= result.timestamp)
                && filter.until.is_none_or(|until| result.timestamp < until)
                && filter.page.cursor.as_ref().is_none_or(|cursor| result.id < *cursor)
        });
        let sized = found.map(|stored| (&stored.result, stored.bytes));
        let Page { items, next_cursor } =
            Page::bounded(sized, filter.page.size(), |result| &result.id);
        Ok(Page { items: items.into_iter().cloned().collect(), next_cursor })
    }

    async fn outcomes(&self, filter: &OutcomeFilter) -> Result<Vec<Outcome>, StoreError> {
        let tables = self.tables();
        let found = tables.results().rev().filter(|result| {
            filter.name.as_ref().is_none_or(|name| *name == result.test_case.name)
                && filter.run.as_ref().is_none_or(|run| Some(run) == result.run_id.as_ref())
        });
        Ok(found.take(filter.size()).map(Outcome::of).collect())
    }

    async fn put_configuration(&self, configuration: &Configuration) -> Result<(), StoreError> {
        let mut stored = configuration.redacted();
        let mut tables = self.tables();
        match tables.configurations.get(&stored.id) {
            Some(known) => stored.created_at = known.created_at,
            None if tables.configurations.len() >= self.bounds.runs => {
                tables.drop_unused_configuration();
            }
            None => {}
        }
        tables.configurations.insert(stored.id.clone(), stored);
        Ok(())
    }

    async fn configuration(&self, id: &str) -> Result<Option<Configuration>, StoreError> {
        Ok(self.tables().configurations.get(id).cloned())
    }

    async fn configurations(
        &self,
        filter: &ConfigurationFilter,
    ) -> Result<Page<Configuration>, StoreError> {
        let tables = self.tables();
        let after = filter.after();
        let mut found: Vec<(String, &Configuration)> = tables
            .configurations
            .values()
            .map(|configuration| (configuration.created_at.to_string(), configuration))
            .filter(|(time, it)| {
                filter.name.as_ref().is_none_or(|name| *name == it.name)
                    && filter.origin.is_none_or(|origin| origin == it.origin)
                    && after.is_none_or(|after| (time.as_str(), it.id.as_str()) < after)
            })
            .collect();
        found.sort_unstable_by(|(one_time, one), (other_time, other)| {
            (other_time, &other.id).cmp(&(one_time, &one.id))
        });
        let size = filter.page.size();
        let items = found.into_iter().take(size + 1).map(|(_, it)| it.clone()).collect();
        Ok(crate::configuration::page(items, size))
    }

    async fn delete_configuration(&self, id: &str) -> Result<Configuration, StoreError> {
        let mut tables = self.tables();
        let runs = tables.runs_of(id);
        if runs > 0 {
            let runs = saturated(runs);
            return Err(StoreError::InUse { id: id.to_owned(), runs });
        }
        let deleted = tables.configurations.remove(id);
        deleted.ok_or_else(|| StoreError::NotFound { kind: "configuration", id: id.to_owned() })
    }

    async fn start_run(&self, run: NewRun) -> Result<TestRun, StoreError> {
        let mut tables = self.tables();
        if let Some(id) = &run.configuration_id
            && !tables.configurations.contains_key(id)
        {
            return Err(StoreError::NotFound { kind: "configuration", id: id.clone() });
        }
        if tables.runs.len() >= self.bounds.runs {
            tables.drop_unused_run();
        }
        let run = TestRun::started(run, new_id());
        tables.runs.insert(run.id.clone(), run.clone());
        Ok(run)
    }

    /// No other process can see the batch, so no sign is stored.
    async fn touch_run(&self, id: &str) -> Result<(), StoreError> {
        if self.tables().runs.contains_key(id) {
            Ok(())
        } else {
            Err(StoreError::NotFound { kind: "run", id: id.to_owned() })
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
        let runs = tables
            .runs
            .values()
            .rev()
            .filter(|run| page.cursor.as_ref().is_none_or(|cursor| run.id < *cursor))
            .take(page.size() + 1)
            .map(|run| tables.counted(run))
            .collect();
        Ok(Page::cut(runs, page.size(), |run| &run.id))
    }

    async fn put_override(&self, verdict: &Override) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let result = tables.results.get(&verdict.result_id);
        let trials = result.map(|stored| &stored.result.trials);
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
            let trials = &tables.results.get(result)?.result.trials;
            // Votes of a trial that ended with an error are not a verdict.
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

#[cfg(all(test, feature = "conformance"))]
mod tests {
    use super::*;
    use crate::store::conformance::sample;

    fn store(bounds: Bounds) -> MemoryStore {
        MemoryStore { bounds, ..MemoryStore::default() }
    }

    async fn ids(store: &MemoryStore) -> Vec<String> {
        let found = store.results(&ResultFilter::default()).await.unwrap().items;
        found.into_iter().map(|result| result.id).collect()
    }

    #[tokio::test]
    async fn results_are_bounded_by_their_bytes() {
        let results: Vec<TestResult> =
            ["a", "b", "c", "d"].map(|name| sample(name, &[true])).into();
        let store = store(Bounds { result_bytes: 2 * bytes_of(&results[0]) + 10, ..BOUNDS });
        for result in &results[..3] {
            store.put_result(result).await.unwrap();
        }
        assert_eq!(ids(&store).await, [&*results[2].id, &*results[1].id]);
        // A longer one takes the place of both; the limit is that of all results, not of one.
        let mut long = results[3].clone();
        long.test_case.description = Some("x".repeat(100_000));
        store.put_result(&long).await.unwrap();
        assert_eq!(ids(&store).await, [&*long.id]);
        let next = sample("e", &[true]);
        store.put_result(&next).await.unwrap();
        assert_eq!(ids(&store).await, [&*next.id]);
        let kept = store.result(&next.id).await.unwrap().unwrap();
        assert_eq!(store.tables().result_bytes, bytes_of(&kept));
    }

    #[tokio::test]
    async fn a_dropped_result_takes_its_overrides_and_its_ended_run_along() {
        let store = store(Bounds { results: 1, ..BOUNDS });
        let ended = store.start_run(NewRun::default()).await.unwrap();
        let running = store.start_run(NewRun::default()).await.unwrap();
        for (run, name) in [(&ended, "a"), (&running, "b"), (&running, "c")] {
            let mut result = sample(name, &[true]);
            result.run_id = Some(run.id.clone());
            store.put_result(&result).await.unwrap();
            let verdict = Override {
                result_id: result.id,
                trial: 0,
                passed: true,
                reason: "so".to_owned(),
                author: "ann".to_owned(),
                timestamp: Timestamp::now(),
            };
            store.put_override(&verdict).await.unwrap();
            if run.id == ended.id {
                store.finish_run(&run.id, RunStatus::Completed).await.unwrap();
            }
        }
        assert_eq!(store.tables().overrides.len(), 1);
        assert_eq!(store.run(&ended.id).await.unwrap(), None);
        assert!(store.run(&running.id).await.unwrap().is_some(), "it still gets results");
    }

    #[tokio::test]
    async fn runs_without_results_and_configurations_without_runs_are_bounded() {
        let store = store(Bounds { runs: 2, ..BOUNDS });
        let mut runs = Vec::new();
        for number in 0..4 {
            let case = crate::TestCase {
                judge_config: Some(crate::ModelSettings::new("custom", format!("m{number}"))),
                ..crate::TestCase::new("a", "b")
            };
            let configuration = Configuration::shared_by(&[case]).unwrap();
            store.put_configuration(&configuration).await.unwrap();
            let configuration_id = Some(configuration.id);
            let run = NewRun { configuration_id, ..NewRun::default() };
            let run = store.start_run(run).await.unwrap();
            store.finish_run(&run.id, RunStatus::Failed).await.unwrap();
            runs.push(run.id);
        }
        let kept = store.runs(&PageRequest::default()).await.unwrap().items;
        let kept: Vec<&str> = kept.iter().map(|run| &*run.id).collect();
        assert_eq!(kept, [&*runs[3], &*runs[2]]);
        assert!(store.tables().configurations.len() <= 3);
    }
}
