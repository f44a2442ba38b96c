//! Ranges and entity tags in requests for a file.

use std::ops::Range;

use http::{HeaderMap, header};

/// The wanted part of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// These bytes of it.
    Range(Range<u64>),
    /// The content has none of the wanted bytes.
    Unsatisfiable,
}

impl Part {
    /// Returns the part in `Range` (RFC 9110, section 14.2). Several ranges, other units and
    /// malformed values are ignored, and so is a range of another version than `If-Range` names.
    pub fn of(headers: &HeaderMap, length: u64, etag: &str) -> Self {
        let mut values = headers.get_all(header::RANGE).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Self::Whole };
        if headers.get(header::IF_RANGE).is_some_and(|value| value != etag) {
            return Self::Whole;
        }
        let Some((first, last)) = value.to_str().ok().and_then(bounds) else { return Self::Whole };
        let wanted = match (first, last) {
            (Some(first), Some(last)) if last < first => return Self::Whole,
            (Some(first), last) => first..last.map_or(length, |last| last.saturating_add(1)),
            (None, Some(suffix)) => length.saturating_sub(suffix)..length,
            (None, None) => return Self::Whole,
        };
        let range = wanted.start..wanted.end.min(length);
        if range.is_empty() { Self::Unsatisfiable } else { Self::Range(range) }
    }
}

/// Parses `bytes=FIRST-LAST`, where either number may be missing.
fn bounds(value: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, range) = value.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    Some((bound(first)?, bound(last)?))
}

/// Parses a bound of a range, which may be missing. A number that is too large is beyond every
/// content.
fn bound(text: &str) -> Option<Option<u64>> {
    let text = text.trim();
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((!text.is_empty()).then(|| text.parse().unwrap_or(u64::MAX)))
}

/// Returns whether `If-None-Match` has this tag (RFC 9110, section 13.1.2). Weak tags match, too.
pub fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim().trim_start_matches("W/") == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, want: Part) {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, range.parse().unwrap());
        assert_eq!(Part::of(&headers, 10, "\"1\""), want, "{range}");
    }

    #[test]
    fn a_range_is_clamped_refused_or_ignored() {
        check("bytes=0-3", Part::Range(0..4));
        check("bytes=4-", Part::Range(4..10));
        check("bytes=-3", Part::Range(7..10));
        check("bytes=-30", Part::Range(0..10));
        check("bytes=9-99999999999999999999999", Part::Range(9..10));
        check("Bytes = 1 - 1", Part::Range(1..2));
        for none in ["bytes=10-", "bytes=99999999999999999999999-", "bytes=-0"] {
            check(none, Part::Unsatisfiable);
        }
        for ignored in [
            "bytes=3-2",
            "bytes=0-1,3-4",
            "lines=0-3",
            "bytes=-",
            "bytes=a-",
            "bytes",
            "bytes=+1-2",
        ] {
            check(ignored, Part::Whole);
        }
    }

    #[test]
    fn a_range_of_another_version_is_ignored() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, "bytes=0-3".parse().unwrap());
        for (tag, want) in [
            ("\"1\"", Part::Range(0..4)),
            ("\"2\"", Part::Whole),
            ("W/\"1\"", Part::Whole),
            ("Thu, 26 Nov 2026 12:00:00 GMT", Part::Whole),
        ] {
            headers.insert(header::IF_RANGE, tag.parse().unwrap());
            assert_eq!(Part::of(&headers, 10, "\"1\""), want, "{tag}");
        }
    }
}
