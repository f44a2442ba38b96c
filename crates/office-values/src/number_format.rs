//! Formats numbers as displayed: plain, percent, date, or no text (ECMA-376 part 1, 18.8.30 and
//! 18.8.31).

/// The kind of a number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// A plain number.
    Number,
    /// A percentage: a hundred times the number, and a per cent sign.
    Percent,
    /// A day, a time of day, or both.
    Moment {
        /// Whether the day is displayed.
        day: bool,
        /// Whether the time of day is displayed.
        time: bool,
    },
    /// Numbers are hidden, and texts are shown: `;;`.
    HiddenNumber,
    /// Numbers and texts are hidden: `;;;`.
    Hidden,
}

impl NumberFormat {
    /// Returns the kind of a built-in format, which has a number and no code. Those from 27 on are
    /// dates of East Asian calendars.
    #[must_use]
    pub fn built_in(id: u32) -> Self {
        match id {
            9 | 10 => Self::Percent,
            14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58 => Self::Moment { day: true, time: false },
            18..=21 | 32..=35 | 45..=47 | 55 | 56 => Self::Moment { day: false, time: true },
            22 => Self::Moment { day: true, time: true },
            _ => Self::Number,
        }
    }

    /// Returns the kind of a format code for positive numbers, from its first section.
    #[must_use]
    pub fn of_code(code: &str) -> Self {
        let mut letters = String::new();
        let mut sections = 1;
        let mut characters = code.chars();
        let mut has_literal = false;
        let mut has_text = false;
        while let Some(character) = characters.next() {
            match character {
                // The section of texts.
                _ if sections == 4 => has_text = true,
                '"' => has_literal |= characters.by_ref().take_while(|&it| it != '"').count() > 0,
                // The next character is literal, sets a width, or fills the cell.
                '\\' | '_' | '*' => {
                    has_literal |= character == '\\';
                    characters.next();
                }
                '[' => {
                    let inside: String = characters.by_ref().take_while(|&it| it != ']').collect();
                    // `[h]` counts hours beyond a day; colours, conditions and languages do not
                    // change the kind.
                    let inside = inside.to_ascii_lowercase();
                    if !inside.is_empty()
                        && inside.bytes().all(|it| matches!(it, b'h' | b'm' | b's'))
                    {
                        letters.push('h');
                    }
                }
                ';' => {
                    sections += 1;
                    if !letters.is_empty() || has_literal {
                        break;
                    }
                }
                other if sections == 1 => letters.push(other.to_ascii_lowercase()),
                _ => has_literal = true,
            }
        }
        if letters.is_empty() && !has_literal && sections > 1 {
            return if sections == 4 && !has_text { Self::Hidden } else { Self::HiddenNumber };
        }
        if letters == "general" {
            return Self::Number;
        }
        let letters = letters.replace("am/pm", "h").replace("a/p", "h");
        let time = letters.contains(['h', 's']);
        let day = letters.contains(['d', 'y']) || (letters.contains('m') && !time);
        if day || time {
            Self::Moment { day, time }
        } else if letters.contains('%') {
            Self::Percent
        } else {
            Self::Number
        }
    }

    /// Returns a number approximately as displayed: with full precision, and with dates in ISO
    /// 8601.
    #[must_use]
    pub fn text(self, stored: &str, since_1904: bool) -> String {
        let stored = stored.trim();
        let Some(number) = stored.parse::<f64>().ok().filter(|number| number.is_finite()) else {
            return stored.to_owned();
        };
        // Very large and very small numbers keep their exponent.
        let is_plain = number == 0.0 || (1e-5..1e15).contains(&number.abs());
        match self {
            Self::HiddenNumber | Self::Hidden => String::new(),
            Self::Moment { day, time } => {
                moment(number, day, time, since_1904).unwrap_or_else(|| number.to_string())
            }
            // Rounded, as 0.07 is not quite a hundredth of 7.
            Self::Percent if is_plain => format!("{}%", (number * 1e12).round() / 1e10),
            _ if is_plain => number.to_string(),
            _ => stored.to_owned(),
        }
    }
}

/// Returns the day and the time that a number of days represents.
fn moment(days: f64, shows_day: bool, shows_time: bool, since_1904: bool) -> Option<String> {
    // The last day of the year 9999.
    const LAST: f64 = 2_958_466.0;
    const SECONDS: i64 = 86_400;
    if !(0.0..LAST).contains(&days) {
        return None;
    }
    let seconds = (days * SECONDS as f64).round() as i64;
    let day = seconds / SECONDS;
    let second = seconds % SECONDS;
    let hours = second / 3600;
    let minutes = second / 60 % 60;
    let rest = second % 60;
    if !shows_day {
        // Hours beyond a day continue to count.
        return Some(format!("{:02}:{minutes:02}:{rest:02}", day * 24 + hours));
    }
    // Days to 1 January 1970. Excel assumes, as Lotus did, that 1900 had a 29 February.
    let to_1970 = if since_1904 {
        24_107
    } else if day < 60 {
        25_568
    } else {
        25_569
    };
    let (year, month, day) = date(day - to_1970);
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if shows_time || second != 0 {
        text.push_str(&format!(" {hours:02}:{minutes:02}:{rest:02}"));
    }
    Some(text)
}

/// Returns year, month and day in the Gregorian calendar, for a day that is counted from 1 January
/// 1970.
// `jiff` would add two crates for these lines; `humantime`, which we already use, supports no day
// before 1970.
fn date(days: i64) -> (i64, i64, i64) {
    /// Days from 1 March of the year 0 to 1 January 1970.
    const TO_1970: i64 = 719_468;
    /// Days of 400 years, after which the calendar repeats.
    const ERA: i64 = 146_097;
    // Years begin on 1 March here, so that leap days are at their end.
    let days = days + TO_1970;
    let era = days.div_euclid(ERA);
    let day_of_era = days.rem_euclid(ERA);
    // Leaves out the leap days: one in 4 years, none in 100 years, one in 400 years.
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, each five months have 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let year = era * 400 + year_of_era;
    if month_from_march < 10 {
        (year, month_from_march + 3, day)
    } else {
        (year + 1, month_from_march - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: NumberFormat = NumberFormat::Moment { day: true, time: false };
    const TIME: NumberFormat = NumberFormat::Moment { day: false, time: true };
    const BOTH: NumberFormat = NumberFormat::Moment { day: true, time: true };

    #[test]
    fn codes_are_understood() {
        for (code, expected) in [
            ("General", NumberFormat::Number),
            ("0.00", NumberFormat::Number),
            ("#,##0.00 \"days\"", NumberFormat::Number),
            ("[Red]0.00;[Blue]-0.00", NumberFormat::Number),
            ("[$-409]0.00_d", NumberFormat::Number),
            ("0.00E+00", NumberFormat::Number),
            ("@", NumberFormat::Number),
            ("0%", NumberFormat::Percent),
            ("0.0\\%", NumberFormat::Number),
            ("yyyy-mm-dd", DAY),
            ("[$-F800]dddd\\,\\ mmmm\\ dd\\,\\ yyyy", DAY),
            ("mmm", DAY),
            ("h:mm AM/PM", TIME),
            ("mm:ss.0", TIME),
            ("[h]:mm", TIME),
            ("[Red][hh]", TIME),
            ("d/m/yyyy h:mm", BOTH),
            (";;;", NumberFormat::Hidden),
            (";;", NumberFormat::HiddenNumber),
            (";", NumberFormat::HiddenNumber),
            (";;;@", NumberFormat::HiddenNumber),
            (";;;\"text\"", NumberFormat::HiddenNumber),
            ("\"hidden\";;", NumberFormat::Number),
            ("", NumberFormat::Number),
            ("\"", NumberFormat::Number),
            ("[", NumberFormat::Number),
            ("\\", NumberFormat::Number),
        ] {
            assert_eq!(NumberFormat::of_code(code), expected, "{code}");
        }
    }

    #[test]
    fn numbers_are_seen_as_they_are() {
        for (shown, stored, expected) in [
            (NumberFormat::Number, "42", "42"),
            (NumberFormat::Number, " 0.10000000000000001 ", "0.1"),
            (NumberFormat::Number, "-1.5E3", "-1500"),
            (NumberFormat::Number, "1E+300", "1E+300"),
            (NumberFormat::Number, "1E-9", "1E-9"),
            (NumberFormat::Number, "NaN", "NaN"),
            (NumberFormat::Number, "x", "x"),
            (NumberFormat::Percent, "0.07", "7%"),
            (NumberFormat::Percent, "-1.5", "-150%"),
            (NumberFormat::HiddenNumber, "7", ""),
            (NumberFormat::Hidden, "7", ""),
            (DAY, "1", "1900-01-01"),
            (DAY, "59", "1900-02-28"),
            (DAY, "61", "1900-03-01"),
            (DAY, "25569", "1970-01-01"),
            (DAY, "36585", "2000-02-29"),
            (DAY, "45351", "2024-02-29"),
            (DAY, "45657", "2024-12-31"),
            (DAY, "2958465", "9999-12-31"),
            (DAY, "45351.5", "2024-02-29 12:00:00"),
            (BOTH, "45351", "2024-02-29 00:00:00"),
            (BOTH, "45351.999999999", "2024-03-01 00:00:00"),
            (TIME, "0.75", "18:00:00"),
            (TIME, "1.5", "36:00:00"),
            (DAY, "-1", "-1"),
            (DAY, "2958466", "2958466"),
            (DAY, "x", "x"),
        ] {
            assert_eq!(shown.text(stored, false), expected, "{shown:?} {stored}");
        }
        assert_eq!(DAY.text("0", true), "1904-01-01");
        assert_eq!(DAY.text("43889", true), "2024-02-29");
        assert_eq!(NumberFormat::built_in(14), DAY);
        assert_eq!(NumberFormat::built_in(10), NumberFormat::Percent);
        assert_eq!(NumberFormat::built_in(99), NumberFormat::Number);
    }
}
