//! The functions of the fuzz targets in `fuzz/`, compiled only for them and for tests.

use crate::{
    chain::ChainEnd,
    verify::{ChainCheck, check_lines},
};

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("audit", audit)];

/// Checks that the verifier takes any bytes, and that lines which follow a whole log are found
/// whole exactly if the log is.
pub fn audit(data: &[u8]) {
    let mut chain = ChainCheck::default();
    let outcome = check_lines(&mut &*data, &mut chain).expect("memory can be read");
    let Some(mut end) = chain.end else { return };
    // A line that continues the last one.
    let mut more = data.to_vec();
    if !more.ends_with(b"\n") {
        more.push(b'\n');
    }
    end.add("T", b"{}", &mut more);
    let again = check_lines(&mut &*more, &mut ChainCheck::default()).expect("memory can be read");
    if outcome.is_err() {
        assert!(again.is_err(), "a broken log was accepted");
    } else if is_torn(data) {
        assert!(again.is_err(), "an incomplete line was accepted");
    } else {
        assert_eq!(again, Ok(()));
    }
}

/// Returns whether the last line of a text is not a line of a log.
fn is_torn(data: &[u8]) -> bool {
    let text = data.strip_suffix(b"\n").unwrap_or(data);
    let last = text.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    crate::chain::LineHead::of(last).is_none()
}

/// Returns a log of these events.
#[cfg(test)]
pub(crate) fn log_of(events: &[String]) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut end = ChainEnd::START;
    for event in events {
        end.add("2026-11-28T12:00:00.000000Z", event.as_bytes(), &mut lines);
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(TARGETS);
    }

    fn check(log: &[u8]) -> Result<(), crate::LineProblem> {
        check_lines(&mut &*log, &mut ChainCheck::default()).unwrap()
    }

    fn is_whole_to(log: &[u8], last: u64) -> bool {
        let mut chain = ChainCheck::default();
        let outcome = check_lines(&mut &*log, &mut chain).unwrap();
        outcome.is_ok() && chain.end.is_some_and(|end| end.seq == last)
    }

    fn events() -> impl Strategy<Value = Vec<String>> {
        let event = any::<(String, Vec<i64>)>()
            .prop_map(|(text, list)| serde_json::json!({"event": text, "list": list}).to_string());
        prop::collection::vec(event, 3..8)
    }

    proptest! {
        #[test]
        fn every_change_before_the_last_line_is_found(
            events in events(), at: prop::sample::Index, to: u8,
        ) {
            let log = log_of(&events);
            prop_assert_eq!(check(&log), Ok(()));
            let last_line = log[..log.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
            let at = at.index(last_line + 1);
            let mut changed = log.clone();
            changed[at] = to;
            prop_assert_eq!(is_whole_to(&changed, events.len() as u64), changed == log);
        }

        #[test]
        fn lines_cannot_be_removed_repeated_or_exchanged(
            events in events(), one: prop::sample::Index, other: prop::sample::Index,
        ) {
            let log = log_of(&events);
            let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
            let one = one.index(lines.len() - 1);
            let other = other.index(lines.len());
            let mut removed = lines.clone();
            removed.remove(one);
            // Without the first line, it is the end of a longer log.
            prop_assert_eq!(check(&removed.concat()).is_ok(), one == 0);
            let mut repeated = lines.clone();
            repeated.insert(one, lines[one]);
            prop_assert!(check(&repeated.concat()).is_err());
            let mut exchanged = lines.clone();
            exchanged.swap(one, other);
            prop_assert_eq!(check(&exchanged.concat()).is_ok(), one == other);
        }

        #[test]
        fn any_bytes_are_checked(data: Vec<u8>, events in events(), cut: prop::sample::Index) {
            audit(&data);
            let log = log_of(&events);
            let cut = cut.index(log.len());
            audit(&log[..cut]);
            audit(&[&log[..cut], &data, &log[cut..]].concat());
        }
    }
}
