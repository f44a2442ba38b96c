//! The tests that every store must pass.

use serde_json::json;

use super::{
    Configuration, ConfigurationFilter, ConfigurationOrigin, NewRun, OutcomeFilter, Override,
    PageRequest, ResultFilter, ResultStore, RunStatus, StoreError, compare, flakiness, history,
    judge_agreement,
};
use crate::{
    ModelSettings, ServerConfig, Status, TestCase, TestResult, Timestamp, ToolCallRecord, Trial,
    Verdict,
    result::{CheckResult, ItemAnswer, Vote},
    result::{ItemVerdict, TokenUsage, Turn},
    stats::Change,
    time::new_id,
};

/// Checks a store that is empty.
///
/// # Panics
///
/// Panics if the store breaks a rule of [`ResultStore`].
pub async fn check_store(store: &dyn ResultStore) {
    results_come_back_as_they_were(store).await;
    pages_are_whole(store).await;
    pages_are_bounded(store).await;
    batches_are_counted(store).await;
    configurations_are_listed_and_deleted(store).await;
    overrides_are_compared_with_the_judge(store).await;
    secrets_are_not_stored(store).await;
    store.check().await.expect("it can be used");
}

/// Returns a result with all that a result can have.
pub fn sample(name: &str, passed: &[bool]) -> TestResult {
    let usage = TokenUsage {
        input_tokens: 1 << 40,
        output_tokens: 7,
        estimated: true,
        cost_usd: Some(0.1),
    };
    let trials: Vec<Trial> = (0u32..)
        .zip(passed)
        .map(|(index, passed)| Trial {
            index,
            status: status(*passed),
            error: None,
            turns: vec![Turn { text: "t".to_owned(), calls: vec![0], usage, duration_ms: 3 }],
            tool_calls: vec![
                ToolCallRecord::of_text("s", "read", json!({"path": "ä\n", "n": 1.5}), "text"),
                ToolCallRecord {
                    success: false,
                    error: Some("no".to_owned()),
                    response: serde_json::Value::Null,
                    ..ToolCallRecord::of_text("unknown", "nope", json!("text"), "")
                },
            ],
            answer: "answer".to_owned(),
            checks: vec![CheckResult {
                name: "c".to_owned(),
                passed: true,
                detail: "d".to_owned(),
                expected: json!([1]),
                actual: serde_json::Value::Null,
            }],
            votes: (0..3)
                .map(|index| Vote {
                    index,
                    passed: *passed,
                    answers: vec![ItemAnswer {
                        item: "i".to_owned(),
                        evidence: "e".to_owned(),
                        yes: *passed,
                    }],
                    reasoning: "r".to_owned(),
                    suggestions: None,
                    model: "judge".to_owned(),
                    prompt_hash: "abc".to_owned(),
                    usage,
                    duration_ms: 5,
                })
                .collect(),
            verdict: verdict(*passed),
            usage,
            work_ms: 10,
            duration_ms: 20,
        })
        .collect();
    let whole = passed.iter().all(|passed| *passed);
    let mut result = TestResult {
        id: new_id(),
        run_id: None,
        test_case: TestCase::new(name, "a prompt with 'quotes'"),
        tool_calls: Vec::new(),
        verdict: verdict(whole),
        duration: 1234,
        success: whole,
        status: status(whole),
        error: None,
        timestamp: Timestamp::now(),
        trials,
    };
    if let Some(trial) = result.deciding_trial().cloned() {
        result.tool_calls = trial.tool_calls;
    }
    result
}

fn verdict(passed: bool) -> Verdict {
    Verdict {
        passed,
        confidence: 2.0 / 3.0,
        reasoning: "because \"it\" is — so".to_owned(),
        tool_accuracy: 0.1 + 0.2,
        suggestions: passed.then(|| "none".to_owned()),
        items: vec![ItemVerdict { item: "i".to_owned(), yes: 2, no: 1, evidence: "e".to_owned() }],
    }
}

fn status(passed: bool) -> Status {
    if passed { Status::Passed } else { Status::Failed }
}

async fn put(store: &dyn ResultStore, result: &TestResult) {
    store.put_result(result).await.expect("the result is new");
}

async fn results_come_back_as_they_were(store: &dyn ResultStore) {
    let mut broken = sample("broken", &[]);
    broken.status = Status::Error;
    broken.success = false;
    broken.error = Some("prompt is blank".to_owned());
    broken.test_case.prompt = String::new();
    for result in [sample("whole", &[true, false, true]), sample("good", &[true]), broken] {
        put(store, &result).await;
        let found = store.result(&result.id).await.expect("it is read");
        assert_eq!(found.as_ref(), Some(&result));
        let again = store.put_result(&result).await;
        assert!(matches!(again, Err(StoreError::Exists { kind: "result", .. })), "{again:?}");
    }
    assert_eq!(store.result("unknown").await.expect("it is read"), None);
}

async fn pages_are_whole(store: &dyn ResultStore) {
    let mut ids = Vec::new();
    for number in 0..7 {
        let mut result = sample("paged", &[number % 2 == 0]);
        result.id = format!("{}-{number}", result.id);
        result.timestamp = Timestamp::from_millis(1000 + number);
        put(store, &result).await;
        ids.insert(0, result.id);
    }
    ids.sort_unstable_by(|one, other| other.cmp(one));
    for limit in [1, 3, 7, 200] {
        let mut found = Vec::new();
        let mut next = paged_results(limit);
        loop {
            let page = store.results(&next).await.expect("it is read");
            assert!(page.items.len() <= limit as usize);
            found.extend(page.items.into_iter().map(|result| result.id));
            next.page.cursor = page.next_cursor;
            if next.page.cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, ids, "newest first, each once");
    }
    let time = Some(Timestamp::from_millis(1005));
    for (filter, count) in [
        (ResultFilter { status: Some(Status::Passed), ..paged_results(50) }, 4),
        (ResultFilter { since: time, ..paged_results(50) }, 2),
        (ResultFilter { until: time, ..paged_results(50) }, 5),
        (ResultFilter { run: Some("unknown".to_owned()), ..paged_results(50) }, 0),
    ] {
        let page = store.results(&filter).await.expect("it is read");
        assert_eq!(page.items.len(), count, "{filter:?}");
    }
    let outcomes = store.outcomes(&OutcomeFilter::of_case("paged")).await.expect("it is read");
    assert_eq!(
        outcomes.iter().map(|outcome| &outcome.result_id).collect::<Vec<_>>(),
        ids.iter().collect::<Vec<_>>()
    );
    let past = history(store, "paged", 50).await.expect("it is read");
    assert_eq!((past.pass_rate.count, past.pass_rate.of), (4, 7));
    assert!(past.pass_at_3.is_some() && past.pass_hat_3.is_some());
    let last = history(store, "paged", 2).await.expect("it is read");
    assert_eq!((last.pass_at_3, last.pass_hat_3), (None, None), "2 trials say nothing of 3");
    let flaky = flakiness(store).await.expect("it is read");
    let paged = flaky.iter().find(|case| case.test_name == "paged").expect("it has results");
    assert_eq!((paged.flips.count, paged.flips.of), (6, 6));
}

/// Returns a filter of the results of `pages_are_whole`.
fn paged_results(limit: u32) -> ResultFilter {
    ResultFilter {
        name: Some("paged".to_owned()),
        page: PageRequest { limit: Some(limit), cursor: None },
        ..ResultFilter::default()
    }
}

/// Long results come in more pages than the limit asks for, and one that is longer than a page has
/// a page of its own.
async fn pages_are_bounded(store: &dyn ResultStore) {
    let mut ids = Vec::new();
    for bytes in [7, 7, 7, 20, 1] {
        let mut result = sample("long", &[true]);
        result.trials[0].answer = "x".repeat(bytes << 20);
        put(store, &result).await;
        ids.insert(0, result.id);
    }
    let name = Some("long".to_owned());
    let mut next = ResultFilter { name, ..ResultFilter::default() };
    let mut found = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = store.results(&next).await.expect("it is read");
        sizes.push(page.items.len());
        found.extend(page.items.into_iter().map(|result| result.id));
        next.page.cursor = page.next_cursor;
        if next.page.cursor.is_none() {
            break;
        }
    }
    assert_eq!((found, sizes), (ids, vec![1, 1, 2, 1]));
}

async fn batches_are_counted(store: &dyn ResultStore) {
    let configuration = configuration("c1", "both", 1);
    store.put_configuration(&configuration).await.expect("it is written");
    let renamed = Configuration { name: "renamed".to_owned(), ..configuration };
    let later = Timestamp::from_millis(9);
    let stored_again = Configuration { created_at: later, updated_at: later, ..renamed.clone() };
    store.put_configuration(&stored_again).await.expect("it is replaced");
    let renamed = Configuration { updated_at: later, ..renamed };
    assert_eq!(store.configuration("c1").await.expect("it is read"), Some(renamed));
    let unknown = NewRun { configuration_id: Some("c9".to_owned()), ..NewRun::default() };
    let refused = store.start_run(unknown).await;
    assert!(
        matches!(refused, Err(StoreError::NotFound { kind: "configuration", .. })),
        "{refused:?}"
    );

    let mut runs = Vec::new();
    for passes in [true, false] {
        let new = NewRun {
            name: Some("night".to_owned()),
            configuration_id: Some("c1".to_owned()),
            total_tests: 2,
        };
        let run = store.start_run(new).await.expect("it is written");
        assert_eq!(run.status, RunStatus::Running);
        store.touch_run(&run.id).await.expect("it is written");
        for name in ["one", "two"] {
            let mut result = sample(name, &[passes; 8]);
            result.run_id = Some(run.id.clone());
            put(store, &result).await;
        }
        let counted = store.run(&run.id).await.expect("it is read").expect("it is there");
        assert_eq!(
            (counted.passed_tests, counted.failed_tests),
            if passes { (2, 0) } else { (0, 2) }
        );
        let ended = store.finish_run(&run.id, RunStatus::Completed).await.expect("it is written");
        assert!(ended.completed_at.is_some());
        assert_eq!(store.run(&run.id).await.expect("it is read"), Some(ended));
        runs.push(run.id);
    }
    let page = store.runs(&PageRequest { limit: Some(1), cursor: None }).await.expect("it is read");
    assert_eq!(page.items[0].id, runs[1], "newest first");
    let next = PageRequest { limit: Some(1), cursor: page.next_cursor };
    assert_eq!(store.runs(&next).await.expect("it is read").items[0].id, runs[0]);
    let compared = compare(store, &runs[0], &runs[1]).await.expect("both are there");
    assert_eq!((compared.verdict, compared.cases.len()), (Change::Regression, 2));
    let back = compare(store, &runs[1], &runs[0]).await.expect("both are there");
    assert_eq!(back.verdict, Change::None);
    assert!(compare(store, &runs[0], "unknown").await.is_err());
    assert!(compared.only_base.is_empty() && compared.only_new.is_empty());
    let other = store.start_run(NewRun::default()).await.expect("it is written");
    let mut result = sample("three", &[true; 8]);
    result.run_id = Some(other.id.clone());
    put(store, &result).await;
    store.finish_run(&other.id, RunStatus::Completed).await.expect("it is written");
    let differs = compare(store, &runs[0], &other.id).await.expect("both are there");
    assert_eq!(
        (differs.only_base, differs.only_new),
        (vec!["one".to_owned(), "two".to_owned()], vec!["three".to_owned()],)
    );
    assert!(store.finish_run("unknown", RunStatus::Failed).await.is_err());
    let refused = store.touch_run("unknown").await;
    assert!(matches!(refused, Err(StoreError::NotFound { kind: "run", .. })), "{refused:?}");
    let mut lost = sample("lost", &[true]);
    lost.run_id = Some("unknown".to_owned());
    let refused = store.put_result(&lost).await;
    assert!(matches!(refused, Err(StoreError::NotFound { kind: "run", .. })), "{refused:?}");
}

/// Returns a configuration that was created so many milliseconds after the start of 1970.
fn configuration(id: &str, name: &str, at: u64) -> Configuration {
    Configuration {
        id: id.to_owned(),
        name: name.to_owned(),
        description: Some("a text".to_owned()),
        server_configs: vec![ServerConfig::stdio("a", ["b"])],
        judge_config: Some(ModelSettings::new("openai", "m")),
        origin: ConfigurationOrigin::Created,
        created_at: Timestamp::from_millis(at),
        updated_at: Timestamp::from_millis(at),
    }
}

async fn configurations_are_listed_and_deleted(store: &dyn ResultStore) {
    // The newest first, and those of one millisecond by their ids.
    let listed = [("l3", 4000), ("l5", 3000), ("l4", 3000), ("l1", 2000), ("l2", 1000)];
    for (id, at) in listed {
        let mut configuration = configuration(id, "listed", at);
        if id == "l5" {
            configuration.origin = ConfigurationOrigin::Derived;
        }
        store.put_configuration(&configuration).await.expect("it is written");
    }
    let all = listed.map(|(id, _)| id);
    for limit in [1, 2, 5, 200] {
        let page = PageRequest { limit: Some(limit), cursor: None };
        let mut filter =
            ConfigurationFilter { name: Some("listed".to_owned()), page, origin: None };
        assert_eq!(configuration_ids(store, &filter).await, all, "{limit}");
        filter.origin = Some(ConfigurationOrigin::Created);
        let created = configuration_ids(store, &filter).await;
        assert_eq!(created, ["l3", "l4", "l1", "l2"], "{limit}");
    }
    let every = configuration_ids(store, &ConfigurationFilter::default()).await;
    assert!(every.len() > all.len() && every.contains(&"c1".to_owned()), "{every:?}");

    let deleted = store.delete_configuration("l1").await.expect("no run has it");
    assert_eq!(deleted, configuration("l1", "listed", 2000));
    assert_eq!(store.configuration("l1").await.expect("it is read"), None);
    for id in ["l1", "unknown"] {
        let refused = store.delete_configuration(id).await;
        assert!(
            matches!(refused, Err(StoreError::NotFound { kind: "configuration", .. })),
            "{refused:?}"
        );
    }
    let refused = store.delete_configuration("c1").await;
    assert!(matches!(refused, Err(StoreError::InUse { runs: 2, .. })), "{refused:?}");
    assert!(store.configuration("c1").await.expect("it is read").is_some());
}

/// Returns the ids of all configurations that a filter selects, page by page.
async fn configuration_ids(store: &dyn ResultStore, filter: &ConfigurationFilter) -> Vec<String> {
    let mut next = filter.clone();
    let mut ids = Vec::new();
    loop {
        let page = store.configurations(&next).await.expect("it is read");
        assert!(page.items.len() <= next.page.size());
        ids.extend(page.items.into_iter().map(|configuration| configuration.id));
        next.page.cursor = page.next_cursor;
        if next.page.cursor.is_none() {
            return ids;
        }
    }
}

fn override_on(result: &TestResult, trial: u32, passed: bool, author: &str, at: u64) -> Override {
    Override {
        result_id: result.id.clone(),
        trial,
        passed,
        reason: "I looked".to_owned(),
        author: author.to_owned(),
        timestamp: Timestamp::from_millis(at),
    }
}

async fn overrides_are_compared_with_the_judge(store: &dyn ResultStore) {
    let result = sample("judged", &[true, false, true]);
    put(store, &result).await;
    for verdict in [
        override_on(&result, 0, false, "ann", 1),
        override_on(&result, 0, true, "ann", 2),
        override_on(&result, 1, false, "ann", 3),
        override_on(&result, 2, true, "ann", 4),
        override_on(&result, 2, false, "bob", 5),
    ] {
        store.put_override(&verdict).await.expect("the trial is there");
    }
    let found = store.overrides(&result.id).await.expect("it is read");
    assert_eq!(found.len(), 4, "a later one of the same author replaces it");
    assert_eq!(found[0], override_on(&result, 0, true, "ann", 2));
    let refused = store.put_override(&override_on(&result, 3, true, "ann", 1)).await;
    assert!(matches!(refused, Err(StoreError::NotFound { kind: "trial", .. })), "{refused:?}");
    let judges = judge_agreement(store).await.expect("it is read");
    assert_eq!(judges.len(), 1);
    let judge = &judges[0];
    assert_eq!((&*judge.model, &*judge.prompt_hash), ("judge", "abc"));
    assert_eq!(
        (judge.verdicts.both_passed, judge.verdicts.both_failed, judge.verdicts.only_judge_passed),
        (1, 1, 1)
    );
    assert!(judge.kappa.is_some_and(|kappa| (kappa - 0.4).abs() < 1e-9), "{judge:?}");
    // Votes of a trial that ended with an error are not a verdict of the judge.
    let mut broken = sample("broken", &[true]);
    broken.trials[0].status = Status::Error;
    put(store, &broken).await;
    let on_broken = override_on(&broken, 0, false, "ann", 3);
    store.put_override(&on_broken).await.expect("it is written");
    assert_eq!(judge_agreement(store).await.expect("it is read"), judges);
}

async fn secrets_are_not_stored(store: &dyn ResultStore) {
    let mut result = sample("secret", &[true]);
    let mut model = ModelSettings::new("openai", "m");
    model.api_key = Some("sk-not-to-be-store".to_owned());
    result.test_case.judge_config = Some(model.clone());
    put(store, &result).await;
    let found = store.result(&result.id).await.expect("it is read").expect("it is there");
    assert_eq!(found.test_case.judge_config.and_then(|model| model.api_key), None);
    let mut configuration = configuration("c2", "secret", 1);
    configuration.judge_config = Some(model.clone());
    store.put_configuration(&configuration).await.expect("it is written");
    let found = store.configuration("c2").await.expect("it is read").expect("it is there");
    let key = found.judge_config.and_then(|model| model.api_key);
    assert_eq!(key.as_deref(), Some("…"), "a mark is in place of the key");
    model.api_key = Some("${JUDGE_KEY}".to_owned());
    configuration.judge_config = Some(model);
    store.put_configuration(&configuration).await.expect("it is written");
    let found = store.configuration("c2").await.expect("it is read");
    assert_eq!(found, Some(configuration), "a reference is not a secret");
}
