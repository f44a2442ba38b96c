//! The error of the estimate for each class of texts, on samples that the weights were not fitted
//! on.
//!
//! The counts are of `o200k_base` (npm `js-tiktoken` 1.0.21) and of the tokenizer that Anthropic
//! has published (npm `@anthropic-ai/tokenizer` 0.0.4), from 2026-11-28. The data were made by a
//! seeded generator, the code is of this repository, the prose was written for this test.

use std::{collections::BTreeMap, fmt::Write};

use expect_test::expect_file;
use marquetry_tokens::estimate;
use serde::Deserialize;

/// Largest error of a class.
const MAX_ERROR: f64 = 0.15;

/// Ratio of the two counts from which there is no number near both. The published tokenizer of
/// Anthropic is an old one, with few words of other languages; the estimate follows `o200k_base`.
const MAX_RATIO: f64 = 1.25;

#[derive(Deserialize)]
struct Sample {
    class: String,
    name: String,
    text: String,
    o200k: u32,
    anthropic: u32,
}

/// Sums of a class or a sample.
#[derive(Default)]
struct Counts {
    estimate: f64,
    o200k: f64,
    anthropic: f64,
}

impl Counts {
    fn add(&mut self, sample: &Sample) {
        self.estimate += estimate(&sample.text) as f64;
        self.o200k += f64::from(sample.o200k);
        self.anthropic += f64::from(sample.anthropic);
    }

    /// Returns the number that is estimated, and its name: the mean of both counts, or the first if
    /// they differ much.
    fn reference(&self) -> (f64, &'static str) {
        if self.anthropic / self.o200k > MAX_RATIO {
            (self.o200k, "o200k")
        } else {
            ((self.o200k * self.anthropic).sqrt(), "both")
        }
    }

    fn error(&self) -> f64 {
        self.estimate / self.reference().0 - 1.0
    }

    fn row(&self, name: &str) -> String {
        format!(
            "{name:<34}{:>8}{:>8}{:>8}{:>+9.1}{:>+9.1}{:>+9.1} {}\n",
            self.estimate,
            self.o200k,
            self.anthropic,
            per_cent(self.estimate, self.o200k),
            per_cent(self.estimate, self.anthropic),
            self.error() * 100.0,
            self.reference().1,
        )
    }
}

/// Returns by how much an estimate differs from a count.
fn per_cent(estimate: f64, count: f64) -> f64 {
    (estimate / count - 1.0) * 100.0
}

#[test]
fn every_class_is_within_fifteen_per_cent() {
    let samples: Vec<Sample> = serde_json::from_str(include_str!("samples.json")).unwrap();
    assert!(samples.len() >= 60);
    let mut classes: BTreeMap<&str, (Counts, String)> = BTreeMap::new();
    for sample in &samples {
        let (class, rows) = classes.entry(&sample.class).or_default();
        class.add(sample);
        let mut alone = Counts::default();
        alone.add(sample);
        rows.push_str(&alone.row(&format!("  {}", sample.name)));
    }
    let mut table = format!(
        "{:<34}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}\n",
        "", "estimate", "o200k", "claude", "% o200k", "% claude", "error %"
    );
    for (class, (counts, rows)) in &classes {
        write!(table, "{}{rows}", counts.row(class)).unwrap();
    }
    expect_file!["classes.txt"].assert_eq(&table);
    for (class, (counts, _)) in &classes {
        assert!(counts.error().abs() <= MAX_ERROR, "{class}: {:+.1} %", counts.error() * 100.0);
    }
}
