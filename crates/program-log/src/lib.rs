#![doc = include_str!("../README.md")]

mod line;
mod output;

use std::{
    io::{self, Write as _},
    num::NonZeroU32,
    panic::PanicHookInfo,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use marquetry_printable::printable;
use serde_json::{Value, json};
use tracing_subscriber::{
    Layer as _, Registry,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt as _,
};

use self::{
    line::LineForm,
    output::{LogOutput, json_line},
};

/// Whether messages are JSON. A global, because standard error and the panic hook are global, too.
static JSON: AtomicBool = AtomicBool::new(false);

/// Panics that the program turns into errors, and therefore does not print.
static EXPECTED: OnceLock<fn(&PanicHookInfo<'_>) -> bool> = OnceLock::new();

/// The filter of the log, if [`start`] has started it.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines for people, with colours on a terminal.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

/// Options of the log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// A level, or a list by module such as `info,marquetry_gateway=debug`.
    pub level: String,
    /// The form of its lines.
    pub format: Format,
    /// Bytes per second by which it may grow, after a burst of five seconds. Lines from one place
    /// of the program get a quarter of it.
    pub max_bytes_per_second: NonZeroU32,
}

impl LogOptions {
    /// Creates options with this level and rate, for lines of text.
    #[must_use]
    pub fn new(level: impl Into<String>, max_bytes_per_second: NonZeroU32) -> Self {
        Self { level: level.into(), format: Format::Text, max_bytes_per_second }
    }

    /// Sets the form of the lines.
    #[must_use]
    pub fn with_format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }
}

/// Why a level of the log is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{level:?}: {why}")]
pub struct InvalidLevel {
    level: String,
    why: String,
}

/// Switches all later messages to JSON, panics included.
pub fn use_json() {
    if JSON.swap(true, Ordering::Relaxed) {
        return;
    }
    std::panic::set_hook(Box::new(|panic| {
        if is_expected(panic) {
            return;
        }
        let place = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("panic");
        emit("ERROR", message, &[("panicked_at", json!(place))]);
    }));
}

/// Prints panics as Rust does, except those that the program expects and turns into errors.
pub fn print_panics(is_expected: fn(&PanicHookInfo<'_>) -> bool) {
    _ = EXPECTED.set(is_expected);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_expected(panic) {
            print(panic);
        }
    }));
}

fn is_expected(panic: &PanicHookInfo<'_>) -> bool {
    EXPECTED.get().is_some_and(|is_expected| is_expected(panic))
}

/// Returns whether messages are JSON.
#[must_use]
pub fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes a JSON line like those of the log, at every log level.
pub fn emit(level: &str, message: &str, fields: &[(&str, Value)]) {
    // The reader may have closed the pipe.
    _ = writeln!(io::stderr().lock(), "{}", json_line(level, message, fields));
}

/// Prints a warning before the log is started, or in a command without a log.
pub fn warn(message: &str) {
    if is_json() {
        emit("WARN", message, &[]);
    } else {
        _ = writeln!(io::stderr().lock(), "warning: {}", printable(message));
    }
}

/// Starts the log of the whole process on standard error. Does nothing if a subscriber is already
/// set, as in tests.
///
/// # Errors
///
/// Returns an error if the level is not valid.
pub fn start(options: &LogOptions) -> Result<(), InvalidLevel> {
    let targets = targets(&options.level)?;
    if options.format == Format::Json {
        use_json();
    }
    let (filter, handle) = reload::Layer::new(targets);
    let layer = tracing_subscriber::fmt::layer();
    let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
    let form = match options.format {
        Format::Json => LineForm::Json,
        Format::Text if is_terminal => LineForm::ColouredText,
        Format::Text => LineForm::Text,
    };
    let layer = layer.with_writer(LogOutput::new(form, io::stderr, options.max_bytes_per_second));
    let layer = match options.format {
        Format::Text => layer.with_ansi(is_terminal).boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    if tracing_subscriber::registry().with(layer.with_filter(filter)).try_init().is_ok() {
        _ = FILTER.set(handle);
    }
    Ok(())
}

/// Changes the level of the log that [`start`] has started.
///
/// # Errors
///
/// Returns an error if the level is not valid; the old one stays.
pub fn set_level(level: &str) -> Result<(), InvalidLevel> {
    let targets = targets(level)?;
    if let Some(filter) = FILTER.get() {
        // It fails only if the subscriber is gone, and then there is no log.
        _ = filter.reload(targets);
    }
    Ok(())
}

fn targets(level: &str) -> Result<Targets, InvalidLevel> {
    let mut targets: Targets = level
        .parse()
        .map_err(|error| InvalidLevel { level: level.to_owned(), why: format!("{error}") })?;
    // It logs each attempt that it repeats. The last one is reported in any case.
    if targets.default_level() == Some(LevelFilter::INFO) && !level.contains("object_store") {
        targets = targets.with_target("object_store", LevelFilter::WARN);
    }
    Ok(targets)
}
