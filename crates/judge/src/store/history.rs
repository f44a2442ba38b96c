//! Statistics of stored results: of a case, of two batches, of a judge. They work on any store.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Outcome, OutcomeFilter, ResultStore, StoreError};
use crate::{
    Status,
    result::TrialCounts,
    stats::{self, Change, Confusion, Interval, Rate},
};

/// The history of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CaseHistory {
    /// The name of the case.
    pub test_name: String,
    /// Its results, newest first.
    pub entries: Vec<Outcome>,
    /// The trials that passed, of those with a verdict.
    pub pass_rate: Rate,
    /// The trials without a verdict.
    pub errors: u32,
    /// The chance that at least one of 3 trials passes; absent with fewer trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_at_3: Option<f64>,
    /// The chance that 3 trials all pass; absent with fewer trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_hat_3: Option<f64>,
}

/// Returns the history of a case, of at most `limit` results.
///
/// # Errors
///
/// Returns an error if the database fails.
pub async fn history(
    store: &dyn ResultStore,
    name: &str,
    limit: u32,
) -> Result<CaseHistory, StoreError> {
    let filter = OutcomeFilter { limit: Some(limit), ..OutcomeFilter::of_case(name) };
    let entries = store.outcomes(&filter).await?;
    let TrialCounts { passed, failed, errors } = total(&entries);
    let trials = passed + failed;
    // Fewer than three trials give no estimate for three.
    let is_enough = trials >= 3;
    Ok(CaseHistory {
        test_name: name.to_owned(),
        entries,
        pass_rate: Rate::new(passed, trials),
        errors,
        pass_at_3: is_enough.then(|| stats::pass_at_k(trials, passed, 3)),
        pass_hat_3: is_enough.then(|| stats::pass_hat_k(trials, passed, 3)),
    })
}

/// The variation of the results of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Flakiness {
    /// The name of the case.
    pub test_name: String,
    /// The trials that passed, of those with a verdict.
    pub pass_rate: Rate,
    /// Number of verdicts that differ from the previous one, of all with a previous one.
    pub flips: Rate,
}

/// Returns how much the results of each case vary, the most varying first, from the newest 10,000
/// results.
///
/// # Errors
///
/// Returns an error if the database fails.
pub async fn flakiness(store: &dyn ResultStore) -> Result<Vec<Flakiness>, StoreError> {
    let filter = OutcomeFilter { limit: Some(10_000), ..Default::default() };
    let mut cases: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for outcome in store.outcomes(&filter).await? {
        cases.entry(outcome.test_name.clone()).or_default().push(outcome);
    }
    let mut all: Vec<_> = cases
        .into_iter()
        .map(|(test_name, outcomes)| {
            let TrialCounts { passed, failed, .. } = total(&outcomes);
            let verdicts: Vec<Status> = outcomes
                .iter()
                .map(|outcome| outcome.status)
                .filter(|status| *status != Status::Error)
                .collect();
            let pairs = verdicts.windows(2);
            let flips = pairs.clone().filter(|pair| pair[0] != pair[1]).count();
            Flakiness {
                test_name,
                pass_rate: Rate::new(passed, passed + failed),
                flips: Rate::new(stats::saturated(flips), stats::saturated(pairs.len())),
            }
        })
        .collect();
    all.sort_by(|one, other| other.flip_rate().total_cmp(&one.flip_rate()));
    Ok(all)
}

impl Flakiness {
    fn flip_rate(&self) -> f64 {
        self.flips.rate.unwrap_or(0.0)
    }
}

/// Two batches beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Comparison {
    /// The older batch.
    pub base_run: String,
    /// The newer batch.
    pub new_run: String,
    /// `regression` if the rate of any case or of all cases together fell; `insufficient_data` if
    /// there are too few trials to decide for all of them together; else `none`.
    pub verdict: Change,
    /// The cases together that have trials with a verdict in both batches: the numbers are those of
    /// all their trials, and the change is that of the mean rate of the cases, each with the same
    /// weight.
    pub all: CaseComparison,
    /// The cases that only the older batch has.
    #[serde(default)]
    pub only_base: Vec<String>,
    /// The cases that only the newer batch has.
    #[serde(default)]
    pub only_new: Vec<String>,
    /// The cases, by name. With 95 % confidence, no case is called a regression that has not
    /// changed, however many are compared.
    pub cases: Vec<CaseComparison>,
}

/// A case in two batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CaseComparison {
    /// The name of the case; empty for all together.
    pub test_name: String,
    /// The trials of the older batch that passed, of those with a verdict.
    pub base: Rate,
    /// The trials of the newer batch.
    pub new: Rate,
    /// The change from the older batch to the newer one.
    pub change: Change,
}

/// The trials that passed, and all with a verdict.
type Counted = (u32, u32);

impl CaseComparison {
    fn new(test_name: &str, base: Counted, new: Counted, change: Change) -> Self {
        Self {
            test_name: test_name.to_owned(),
            base: Rate::new(base.0, base.1),
            new: Rate::new(new.0, new.1),
            change,
        }
    }
}

/// Compares two batches.
///
/// # Errors
///
/// Returns an error if a batch is unknown ([`StoreError::NotFound`]), or if the database fails.
pub async fn compare(
    store: &dyn ResultStore,
    base_run: &str,
    new_run: &str,
) -> Result<Comparison, StoreError> {
    let mut counts: BTreeMap<String, [TrialCounts; 2]> = BTreeMap::new();
    let mut names: [BTreeSet<String>; 2] = Default::default();
    for (side, id) in [base_run, new_run].into_iter().enumerate() {
        if store.run(id).await?.is_none() {
            return Err(StoreError::NotFound { kind: "run", id: id.to_owned() });
        }
        let filter = OutcomeFilter { limit: Some(10_000), ..OutcomeFilter::of_run(id) };
        for outcome in store.outcomes(&filter).await? {
            names[side].insert(outcome.test_name.clone());
            add(&mut counts.entry(outcome.test_name.clone()).or_default()[side], outcome.trials);
        }
    }
    let counted: BTreeMap<String, [Counted; 2]> = counts
        .into_iter()
        .map(|(name, sides)| {
            (name, sides.map(|counts| (counts.passed, counts.passed + counts.failed)))
        })
        .collect();
    // Counts only cases that both batches have: a new difficult case must not look like a
    // regression, and a new easy one must not hide one.
    let both: Vec<[Counted; 2]> =
        counted.values().copied().filter(|sides| sides.iter().all(|(_, all)| *all > 0)).collect();
    let cases: Vec<_> = counted
        .iter()
        .map(|(name, [base, new])| {
            let change = stats::change_among(both.len(), *base, *new);
            CaseComparison::new(name, *base, *new, change)
        })
        .collect();
    let change = stats::change_of_mean(&both);
    let all = CaseComparison::new("", sum_of(&both, 0), sum_of(&both, 1), change);
    let fell = cases.iter().chain([&all]).any(|case| case.change == Change::Regression);
    let [base_names, new_names] = &names;
    Ok(Comparison {
        only_base: base_names.difference(new_names).cloned().collect(),
        only_new: new_names.difference(base_names).cloned().collect(),
        base_run: base_run.to_owned(),
        new_run: new_run.to_owned(),
        verdict: if fell { Change::Regression } else { all.change },
        all,
        cases,
    })
}

/// Returns the trials of all cases in the older (`side` 0) or the newer (`side` 1) batch.
fn sum_of(cases: &[[Counted; 2]], side: usize) -> Counted {
    cases.iter().fold((0, 0), |sum, sides| (sum.0 + sides[side].0, sum.1 + sides[side].1))
}

/// The agreement of a judge with people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JudgeAgreement {
    /// The judging model.
    pub model: String,
    /// Hash of its instructions and checklist.
    pub prompt_hash: String,
    /// The verdicts of both.
    pub verdicts: Confusion,
    /// The share of equal verdicts.
    pub agreement: f64,
    /// Its Wilson interval.
    pub interval: Interval,
    /// Cohen's κ; absent where it is not defined: both gave one and the same verdict always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
}

/// Returns how well each judge agrees with people's overrides, by model and instructions.
///
/// # Errors
///
/// Returns an error if the database fails.
pub async fn judge_agreement(store: &dyn ResultStore) -> Result<Vec<JudgeAgreement>, StoreError> {
    let mut judges: BTreeMap<(String, String), Confusion> = BTreeMap::new();
    for pair in store.agreements().await? {
        judges
            .entry((pair.model, pair.prompt_hash))
            .or_default()
            .add(pair.judge_passed, pair.human_passed);
    }
    let all = judges.into_iter().map(|((model, prompt_hash), verdicts)| JudgeAgreement {
        model,
        prompt_hash,
        verdicts,
        agreement: verdicts.agreement().unwrap_or(0.0),
        interval: stats::wilson(verdicts.both_passed + verdicts.both_failed, verdicts.total()),
        kappa: verdicts.kappa(),
    });
    Ok(all.collect())
}

fn total(outcomes: &[Outcome]) -> TrialCounts {
    let mut total = TrialCounts::default();
    for outcome in outcomes {
        add(&mut total, outcome.trials);
    }
    total
}

fn add(total: &mut TrialCounts, counts: TrialCounts) {
    total.passed += counts.passed;
    total.failed += counts.failed;
    total.errors += counts.errors;
}
