//! Parses and formats times of RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time in milliseconds since 1970 (UTC), for calls that need no database and so have
/// no clock of records.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Reads a time with `Z` or an offset, in milliseconds since 1970 (UTC).
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (local, offset_minutes) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => split_offset(text)?,
    };
    let time = humantime::parse_rfc3339_weak(local).ok()?;
    let millis = i128::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    u64::try_from(millis - i128::from(offset_minutes) * 60_000).ok()
}

/// Splits `…+02:00` into the local time and the offset in minutes.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset[1..].split_once(':')?;
    if !hours.bytes().chain(minutes.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours: i64 = hours.parse().ok()?;
    let minutes: i64 = minutes.parse().ok()?;
    (hours < 24 && minutes < 60).then_some((local, sign * (hours * 60 + minutes)))
}

/// Formats a time in milliseconds since 1970 (UTC), to the second.
pub(crate) fn format_time(millis: u64) -> String {
    // The last second of the year 9999, which is the last that the form can express.
    const LAST: u64 = 253_402_300_799_000;
    let time = UNIX_EPOCH + Duration::from_millis(millis.min(LAST));
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_zone() {
        let noon = Some(1_705_320_000_000);
        assert_eq!(parse("2024-01-15T12:00:00Z"), noon);
        assert_eq!(parse(" 2024-01-15T14:30:00+02:30 "), noon);
        assert_eq!(parse("2024-01-15T09:00:00.000-03:00"), noon);
        for bad in
            ["", "Z", "tomorrow", "2024-01-15", "2024-01-15T12:00:00", "2024-13-15T12:00:00Z"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(parse("2024-01-15T12:00:00+aa:00"), None);
        assert_eq!(parse("1960-01-15T12:00:00Z"), None);
        assert_eq!(format_time(1_705_320_000_000), "2024-01-15T12:00:00Z");
        assert_eq!(format_time(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
