//! Statistics of repeated trials and of judges.
//!
//! ```
//! use marquetry_judge::stats::{pass_at_k, pass_hat_k, wilson};
//!
//! // 7 of 10 trials passed.
//! assert!((pass_at_k(10, 7, 2) - 0.9333).abs() < 1e-4); // at least one of two passes
//! assert!((pass_hat_k(10, 7, 2) - 0.4667).abs() < 1e-4); // both pass
//! let interval = wilson(7, 10);
//! assert!((interval.low - 0.3968).abs() < 1e-4 && (interval.high - 0.8922).abs() < 1e-4);
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The quantile of 95 % confidence of a normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Minimum number of trials on each side for [`change`] to decide.
pub const FEWEST_TRIALS: u32 = 5;

/// Returns a count as `u32`, or the largest `u32` if it is greater.
pub(crate) fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the F1 score for this number of pairs between expected and found items; 1 if there are
/// no items.
pub fn f1(pairs: usize, expected: usize, found: usize) -> f64 {
    match expected + found {
        0 => 1.0,
        all => 2.0 * pairs as f64 / all as f64,
    }
}

/// Returns the chance that at least one of `k` trials passes, from `passed` of `trials` (the
/// unbiased estimator of Chen et al., arXiv 2107.03374). `k` is at most the number of trials; NaN
/// without trials.
pub fn pass_at_k(trials: u32, passed: u32, k: u32) -> f64 {
    1.0 - all_of(trials, trials.saturating_sub(passed), k)
}

/// Returns the chance that all of `k` trials pass (pass^k of τ-bench, arXiv 2406.12045). `k` is at
/// most the number of trials; NaN without trials.
pub fn pass_hat_k(trials: u32, passed: u32, k: u32) -> f64 {
    all_of(trials, passed.min(trials), k)
}

/// Returns C(some, k) / C(all, k), the probability that `k` items drawn from `all` are all among
/// `some`.
fn all_of(all: u32, some: u32, k: u32) -> f64 {
    if all == 0 {
        return f64::NAN;
    }
    let k = k.min(all);
    (0..k).map(|drawn| f64::from(some.saturating_sub(drawn)) / f64::from(all - drawn)).product()
}

/// An interval of rates, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// Returns Wilson's score interval of a rate, at 95 % confidence; 0 to 1 without trials.
pub fn wilson(passed: u32, trials: u32) -> Interval {
    wilson_at(Z, passed, trials)
}

/// Returns Wilson's score interval for a quantile of the normal distribution.
fn wilson_at(z: f64, passed: u32, trials: u32) -> Interval {
    if trials == 0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let n = f64::from(trials);
    let rate = rate_of(passed, trials);
    let square = z * z;
    let middle = rate + square / (2.0 * n);
    let spread = z * (rate * (1.0 - rate) / n + square / (4.0 * n * n)).sqrt();
    let whole = 1.0 + square / n;
    // Rounding must not exclude the rate itself, nor exceed the range from 0 to 1.
    Interval {
        low: ((middle - spread) / whole).clamp(0.0, rate),
        high: ((middle + spread) / whole).clamp(rate, 1.0),
    }
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// Number of occurrences.
    pub count: u32,
    /// Number of opportunities.
    pub of: u32,
    /// The quotient; absent without opportunities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Wilson's interval of the share.
    pub interval: Interval,
}

impl Rate {
    /// Returns the rate of `count` in `of`.
    pub fn new(count: u32, of: u32) -> Self {
        let rate = (of > 0).then(|| f64::from(count) / f64::from(of));
        Self { count, of, rate, interval: wilson(count, of) }
    }
}

/// The change from one set of trials to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The rate has dropped, at 95 % confidence.
    Regression,
    /// No regression can be shown.
    None,
    /// There are too few trials to decide.
    InsufficientData,
}

/// Compares the rates of two sets of trials, given as passed and all trials: by Newcombe's interval
/// of the difference (method 10 of Statistics in Medicine 17, 1998), which combines both Wilson
/// intervals.
pub fn change(base: (u32, u32), new: (u32, u32)) -> Change {
    change_among(1, base, new)
}

/// Compares two sets of trials as [`change`] does, as one of several comparisons. The confidence of
/// 95 % is that of all of them together (Bonferroni's correction): of many cases that have not
/// changed, some would differ by chance.
pub fn change_among(comparisons: usize, base: (u32, u32), new: (u32, u32)) -> Change {
    if base.1 < FEWEST_TRIALS || new.1 < FEWEST_TRIALS {
        return Change::InsufficientData;
    }
    let (fall, variance) = fall(quantile(comparisons), base, new);
    if fall > variance.sqrt() { Change::Regression } else { Change::None }
}

/// Compares the mean rates of cases, each given by its trials before and after. A case counts by
/// its rate, not by its number of trials: else a case that is tried more often than before would
/// change the mean.
///
/// The interval of the mean difference combines those of the rates, as Newcombe's does for two
/// (MOVER: Zou and Donner, Statistics in Medicine 27, 2008). Cases need a trial on both sides.
pub fn change_of_mean(cases: &[[(u32, u32); 2]]) -> Change {
    if trials_of(cases, 0).min(trials_of(cases, 1)) < u64::from(FEWEST_TRIALS) {
        return Change::InsufficientData;
    }
    let falls = cases.iter().map(|[base, new]| fall(Z, *base, *new));
    let (sum, variance) = falls.fold((0.0, 0.0), |sum, fall| (sum.0 + fall.0, sum.1 + fall.1));
    if sum > variance.sqrt() { Change::Regression } else { Change::None }
}

/// Returns the number of trials of all cases before (`side` 0) or after (`side` 1).
fn trials_of(cases: &[[(u32, u32); 2]], side: usize) -> u64 {
    cases.iter().map(|sides| u64::from(sides[side].1)).sum()
}

/// Returns how far a rate fell, and the square of the distance to the lower bound of that
/// difference.
fn fall(z: f64, base: (u32, u32), new: (u32, u32)) -> (f64, f64) {
    let before = rate_of(base.0, base.1);
    let after = rate_of(new.0, new.1);
    let lowest_before = wilson_at(z, base.0, base.1).low;
    let highest_after = wilson_at(z, new.0, new.1).high;
    let square = (before - lowest_before).powi(2) + (highest_after - after).powi(2);
    (before - after, square)
}

/// Returns the share of trials that passed; NaN without trials.
fn rate_of(passed: u32, trials: u32) -> f64 {
    f64::from(passed.min(trials)) / f64::from(trials)
}

/// Returns the quantile of the normal distribution for this number of two-sided intervals, so that
/// all of them together hold at 95 % confidence.
fn quantile(intervals: usize) -> f64 {
    if intervals <= 1 {
        return Z;
    }
    let outside = 0.05 / intervals as f64;
    let mut low = Z;
    let mut high = 40.0;
    // Halved until the bounds are equal to about 12 digits.
    for _ in 0..45 {
        let middle = f64::midpoint(low, high);
        let is_low = libm::erfc(middle / std::f64::consts::SQRT_2) > outside;
        *(if is_low { &mut low } else { &mut high }) = middle;
    }
    high
}

/// Verdicts of two judges on the same things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Confusion {
    /// Both say that it passed.
    pub both_passed: u32,
    /// Both say that it failed.
    pub both_failed: u32,
    /// Only the judge says that it passed.
    pub only_judge_passed: u32,
    /// Only the person says that it passed.
    pub only_human_passed: u32,
}

impl Confusion {
    /// Adds a pair of verdicts.
    pub fn add(&mut self, judge: bool, human: bool) {
        *match (judge, human) {
            (true, true) => &mut self.both_passed,
            (false, false) => &mut self.both_failed,
            (true, false) => &mut self.only_judge_passed,
            (false, true) => &mut self.only_human_passed,
        } += 1;
    }

    /// Returns the number of pairs.
    pub fn total(&self) -> u32 {
        self.both_passed + self.both_failed + self.only_judge_passed + self.only_human_passed
    }

    /// Returns the share of equal verdicts; `None` without pairs.
    pub fn agreement(&self) -> Option<f64> {
        let equal = f64::from(self.both_passed + self.both_failed);
        (self.total() > 0).then(|| equal / f64::from(self.total()))
    }

    /// Returns Cohen's κ: the agreement beyond what chance would give, from -1 to 1. `None` without
    /// pairs, and if both always gave the same single verdict: κ is then undefined.
    pub fn kappa(&self) -> Option<f64> {
        let all = f64::from(self.total());
        let judge = f64::from(self.both_passed + self.only_judge_passed) / all;
        let human = f64::from(self.both_passed + self.only_human_passed) / all;
        let chance = judge * human + (1.0 - judge) * (1.0 - human);
        let kappa = (self.agreement()? - chance) / (1.0 - chance);
        kappa.is_finite().then(|| kappa.clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kappa_of_known_tables() {
        // The example of Cohen's kappa in Wikipedia: 20, 15, 5, 10 gives 0.4.
        let table = Confusion {
            both_passed: 20,
            both_failed: 15,
            only_judge_passed: 5,
            only_human_passed: 10,
        };
        assert!((table.kappa().unwrap() - 0.4).abs() < 1e-9, "{:?}", table.kappa());
        assert_eq!(table.agreement(), Some(0.7));
        let same = Confusion { both_passed: 5, ..Confusion::default() };
        assert_eq!((same.agreement(), same.kappa()), (Some(1.0), None));
        assert_eq!((Confusion::default().agreement(), Confusion::default().kappa()), (None, None));
    }

    #[test]
    fn a_fall_needs_evidence() {
        assert_eq!(change((1, 1), (0, 1)), Change::InsufficientData);
        assert_eq!(change((10, 10), (0, 4)), Change::InsufficientData);
        assert_eq!(change((10, 10), (0, 10)), Change::Regression);
        assert_eq!(change((10, 10), (9, 10)), Change::None);
        assert_eq!(change((0, 10), (10, 10)), Change::None);
        assert_eq!(change((95, 100), (80, 100)), Change::Regression);
    }

    #[test]
    fn quantiles_of_several_intervals() {
        // The quantiles of 0.975, 0.9875, 0.995 and 0.99975, from a table.
        for (intervals, wanted) in
            [(1, 1.959_964), (2, 2.241_403), (5, 2.575_829), (100, 3.480_756)]
        {
            assert!((quantile(intervals) - wanted).abs() < 1e-6, "{}", quantile(intervals));
        }
    }

    #[test]
    fn one_fall_among_many_needs_more_evidence() {
        assert_eq!(change_among(1, (10, 10), (5, 10)), Change::Regression);
        assert_eq!(change_among(50, (10, 10), (5, 10)), Change::None);
        assert_eq!(change_among(50, (10, 10), (0, 10)), Change::Regression);
        assert_eq!(change_among(50, (4, 4), (0, 10)), Change::InsufficientData);
    }

    #[test]
    fn cases_count_by_their_rates() {
        // The difficult case is tried more often; neither has changed.
        let tried_more = [[(100, 100), (10, 10)], [(5, 10), (50, 100)]];
        assert_eq!(change_of_mean(&tried_more), Change::None);
        assert_eq!(change((105, 110), (60, 110)), Change::Regression);
        // Each fell a little, and none by enough to be sure of it.
        let little = [[(10, 10), (8, 10)]; 10];
        assert_eq!(change(little[0][0], little[0][1]), Change::None);
        assert_eq!(change_of_mean(&little), Change::Regression);
        assert_eq!(change_of_mean(&[[(2, 2), (0, 2)]]), Change::InsufficientData);
        assert_eq!(change_of_mean(&[]), Change::InsufficientData);
    }

    proptest! {
        #[test]
        fn one_case_is_compared_as_a_mean_of_one(base in (0u32..50, 0u32..50), new in (0u32..50, 0u32..50)) {
            let sides = [base, new].map(|(passed, more)| (passed, passed + more));
            prop_assume!(sides.iter().all(|(_, all)| *all > 0));
            prop_assert_eq!(change_of_mean(&[sides]), change(sides[0], sides[1]));
        }

        #[test]
        fn wilson_holds_the_rate_and_shrinks(passed in 0u32..500, more in 0u32..500) {
            let trials = passed + more;
            prop_assume!(trials > 0);
            let rate = f64::from(passed) / f64::from(trials);
            let interval = wilson(passed, trials);
            prop_assert!(0.0 <= interval.low && interval.low <= rate);
            prop_assert!(rate <= interval.high && interval.high <= 1.0);
            let larger = wilson(passed * 4, trials * 4);
            prop_assert!(larger.high - larger.low < interval.high - interval.low);
        }

        #[test]
        fn pass_rates_are_ordered(passed in 0u32..50, more in 0u32..50, k in 1u32..60) {
            let trials = passed + more;
            prop_assume!(trials > 0);
            let any = pass_at_k(trials, passed, k);
            let all = pass_hat_k(trials, passed, k);
            let rate = f64::from(passed) / f64::from(trials);
            prop_assert!(0.0 <= all && all <= rate + 1e-9 && rate <= any + 1e-9 && any <= 1.0);
            prop_assert!((pass_at_k(trials, passed, 1) - rate).abs() < 1e-9);
            prop_assert!((pass_hat_k(trials, passed, 1) - rate).abs() < 1e-9);
        }

        #[test]
        fn kappa_is_within_its_range(a in 0u32..100, b in 0u32..100, c in 0u32..100, d in 0u32..100) {
            let table = Confusion { both_passed: a, both_failed: b, only_judge_passed: c, only_human_passed: d };
            if let Some(kappa) = table.kappa() {
                prop_assert!((-1.0..=1.0).contains(&kappa));
                prop_assert!(kappa <= table.agreement().unwrap() + 1e-9);
            }
        }

        #[test]
        fn f1_is_a_share(expected in 0usize..100, found in 0usize..100, pairs in 0usize..100) {
            let pairs = pairs.min(expected).min(found);
            let value = f1(pairs, expected, found);
            prop_assert!((0.0..=1.0).contains(&value));
            prop_assert_eq!(value == 1.0, pairs == expected && pairs == found);
        }
    }
}
