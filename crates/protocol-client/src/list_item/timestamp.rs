//! Times in ISO 8601, in the profile of RFC 3339.

/// Returns whether a text is a date and a time with seconds and an offset. Strict clients refuse
/// other forms.
pub(super) fn is_timestamp(text: &str) -> bool {
    text.split_once('T').is_some_and(|(date, time)| is_date(date) && is_time(time))
}

fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else { return false };
    let is_leap_year = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap_year => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let time = match text.strip_suffix('Z') {
        Some(time) => time,
        None => match text.rsplit_once(['+', '-']) {
            Some((time, offset)) if is_offset(offset) => time,
            _ => return false,
        },
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let Some([hour, minute, second]) = numbers(time, ':', [2, 2, 2]) else { return false };
    hour < 24
        && minute < 60
        && second < 60
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_offset(text: &str) -> bool {
    numbers(text, ':', [2, 2]).is_some_and(|[hour, minute]| hour < 24 && minute < 60)
}

/// Parses decimal numbers, each with as many digits as `digits` has at its place.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u32; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_seconds_and_an_offset() {
        for valid in [
            "2025-01-12T15:00:58Z",
            "2025-01-12T15:00:58.123456+00:00",
            "2024-02-29T23:59:59-11:30",
            "2000-02-29T00:00:00.0Z",
        ] {
            assert!(is_timestamp(valid), "{valid}");
        }
        for invalid in [
            "",
            "yesterday",
            "2025-01-12",
            "2025-01-12T15:00:58",
            "2025-01-12T15:00Z",
            "2025-01-12 15:00:58Z",
            "2025-01-12t15:00:58z",
            "2025-02-29T15:00:58Z",
            "1900-02-29T15:00:58Z",
            "2025-13-01T15:00:58Z",
            "2025-04-31T15:00:58Z",
            "2025-01-00T15:00:58Z",
            "2025-01-12T24:00:00Z",
            "2025-01-12T15:00:60Z",
            "2025-01-12T15:00:58.Z",
            "2025-01-12T15:00:58.1x+00:00",
            "2025-01-12T15:00:58+0000",
            "2025-01-12T15:00:58+24:00",
            "+025-01-12T15:00:58Z",
            "2025-01-12-01T15:00:58Z",
        ] {
            assert!(!is_timestamp(invalid), "{invalid}");
        }
    }
}
