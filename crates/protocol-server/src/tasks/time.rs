//! Times as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Formats a time as ISO 8601 in UTC, to the millisecond: `2026-07-28T09:30:00.250Z`. The years are
/// 1970 to 9999.
pub(super) fn iso8601(time: SystemTime) -> String {
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let time = time.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST);
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (68_169_599_999, "1972-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(UNIX_EPOCH + Duration::from_millis(millis)), text);
        }
        let day = Duration::from_hours(24);
        assert_eq!(iso8601(UNIX_EPOCH - day), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(UNIX_EPOCH + 4_000_000 * day), "9999-12-31T23:59:59.000Z");
    }
}
