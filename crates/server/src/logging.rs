//! The log and other messages on standard error, as text or as JSON lines.

use std::{
    io::{self, Write as _},
    panic::PanicHookInfo,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};

use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use marquetry_config::sections::{LogConfig, LogFormat};
use marquetry_printable::printable;

use crate::{
    log_rate::{LogOutput, json_line},
    printable::LineForm,
};

/// Whether messages are JSON. A global, because standard error and the panic hook are global, too.
static JSON: AtomicBool = AtomicBool::new(false);

/// Switches all later messages to JSON, panics included.
pub(crate) fn use_json() {
    if JSON.swap(true, Ordering::Relaxed) {
        return;
    }
    std::panic::set_hook(Box::new(|panic| {
        if is_of_damaged_database(panic) {
            return;
        }
        let place = panic.location().map(ToString::to_string);
        let message = panic.payload_as_str().unwrap_or("panic");
        emit("ERROR", message, &[("panicked_at", json!(place))]);
    }));
}

/// Prints panics as Rust does, except those that become errors of a damaged database.
pub(crate) fn print_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_of_damaged_database(panic) {
            print(panic);
        }
    }));
}

/// Returns whether libSQL panics because a text in a file is not UTF-8. `marquetry_database` catches
/// that.
fn is_of_damaged_database(panic: &PanicHookInfo<'_>) -> bool {
    let file = panic.location().map(std::panic::Location::file).unwrap_or_default();
    let mut parts = file.rsplit(['/', '\\']);
    parts.next() == Some("value.rs") && parts.any(|part| part.starts_with("libsql-"))
}

/// Returns whether messages are JSON.
pub(crate) fn is_json() -> bool {
    JSON.load(Ordering::Relaxed)
}

/// Writes a JSON line like those of the log, at every log level.
pub(crate) fn emit(level: &str, message: &str, fields: &[(&str, Value)]) {
    // The reader may have closed the pipe.
    _ = writeln!(io::stderr().lock(), "{}", json_line(level, message, fields));
}

/// Prints a warning before the log is started, or in a command without a log.
pub(crate) fn warn(message: &str) {
    if is_json() {
        emit("WARN", message, &[]);
    } else {
        _ = writeln!(io::stderr().lock(), "warning: {}", printable(message));
    }
}

/// Starts logging for the whole process. Does nothing if a subscriber is already set, as in tests.
pub(crate) fn start(config: &LogConfig) -> Result<(), String> {
    let mut targets: Targets =
        config.level.parse().map_err(|error| format!("log.level: {:?}: {error}", config.level))?;
    // It logs each attempt that it repeats. The last one is reported in any case.
    if targets.default_level() == Some(LevelFilter::INFO) && !config.level.contains("object_store")
    {
        targets = targets.with_target("object_store", LevelFilter::WARN);
    }
    if config.format == LogFormat::Json {
        use_json();
    }
    let layer = tracing_subscriber::fmt::layer();
    let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
    let form = match config.format {
        LogFormat::Json => LineForm::Json,
        LogFormat::Text if is_terminal => LineForm::ColouredText,
        LogFormat::Text => LineForm::Text,
    };
    let layer = layer.with_writer(LogOutput::new(form, io::stderr, config.max_bytes_per_second));
    let layer = match config.format {
        LogFormat::Text => layer.with_ansi(is_terminal).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
    Ok(())
}
