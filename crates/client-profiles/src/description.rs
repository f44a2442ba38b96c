//! Descriptions of tools within a client's limit.

/// Returns a description with a sentence of ours, cut at `max_chars` characters; `None` if it stays
/// as it is. A description that is cut says so, and keeps our sentence.
///
/// ```
/// use marquetry_client_profiles::shortened_description;
///
/// assert_eq!(shortened_description("Reads a file.", None, Some(100)), None);
/// let cut = shortened_description(&"word ".repeat(100), None, Some(100)).unwrap();
/// assert!(cut.chars().count() <= 100 && cut.ends_with(" more characters]"));
/// ```
#[must_use]
pub fn shortened_description(
    description: &str,
    sentence: Option<&str>,
    max_chars: Option<u64>,
) -> Option<String> {
    let end = match (sentence, description) {
        (None, _) => String::new(),
        (Some(sentence), "") => sentence.to_owned(),
        (Some(sentence), _) => format!("\n{sentence}"),
    };
    let chars = description.chars().count();
    let max_chars = max_chars.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let all_chars = chars + end.chars().count();
    if all_chars <= max_chars {
        return sentence.map(|_| format!("{description}{end}"));
    }
    // The number of characters in this sentence is not known yet; it has at most as many digits.
    let longest_cut = format!("… [{chars} more characters]");
    let room = max_chars.saturating_sub(longest_cut.chars().count() + end.chars().count());
    let shown: String = description.chars().take(room).collect();
    let cut = format!("{shown}… [{} more characters]{end}", chars.saturating_sub(room));
    Some(cut.chars().take(max_chars).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_is_said_and_the_sentence_stays() {
        let cut = shortened_description(&"é".repeat(200), Some("Left out: oneOf."), Some(60));
        assert_eq!(
            cut.as_deref(),
            Some("éééééééééééééééééééé… [180 more characters]\nLeft out: oneOf.")
        );
        let whole = shortened_description("Reads.", Some("Left out: oneOf."), Some(60));
        assert_eq!(whole.as_deref(), Some("Reads.\nLeft out: oneOf."));
        assert_eq!(shortened_description("", Some("Short."), None).as_deref(), Some("Short."));
    }

    proptest! {
        #[test]
        fn no_description_is_longer_than_the_limit(text in ".{0,200}", max in 0_u64..150) {
            let shown = shortened_description(&text, None, Some(max)).unwrap_or(text);
            prop_assert!(shown.chars().count() as u64 <= max);
        }
    }
}
