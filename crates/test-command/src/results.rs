//! Stored results: history, comparison of runs, and the test of a judge.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
};

use marquetry_judge::{
    ModelSettings, Models as _, RemoteModels, ResultStore, Role, Status, StoreError, TestCase,
    case_file::CaseFile,
    fault::{Trace, check_judge},
    judge::{Judge, JudgeOptions},
    stats::{Change, Rate},
    store::{self, PageRequest, ResultFilter},
};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    Environment, Failed,
    arguments::{DatabaseArgs, ModelName},
    changed::changed_cases,
    database::{self, Missing},
    progress::Spinner,
    summary::one_line,
    variables::expand_case,
};

/// Stored good results of a case into which faults are seeded.
const TRACES_PER_CASE: usize = 10;

/// Newest results of a case and a status among which results that a person has confirmed are
/// searched.
const SEARCHED_RESULTS: u32 = 50;

/// Minimum share of faults that a judge must notice, and maximum share of good traces that it may
/// reject (specification of the judge).
const MIN_DETECTION: f64 = 0.95;
const MAX_FALSE_ALARMS: f64 = 0.05;

/// Prints the stored results of a case, or one line for each case.
pub(crate) fn history(
    name: Option<&str>,
    limit: usize,
    as_json: bool,
    database: &DatabaseArgs,
    environment: Environment<'_>,
) -> Result<(), Failed> {
    let runtime = Runtime::new().map_err(Failed::error)?;
    let text = runtime.block_on(async {
        let store = database::open(database, environment, Missing::Refuse).await?;
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        match name {
            Some(name) => history_of_case(&*store, name, limit, as_json).await,
            None => all_cases(&*store, as_json).await,
        }
    })?;
    print(&text);
    Ok(())
}

async fn history_of_case(
    store: &dyn ResultStore,
    name: &str,
    limit: u32,
    as_json: bool,
) -> Result<String, Failed> {
    let history = store::history(store, name, limit).await.map_err(Failed::error)?;
    if history.entries.is_empty() {
        return Err(Failed::usage(format!("no result of a case {name:?} is stored")));
    }
    if as_json {
        return Ok(pretty(&history));
    }
    let mut text = String::new();
    for entry in &history.entries {
        let counts = entry.trials;
        _ = writeln!(
            text,
            "{}  {:6}  {} of {} trials  accuracy {:.2}  {} ms  {}",
            entry.timestamp,
            entry.status.as_str(),
            counts.passed,
            counts.passed + counts.failed + counts.errors,
            entry.tool_accuracy,
            entry.duration_ms,
            entry.result_id
        );
    }
    _ = writeln!(text, "\npass rate {}", rate(&history.pass_rate));
    if let (Some(any), Some(all)) = (history.pass_at_3, history.pass_hat_3) {
        _ = writeln!(
            text,
            "of 3 trials, at least one passes: {:.0} %; all pass: {:.0} %",
            any * 100.0,
            all * 100.0
        );
    }
    Ok(text)
}

async fn all_cases(store: &dyn ResultStore, as_json: bool) -> Result<String, Failed> {
    let cases = store::flakiness(store).await.map_err(Failed::error)?;
    let runs = store.runs(&PageRequest::default()).await.map_err(Failed::error)?;
    let judges = store::judge_agreement(store).await.map_err(Failed::error)?;
    if as_json {
        return Ok(pretty(&json!({"cases": cases, "judges": judges, "runs": runs.items})));
    }
    let mut text = String::new();
    for case in &cases {
        _ = writeln!(
            text,
            "{}: pass rate {}; verdict changed {} of {} times",
            one_line(&case.test_name),
            rate(&case.pass_rate),
            case.flips.count,
            case.flips.of
        );
    }
    if !judges.is_empty() {
        text.push_str("\njudges, compared with the verdicts of people:\n");
    }
    for judge in &judges {
        let kappa = judge.kappa.map_or_else(|| "not defined".to_owned(), |it| format!("{it:.2}"));
        let equal = judge.verdicts.both_passed + judge.verdicts.both_failed;
        _ = writeln!(
            text,
            "{}  κ {kappa}; equal verdicts {}",
            one_line(&judge.model),
            rate(&Rate::new(equal, judge.verdicts.total()))
        );
    }
    text.push_str("\nruns, the newest first:\n");
    for run in &runs.items {
        _ = writeln!(
            text,
            "{}  {}  {} passed, {} failed, {} without a verdict, of {}  {}{}",
            run.id,
            run.status.as_str(),
            run.passed_tests,
            run.failed_tests,
            run.error_tests,
            run.total_tests,
            one_line(run.name.as_deref().unwrap_or_default()),
            run.configuration_id
                .as_ref()
                .map_or_else(String::new, |id| format!("  configuration {id}"))
        );
    }
    Ok(text)
}

/// Prints the differences between two runs. A regression is a failure; a later run without any
/// verdict is an error.
pub(crate) fn compare(
    before: &str,
    after: &str,
    as_json: bool,
    database: &DatabaseArgs,
    environment: Environment<'_>,
) -> Result<(), Failed> {
    let runtime = Runtime::new().map_err(Failed::error)?;
    let (comparison, changed) = runtime.block_on(async {
        let store = database::open(database, environment, Missing::Refuse).await?;
        let before = run_id(&*store, before).await?;
        let after = run_id(&*store, after).await?;
        let comparison =
            store::compare(&*store, &before, &after).await.map_err(|error| match error {
                StoreError::NotFound { .. } => Failed::usage(error),
                error => Failed::error(error),
            })?;
        let changed = changed_cases(&*store, &before, &after).await.map_err(Failed::error)?;
        Ok((comparison, changed))
    })?;
    if as_json {
        let mut whole = json!(comparison);
        whole["changedCases"] = json!(changed);
        print(&pretty(&whole));
    } else {
        let mut text = String::new();
        for (names, run) in [(&comparison.only_base, "earlier"), (&comparison.only_new, "later")] {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| one_line(name)).collect();
                _ = writeln!(text, "only in the {run} run: {}", names.join(", "));
            }
        }
        for (name, members) in &changed {
            let name = one_line(name);
            _ = writeln!(text, "not the same case in both runs: {name} ({})", members.join(", "));
        }
        for case in &comparison.cases {
            let name = one_line(&case.test_name);
            let rates = rates(&case.base, &case.new);
            _ = writeln!(text, "{name}: {rates}  {}", change(case.change));
        }
        let all = &comparison.all;
        _ = writeln!(text, "\nall: {}", rates(&all.base, &all.new));
        _ = writeln!(text, "verdict: {}", change(comparison.verdict));
        print(&text);
    }
    // `all` is not used here, because it leaves out cases that only one run has.
    if comparison.cases.iter().all(|case| case.new.of == 0) {
        return Err(Failed::error(format!(
            "no trial of the run {} has a verdict; `marquetry test history NAME` shows the results of a case",
            comparison.new_run
        )));
    }
    let only = comparison.only_base.len() + comparison.only_new.len();
    if only == comparison.cases.len() {
        return Err(Failed::error(format!(
            "the runs {} and {} have no case in common; name two runs of the same cases",
            comparison.base_run, comparison.new_run
        )));
    }
    match comparison.verdict {
        Change::Regression => Err(Failed::printed(Failed::FAIL)),
        _ => Ok(()),
    }
}

/// Returns the id of a run: `latest`, `latest~N`, or the id itself.
async fn run_id(store: &dyn ResultStore, name: &str) -> Result<String, Failed> {
    let back = match name.strip_prefix("latest") {
        Some("") => 0,
        Some(rest) => match rest.strip_prefix('~').and_then(|back| back.parse().ok()) {
            Some(back) => back,
            None => return Ok(name.to_owned()),
        },
        None => return Ok(name.to_owned()),
    };
    let page = PageRequest { limit: Some(200), cursor: None };
    let runs = store.runs(&page).await.map_err(Failed::error)?.items;
    let count = runs.len();
    let run = runs.into_iter().nth(back);
    run.map(|run| run.id).ok_or_else(|| {
        Failed::usage(format!(
            "{name} is not among the newest {count} runs; `marquetry test history` lists runs"
        ))
    })
}

/// Seeds faults into passing results of the cases, and prints how many the judge notices.
pub(crate) fn judge_check(
    files: &[PathBuf],
    judge: Option<&ModelName>,
    as_json: bool,
    database: &DatabaseArgs,
    environment: Environment<'_>,
) -> Result<(), Failed> {
    let mut cases = Vec::new();
    for file in files {
        cases.extend(CaseFile::load(file).map_err(Failed::usage)?.into_cases());
    }
    let mut judges = cases.iter().filter_map(|case| case.judge_config.as_ref());
    let mut settings: Option<ModelSettings> = judges.next().cloned();
    match judge {
        Some(judge) => judge.apply(&mut settings),
        None if judges.any(|other| Some(other) != settings.as_ref()) => {
            return Err(Failed::usage(
                "the cases have different judges: name one with --judge PROVIDER/MODEL, or check their files one after the other",
            ));
        }
        None => {}
    }
    let mut judged = TestCase::new("judge-check", "");
    judged.judge_config = settings;
    let file = files.first().map_or(Path::new(""), PathBuf::as_path);
    expand_case(&mut judged, file, environment.variable, false).map_err(Failed::usage)?;
    let settings = judged.judge_config.ok_or_else(|| {
        Failed::usage("no case has a judgeConfig: name the judge with --judge PROVIDER/MODEL")
    })?;
    let model = RemoteModels::from_environment(environment.variable)
        .model(Role::Judge, &settings)
        .map_err(Failed::usage)?;
    let runtime = Runtime::new().map_err(Failed::error)?;
    let report = runtime.block_on(async {
        let store = database::open(database, environment, Missing::Refuse).await?;
        let mut traces = Vec::new();
        for case in &cases {
            traces.extend(good_traces(&*store, &case.name).await.map_err(Failed::error)?);
        }
        if traces.is_empty() {
            return Err(Failed::usage(
                "no good result of these cases is stored: run `marquetry test` with them first",
            ));
        }
        let count = traces.len();
        let _spinner = Spinner::new(format!("the judge reads {count} results and their faults"));
        let judge = Judge::new(model, JudgeOptions::of(&settings));
        Ok(check_judge(&judge, &traces, settings.seed.unwrap_or(0)).await)
    })?;
    if as_json {
        print(&pretty(&report));
    } else {
        let mut text = format!("faults noticed: {}\n", rate(&report.detection));
        for kind in &report.kinds {
            _ = writeln!(
                text,
                "  {}: {}",
                json!(kind.kind).as_str().unwrap_or_default(),
                rate(&kind.detection)
            );
        }
        let alarms = match report.false_alarms.of {
            0 => "not measured, because no person has confirmed a result".to_owned(),
            _ => format!("{} of results that a person has confirmed", rate(&report.false_alarms)),
        };
        _ = writeln!(text, "false alarms: {alarms}");
        if report.unconfirmed_rejections.of > 0 {
            _ = writeln!(
                text,
                "changed verdicts: {} of results that passed, but that no person has confirmed",
                rate(&report.unconfirmed_rejections)
            );
        }
        if let Some(error) = &report.first_error {
            _ = writeln!(
                text,
                "without a verdict: {}; the first: {}",
                report.errors,
                one_line(error)
            );
        }
        print(&text);
    }
    // A judge whose verdicts change is as little use as one whose verdicts are wrong.
    let rejections = [report.false_alarms.rate, report.unconfirmed_rejections.rate];
    let highest = rejections.into_iter().flatten().max_by(f64::total_cmp);
    let (Some(detection), Some(rejections)) = (report.detection.rate, highest) else {
        return Err(Failed::error("the judge gave no verdict"));
    };
    if detection < MIN_DETECTION || rejections > MAX_FALSE_ALARMS {
        return Err(Failed::printed(Failed::FAIL));
    }
    // Faults without a verdict are neither detected nor missed, so the check has no result.
    if report.errors > 0 {
        return Err(Failed::printed(Failed::ERROR));
    }
    Ok(())
}

/// Returns good trials of a case, one of a result: first those that a person has confirmed, then
/// the newest others that passed.
async fn good_traces(store: &dyn ResultStore, case: &str) -> Result<Vec<Trace>, StoreError> {
    let mut traces = Vec::new();
    // A person may have confirmed what the judge rejected.
    for status in [Status::Passed, Status::Failed] {
        let mut filter = ResultFilter::default();
        filter.name = Some(case.to_owned());
        filter.status = Some(status);
        filter.page.limit = Some(SEARCHED_RESULTS);
        for result in store.results(&filter).await?.items {
            let overrides = store.overrides(&result.id).await?;
            let trace = Trace::with_overrides(&result, &overrides);
            traces.extend(trace.filter(|it| it.confirmed || status == Status::Passed));
        }
    }
    traces.sort_by_key(|trace| !trace.confirmed);
    traces.truncate(TRACES_PER_CASE);
    Ok(traces)
}

fn rate(rate: &Rate) -> String {
    match rate.rate {
        None => "none (no trial has a verdict)".to_owned(),
        Some(share) => format!(
            "{:.0} % ({} of {}; 95 % interval {:.0} to {:.0} %)",
            share * 100.0,
            rate.count,
            rate.of,
            rate.interval.low * 100.0,
            rate.interval.high * 100.0
        ),
    }
}

/// Describes how a rate changes from one run to another.
fn rates(base: &Rate, new: &Rate) -> String {
    if base.rate.is_none() && new.rate.is_none() {
        return "no trial has a verdict in either run".to_owned();
    }
    format!("{} -> {}", rate(base), rate(new))
}

fn change(change: Change) -> &'static str {
    match change {
        Change::Regression => "regression",
        Change::None => "no change",
        Change::InsufficientData => "insufficient_data",
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

fn print(text: &str) {
    // A closed pipe is not a failure.
    _ = std::io::stdout().lock().write_all(text.as_bytes());
}
