//! Points in time as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// ISO 8601 in UTC, to the millisecond: `2026-07-28T09:30:00.250Z`.
pub(super) fn iso8601(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    let (year, month, day) = date(seconds / 86_400);
    format!(
        "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{:02}.{millis:03}Z",
        seconds % 60
    )
}

/// The Gregorian date of a day, counted from 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    // A clock may be wrong, but a loop must end soon.
    let mut days = days.min(3_000_000);
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (68_169_599_999, "1972-02-28T23:59:59.999Z"),
            (68_169_600_000, "1972-02-29T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_785_231_000_250, "2026-07-28T09:30:00.250Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(UNIX_EPOCH + Duration::from_millis(millis)), text);
        }
    }
}
