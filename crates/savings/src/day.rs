//! Days of the calendar in UTC.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Serialize, Serializer};

/// A day in UTC, as a number of days since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u32);

impl Day {
    /// Returns the current day.
    #[must_use]
    pub fn today() -> Self {
        let seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self(u32::try_from(seconds / 86_400).unwrap_or(u32::MAX))
    }

    /// Returns the first of the last `days` days, of which this is the last.
    pub(crate) fn before(self, days: u32) -> Self {
        Self((self.0 + 1).saturating_sub(days))
    }

    /// Returns year, month and day, by the algorithm "days to civil" of Howard Hinnant.
    fn date(self) -> (u64, u64, u64) {
        let shifted = u64::from(self.0) + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        (year, month, day)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
