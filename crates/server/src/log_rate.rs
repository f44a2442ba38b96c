//! The rate at which the log may grow.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use marquetry_rate_limit::TokenBucket;
use serde_json::{Value, json};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use crate::printable::{LineForm, printable_json, printable_log_line};

/// KiB per second by which the log grows, after a burst of [`ALL_BURST_KIB`].
const ALL_KIB: u32 = 48;
const ALL_BURST_KIB: u32 = 256;
/// The same for lines from one place of the program, so that an upstream that causes many lines of
/// one kind does not silence the others.
const PLACE_KIB: u32 = 12;
const PLACE_BURST_KIB: u32 = 64;
/// Longest line in bytes; of a longer one, the beginning is logged.
const MAX_LINE: usize = 16 << 10;
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
    pub(crate) fn new(form: LineForm, open: fn() -> W) -> Self {
        Self { form, open, rate: LogRate::new() }
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
                lines = counted(left_out, *form);
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
    if line.len() <= MAX_LINE {
        return line;
    }
    let bytes = line.len();
    let beginning = &line[..line.floor_char_boundary(MAX_LINE / 4)];
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
fn counted(left_out: u64, form: LineForm) -> String {
    let message = format!(
        "lines of the log were left out: it grows by at most {ALL_KIB} KiB per second, and by \
         {PLACE_KIB} KiB with lines of one kind"
    );
    if form == LineForm::Json {
        return json_line("WARN", &message, &[("left_out", Value::from(left_out))]);
    }
    let time = humantime::format_rfc3339_micros(std::time::SystemTime::now());
    format!("{time}  WARN marquetry: {message} left_out={left_out}")
}

struct LogRate {
    started: Instant,
    state: Mutex<RateState>,
}

/// The table has one entry for each place of the program that has logged.
struct RateState {
    all: TokenBucket,
    places: HashMap<&'static str, TokenBucket>,
    left_out: u64,
    counted_at: Option<Duration>,
}

impl LogRate {
    fn new() -> Self {
        let state = RateState {
            all: TokenBucket::new(ALL_KIB << 10, ALL_BURST_KIB << 10),
            places: HashMap::new(),
            left_out: 0,
            counted_at: None,
        };
        Self { started: Instant::now(), state: Mutex::new(state) }
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

impl RateState {
    /// `now` is the time since the rate was created.
    fn admit_at(&mut self, now: Duration, place: &'static str, bytes: usize) -> Option<u64> {
        let cost = u32::try_from(bytes).unwrap_or(u32::MAX);
        let of_place = self
            .places
            .entry(place)
            .or_insert_with(|| TokenBucket::new(PLACE_KIB << 10, PLACE_BURST_KIB << 10));
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

    fn flood(state: &mut RateState, place: &'static str, seconds: u64) -> usize {
        let steps = seconds * 1_000;
        let lines =
            (0..steps).flat_map(|step| std::iter::repeat_n(Duration::from_millis(step), 20));
        lines.filter(|now| state.admit_at(*now, place, 1_000).is_some()).count() * 1_000
    }

    #[test]
    fn a_flood_grows_the_log_at_the_rate_and_leaves_room_for_others() {
        let rate = LogRate::new();
        let mut state = rate.state();
        let bytes = flood(&mut state, "flood", 10);
        assert!(bytes <= (64 + 10 * 12) << 10, "{bytes}");
        let other = state.admit_at(Duration::from_secs(12), "other", 500);
        assert!(other.is_some_and(|left_out| left_out > 0), "{other:?}");
        assert_eq!(state.admit_at(Duration::from_secs(12), "third", 500), Some(0));
    }

    #[test]
    fn floods_of_many_kinds_stay_within_the_whole_rate() {
        let rate = LogRate::new();
        let mut state = rate.state();
        let places = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let bytes: usize = places.iter().map(|place| flood(&mut state, place, 10)).sum();
        assert!(bytes <= (256 + 10 * 48) << 10, "{bytes}");
    }

    #[test]
    fn a_long_line_is_cut_and_stays_json() {
        let line = json!({"message": "é\"".repeat(40_000)}).to_string();
        let short = shortened(line.clone(), LineForm::Json);
        let value: Value = serde_json::from_str(&short).unwrap();
        assert_eq!(value["bytes"], line.len());
        assert!(short.len() <= MAX_LINE);
        assert!(shortened(line, LineForm::Text).len() <= MAX_LINE);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        for form in [LineForm::Text, LineForm::Json] {
            let line = counted(7, form);
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
        let output = LogOutput::new(LineForm::Text, || Sink);
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
