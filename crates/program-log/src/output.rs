//! The rate at which the log may grow.

use std::{
    io::{self, Write},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use marquetry_printable::printable_json;
use marquetry_rate_limit::ByteRate;
use marquetry_redact::without_known_secrets;
use serde_json::{Value, json};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use crate::line::{LineForm, printable_log_line};

/// Longest line in bytes; of a longer one, the beginning is logged.
const MAX_LINE: u32 = 16 << 10;

/// The output of the log: printable lines that come no faster than the rate. Upstreams, models and
/// clients cause lines; none of them may fill a disk.
pub(crate) struct LogOutput<W> {
    form: LineForm,
    open: fn() -> W,
    per_second: NonZeroU32,
    /// Lines from one place of the program are of one kind.
    rate: Mutex<ByteRate>,
    started: Instant,
}

impl<W> LogOutput<W> {
    /// `rate` is in bytes per second.
    pub(crate) fn new(form: LineForm, open: fn() -> W, rate: NonZeroU32) -> Self {
        let limit = Mutex::new(ByteRate::new(rate, MAX_LINE));
        Self { form, open, per_second: rate, rate: limit, started: Instant::now() }
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
        let LogOutput { form, open, per_second, rate, started } = self.output;
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        let text = without_known_secrets(printable_log_line(&text, *form)).into_owned();
        let text = shortened(text, *form);
        let mut rate = rate.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = rate.admit(started.elapsed(), self.place, text.len());
        drop(rate);
        if let Some(left_out) = admitted {
            let mut lines = String::new();
            if left_out > 0 {
                lines = counted(left_out, *per_second, *form);
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
