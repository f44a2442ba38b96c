//! The rate at which the log may grow.

use std::{
    collections::HashMap,
    io::{self, Write},
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use marquetry_printable::printable_json;
use marquetry_rate_limit::TokenBucket;
use serde_json::{Value, json};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use crate::printable::{LineForm, printable_log_line};

/// Size of the burst, in seconds of the rate.
const BURST_SECONDS: u32 = 5;
/// Part of the rate for lines from one place of the program, so that an upstream that causes many
/// lines of one kind does not silence the others.
const PLACE_SHARE: u32 = 4;
/// Longest line in bytes; of a longer one, the beginning is logged.
const MAX_LINE: u32 = 16 << 10;
/// Shortest time between two lines that count what was left out.
const COUNT_PAUSE: Duration = Duration::from_secs(1);

/// The output of the log: printable lines that come no faster than the rate. Upstreams, models and
/// clients cause lines; none of them may fill a disk.
pub(crate) struct LogOutput<W> {
    form: LineForm,
    open: fn() -> W,
    rate: LogRate,
}

impl<W> LogOutput<W> {
    /// `rate` is in bytes per second.
    pub(crate) fn new(form: LineForm, open: fn() -> W, rate: NonZeroU32) -> Self {
        Self { form, open, rate: LogRate::new(rate) }
    }
}

impl<'a, W: Write + 'static> MakeWriter<'a> for LogOutput<W> {
    type Writer = LineWriter<'a, W>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter { output: self, place: "" }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        LineWriter { output: self, place: metadata.name() }
    }
}

/// Writes the line of one event. The subscriber writes it at once, with its end.
pub(crate) struct LineWriter<'a, W> {
    output: &'a LogOutput<W>,
    /// The name of the event, which tells the place in the program.
    place: &'static str,
}

impl<W: Write> Write for LineWriter<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let LogOutput { form, open, rate } = self.output;
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        let text = shortened(printable_log_line(&text, *form), *form);
        if let Some(left_out) = rate.admit(self.place, text.len()) {
            let mut lines = String::new();
            if left_out > 0 {
                lines = counted(left_out, rate.per_second, *form);
                lines.push('\n');
            }
            lines.push_str(&text);
            lines.push('\n');
            open().write_all(lines.as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        (self.output.open)().flush()
    }
}

/// Returns the beginning of a line that is too long.
fn shortened(line: String, form: LineForm) -> String {
    if line.len() <= MAX_LINE as usize {
        return line;
    }
    let bytes = line.len();
    let beginning = &line[..line.floor_char_boundary(MAX_LINE as usize / 4)];
    match form {
        LineForm::Json => {
            let fields = [("beginning", json!(beginning)), ("bytes", json!(bytes))];
            json_line("WARN", "a line of the log was too long", &fields)
        }
        LineForm::Text => format!("{beginning}… ({bytes} bytes)"),
        // The beginning may end inside a coloured part.
        LineForm::ColouredText => format!("{beginning}\u{1b}[0m… ({bytes} bytes)"),
    }
}

/// Returns a line that counts lines that were left out.
fn counted(left_out: u64, rate: NonZeroU32, form: LineForm) -> String {
    let message = format!(
        "lines of the log were left out: it grows by at most {rate} bytes per second \
         (log.max_bytes_per_second), and by a quarter of that with lines of one kind"
    );
    if form == LineForm::Json {
        return json_line("WARN", &message, &[("left_out", Value::from(left_out))]);
    }
    let time = humantime::format_rfc3339_micros(std::time::SystemTime::now());
    format!("{time}  WARN marquetry: {message} left_out={left_out}")
}

struct LogRate {
    per_second: NonZeroU32,
    started: Instant,
    state: Mutex<RateState>,
}

/// The table has one entry for each place of the program that has logged.
struct RateState {
    all: TokenBucket,
    places: HashMap<&'static str, TokenBucket>,
    /// Bytes per second of one place.
    of_place: u32,
    left_out: u64,
    counted_at: Option<Duration>,
}

impl LogRate {
    fn new(per_second: NonZeroU32) -> Self {
        let rate = per_second.get();
        let state = RateState {
            all: bucket(rate),
            places: HashMap::new(),
            of_place: rate / PLACE_SHARE,
            left_out: 0,
            counted_at: None,
        };
        Self { per_second, started: Instant::now(), state: Mutex::new(state) }
    }

    /// Returns `None` if a line must be left out. Otherwise, returns the number of lines that were
    /// left out and must be told now.
    fn admit(&self, place: &'static str, bytes: usize) -> Option<u64> {
        self.state().admit_at(self.started.elapsed(), place, bytes)
    }

    fn state(&self) -> MutexGuard<'_, RateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the bucket of a rate in bytes per second. The longest line fits into its burst.
fn bucket(rate: u32) -> TokenBucket {
    TokenBucket::new(rate.max(1), rate.saturating_mul(BURST_SECONDS).max(MAX_LINE))
}

impl RateState {
    /// `now` is the time since the rate was created.
    fn admit_at(&mut self, now: Duration, place: &'static str, bytes: usize) -> Option<u64> {
        let cost = u32::try_from(bytes).unwrap_or(u32::MAX);
        let of_place = self.places.entry(place).or_insert_with(|| bucket(self.of_place));
        if !of_place.take(now, cost) || !self.all.take(now, cost) {
            self.left_out += 1;
            return None;
        }
        let is_early = self.counted_at.is_some_and(|at| now < at + COUNT_PAUSE);
        if self.left_out == 0 || is_early {
            return Some(0);
        }
        self.counted_at = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Returns a JSON line like those of the log.
pub(crate) fn json_line(level: &str, message: &str, fields: &[(&str, Value)]) -> String {
    let timestamp = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    let mut line = json!({"timestamp": timestamp, "level": level, "message": message});
    if let Some(line) = line.as_object_mut() {
        line.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        line.insert("target".to_owned(), json!("marquetry"));
    }
    printable_json(&line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: NonZeroU32 = NonZeroU32::new(48 << 10).unwrap();

    fn flood(state: &mut RateState, place: &'static str, seconds: u64) -> usize {
        let steps = seconds * 1_000;
        let lines =
            (0..steps).flat_map(|step| std::iter::repeat_n(Duration::from_millis(step), 20));
        lines.filter(|now| state.admit_at(*now, place, 1_000).is_some()).count() * 1_000
    }

    #[test]
    fn a_flood_grows_the_log_at_the_rate_and_leaves_room_for_others() {
        let rate = LogRate::new(RATE);
        let mut state = rate.state();
        let bytes = flood(&mut state, "flood", 10);
        assert!(bytes <= (5 + 10) * (12 << 10), "{bytes}");
        let other = state.admit_at(Duration::from_secs(12), "other", 500);
        assert!(other.is_some_and(|left_out| left_out > 0), "{other:?}");
        assert_eq!(state.admit_at(Duration::from_secs(12), "third", 500), Some(0));
    }

    #[test]
    fn floods_of_many_kinds_stay_within_the_whole_rate() {
        let rate = LogRate::new(RATE);
        let mut state = rate.state();
        let places = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let bytes: usize = places.iter().map(|place| flood(&mut state, place, 10)).sum();
        assert!(bytes <= (5 + 10) * (48 << 10), "{bytes}");
    }

    #[test]
    fn the_longest_line_fits_into_the_slowest_log() {
        let rate = LogRate::new(NonZeroU32::MIN);
        assert_eq!(rate.state().admit_at(Duration::ZERO, "place", MAX_LINE as usize), Some(0));
        assert_eq!(rate.state().admit_at(Duration::ZERO, "place", 200), None);
        let fast = LogRate::new(NonZeroU32::MAX);
        assert_eq!(flood(&mut fast.state(), "flood", 10), 10_000 * 20 * 1_000);
    }

    #[test]
    fn a_long_line_is_cut_and_stays_json() {
        let line = json!({"message": "é\"".repeat(40_000)}).to_string();
        let short = shortened(line.clone(), LineForm::Json);
        let value: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(value["bytes"], line.len());
        assert!(short.len() <= MAX_LINE as usize);
        assert!(shortened(line, LineForm::Text).len() <= MAX_LINE as usize);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        for form in [LineForm::Text, LineForm::Json] {
            let line = counted(7, RATE, form);
            assert!(line.contains("left_out") && line.contains('7'), "{line}");
        }
    }

    fn is_count(line: &str) -> bool {
        line.contains("lines of the log were left out") && line.contains("left_out=")
    }

    #[test]
    fn events_are_written_printable_and_at_the_rate() {
        static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        struct Sink;
        impl Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                WRITTEN.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let output = LogOutput::new(LineForm::Text, || Sink, RATE);
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(output).finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..10_000 {
                tracing::warn!(name = %"a\u{9b}2J\nforged", "refused");
            }
        });
        let written = String::from_utf8(WRITTEN.lock().unwrap().clone()).unwrap();
        assert!(written.len() < 80 << 10, "{}", written.len());
        let is_known = written.lines().all(|line| line.contains("refused") || is_count(line));
        assert!(is_known && written.lines().any(is_count), "{written}");
        assert!(!written.contains('\u{9b}'));
    }
}
