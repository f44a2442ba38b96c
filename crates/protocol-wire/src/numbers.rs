//! Repairs JSON with numbers that cannot be read.

use memchr::memmem;

use crate::nesting::after_string;

/// The largest finite `double`, as JSON.
const LARGEST: &str = "1.7976931348623157e308";

/// Returns the JSON with `null` in place of each `NaN`, `Infinity` and `-Infinity`; [`None`] if it
/// has none.
///
/// They are not JSON, but Python's `json.dumps` writes them. `null` is what `JSON.stringify` writes
/// for them.
#[must_use]
pub fn without_non_numbers(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    if ["NaN", "Infinity"].iter().all(|word| memmem::find(bytes, word.as_bytes()).is_none()) {
        return None;
    }
    replaced(json, |word| matches!(word, "NaN" | "Infinity" | "-Infinity").then_some("null"))
}

/// Returns the JSON with the largest or smallest `double` in place of each number that is beyond
/// it, such as `1e400`; [`None`] if it has none. Parsers of numbers refuse them, and the whole text
/// with them.
#[must_use]
pub fn with_finite_numbers(json: &str) -> Option<String> {
    replaced(json, |word| {
        let is_number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match word.parse::<f64>() {
            Ok(number) if is_number && number == f64::INFINITY => Some(LARGEST),
            Ok(number) if is_number && number == f64::NEG_INFINITY => {
                Some("-1.7976931348623157e308")
            }
            _ => None,
        }
    })
}

/// Returns whether the JSON has whole numbers beyond 64 bits. `serde_json` reads them as the
/// nearest `double`, as JavaScript does.
#[must_use]
pub fn has_long_integers(json: &str) -> bool {
    let mut found = false;
    _ = replaced(json, |word| {
        found |= is_long_integer(word);
        None
    });
    found
}

fn is_long_integer(word: &str) -> bool {
    /// Shorter integers have at most 60 bits.
    const DIGITS: usize = 19;
    let digits = word.strip_prefix('-').unwrap_or(word);
    digits.len() >= DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && word.parse::<i64>().is_err()
        && word.parse::<u64>().is_err()
}

/// Returns the JSON with some of its numbers and other words outside of strings replaced; [`None`]
/// if none is.
fn replaced(
    json: &str,
    mut replacement: impl FnMut(&str) -> Option<&'static str>,
) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '"' || is_part_of_word(c)) {
        rest = &rest[at..];
        if let Some(string) = rest.strip_prefix('"') {
            let after = after_string(string.as_bytes()).len();
            rest = json.get(json.len() - after..)?;
            continue;
        }
        let (word, after) = rest.split_at(rest.find(|c| !is_part_of_word(c)).unwrap_or(rest.len()));
        if let Some(with) = replacement(word) {
            out.push_str(&json[copied..json.len() - rest.len()]);
            out.push_str(with);
            copied = json.len() - after.len();
        }
        rest = after;
    }
    (copied > 0).then(|| out + &json[copied..])
}

fn is_part_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn integers_beyond_64_bits_are_found() {
        for (json, is_long) in [
            ("[18446744073709551615,-9223372036854775808]", false),
            ("[18446744073709551616]", true),
            (r#"{"maximum":-9223372036854775809}"#, true),
            (r#"["18446744073709551616",1e30,1.00000000000000000000]"#, false),
        ] {
            assert_eq!(has_long_integers(json), is_long, "{json}");
        }
    }

    #[test]
    fn only_words_outside_of_strings_are_replaced() {
        for (json, want) in [
            (r#"{"a":NaN,"b":[-Infinity, Infinity]}"#, Some(r#"{"a":null,"b":[null, null]}"#)),
            (r#"{"NaN":"a \" NaN","b":NaN}"#, Some(r#"{"NaN":"a \" NaN","b":null}"#)),
            (r#"["Infinity", 1]"#, None),
            ("[NaNs]", None),
            ("[1, 2", None),
            ("\"NaN", None),
        ] {
            assert_eq!(without_non_numbers(json).as_deref(), want, "{json}");
        }
    }

    #[test]
    fn only_numbers_that_are_too_large_become_the_largest_one() {
        let nines = "9".repeat(400);
        for (json, want) in [
            (
                "[1e400,-1E+400]",
                Some("[1.7976931348623157e308,-1.7976931348623157e308]".to_owned()),
            ),
            (&*format!("{{\"a\":{nines}}}"), Some(format!("{{\"a\":{LARGEST}}}"))),
            (r#"{"1e400":"1e400","a":1180591620717411303424}"#, None),
            ("[0.1234567890123456789, 1e-400, true, null]", None),
        ] {
            let finite = with_finite_numbers(json);
            assert_eq!(finite, want, "{json}");
            let finite = finite.unwrap_or_else(|| json.to_owned());
            assert!(serde_json::from_str::<Value>(&finite).is_ok(), "{finite}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[\\[\\]{}\",:\\\\0-9eENaInfity. ä-]{0,40}") {
            _ = without_non_numbers(&text);
            if let (Ok(_), Some(changed)) = (serde_json::from_str::<Value>(&text), with_finite_numbers(&text)) {
                prop_assert!(false, "{changed}");
            }
        }
    }
}
