//! Tests of the estimates against counts of real tokenizers.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// A text with the counts of tokenizers.
#[derive(Deserialize)]
struct Sample {
    name: String,
    text: String,
    o200k: u64,
    anthropic: u64,
    /// Whether both tokenizers have about as many tokens. Their mean is estimated then.
    both: bool,
}

fn samples() -> Vec<Sample> {
    serde_json::from_str(include_str!("../samples.json")).unwrap()
}

#[test]
fn estimates_are_near_the_counts_of_tokenizers() {
    let samples = samples();
    assert!(samples.len() >= 12);
    for sample in samples {
        let estimate = estimate(&sample.text) as f64;
        let o200k = sample.o200k as f64;
        let (want, allowed) = if sample.both {
            ((o200k * sample.anthropic as f64).sqrt(), 0.15)
        } else {
            (o200k, 0.2)
        };
        let error = estimate / want - 1.0;
        assert!(error.abs() <= allowed, "{}: {:+.1} %", sample.name, error * 100.0);
    }
}

#[test]
fn words_in_camel_case_are_several() {
    for (text, want) in [
        ("", 0),
        ("a", 1),
        ("word", 1),
        ("camelCase", 2),
        ("HTMLName", 3),
        ("\n", 1),
        ("3f2a9c71b2d94e5f8a6c0d1e2f3a4b5c", 19),
    ] {
        assert_eq!(estimate(text), want, "{text:?}");
    }
}

#[test]
fn a_long_text_is_estimated_by_pieces() {
    for sample in samples() {
        let text = format!("{}\n", sample.text).repeat(30);
        let exact = estimate(&text);
        let by_pieces = estimate_by_pieces(&text);
        let error = by_pieces.abs_diff(exact) as f64 / exact as f64;
        assert!(error < 0.12, "{}: {by_pieces} of {exact}", sample.name);
    }
    // The beginning is not like the rest.
    let text = format!("{}{}", "word ".repeat(2_000), "8.31,4.77\n".repeat(9_000));
    let exact = estimate(&text);
    assert!(estimate_by_pieces(&text).abs_diff(exact) * 10 < exact);
    assert_eq!(estimate_by_pieces(""), 0);
    assert!(estimate_by_pieces(&"é".repeat(5_000)) > 0);
}

/// One run of letters and digits is looked at once, not once for each of its parts.
#[test]
fn the_time_is_linear() {
    let text = format!("{}1", "a".repeat(9)).repeat(200_000);
    let start = std::time::Instant::now();
    assert!(estimate(&text) > 200_000);
    assert!(start.elapsed().as_secs() < 20);
}

proptest! {
    #[test]
    fn parts_have_together_about_as_many_tokens_as_the_whole(one in ".{0,60}", two in ".{0,60}") {
        let whole = estimate(&format!("{one}{two}"));
        let parts = estimate(&one) + estimate(&two);
        // A run of digits or a word that is cut counts twice at most, and a mixed word changes.
        prop_assert!(whole <= parts + 60 && parts <= whole + 60, "{whole} {parts}");
    }

    #[test]
    fn any_text_has_at_most_two_tokens_a_character(text in ".{1,200}") {
        prop_assert!(estimate(&text) <= 3 * text.chars().count() as u64 + 1);
    }
}

proptest! {
    #[test]
    fn a_beginning_fits_and_is_not_much_too_short(text in any::<String>(), max in 0..40_u64) {
        let beginning = beginning_within(&text, max);
        prop_assert!(text.starts_with(beginning));
        prop_assert!(estimate(beginning) <= max);
        if let Some(next) = text[beginning.len()..].chars().next() {
            let longer = &text[..beginning.len() + next.len_utf8()];
            prop_assert!(estimate(longer) > max || longer.len() as u64 > 16 * max);
        }
    }
}
