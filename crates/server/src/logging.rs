//! Logs on standard error, as text or JSON.

use std::io;

use tracing_subscriber::{
    Layer as _,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::config::{LogConfig, LogFormat};

/// Says what is wrong with a level, if anything is.
pub(crate) fn check_level(level: &str) -> Result<(), String> {
    targets(level).map(drop)
}

/// Starts logging for the whole process. Does nothing when a subscriber is set already, as in a test that has its own.
pub(crate) fn start(config: &LogConfig) -> Result<(), String> {
    let targets = targets(&config.level)?;
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let layer = match config.format {
        LogFormat::Text => layer.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
    Ok(())
}

fn targets(level: &str) -> Result<Targets, String> {
    // `Targets` takes a lone word that is no level for a module's name, which hides a typing error.
    let lone = level.split(',').filter(|part| !part.contains('='));
    let lone_are_levels =
        lone.map(str::trim).all(|part| !part.is_empty() && part.parse::<LevelFilter>().is_ok());
    level.parse().ok().filter(|_| lone_are_levels).ok_or_else(|| {
        format!(
            "{level:?} is not a log level; expected error, warn, info, debug, trace, off, or a list such as \"info,marquetry=debug\""
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_checked() {
        for level in ["info", "off", "warn,marquetry::gateway=trace", "INFO"] {
            assert_eq!(check_level(level), Ok(()), "{level}");
        }
        for level in ["marquetry=loud", "loud", ""] {
            assert!(check_level(level).unwrap_err().contains("expected error, warn"), "{level}");
        }
    }
}
