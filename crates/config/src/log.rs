//! The section `[log]`.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use tracing::level_filters::LevelFilter;

/// The log, which is written to standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogConfig {
    /// "error", "warn", "info", "debug", "trace" or "off", or a list by module such as
    /// "info,marquetry_gateway=debug".
    #[serde(deserialize_with = "log_level")]
    pub level: String,
    /// "text" for people, or "json" for programs, with one object on each line.
    pub format: LogFormat,
    /// Bytes per second by which the log grows, after a burst of five seconds. Lines of one kind
    /// get a quarter of it, so that no client or server can silence the others; a line counts what
    /// was left out. Each tool call leaves a line of about 200 bytes.
    pub max_bytes_per_second: NonZeroU32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Text,
            max_bytes_per_second: NonZeroU32::new(48 << 10).expect("it is not zero"),
        }
    }
}

fn log_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let level = String::deserialize(deserializer)?;
    check_log_level(&level).map_err(D::Error::custom)?;
    Ok(level)
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

/// Checks a level, or a list of levels by module.
///
/// # Errors
///
/// Returns an error if the text is neither a level nor such a list.
pub fn check_log_level(text: &str) -> Result<(), String> {
    let are_levels = text.split(',').all(|part| match part.split_once('=') {
        // A single word could also be the name of a module, which would hide a typing error.
        None => !part.trim().is_empty() && is_level(part.trim()),
        Some((_module, level)) => is_level(level),
    });
    if are_levels {
        return Ok(());
    }
    Err(format!(
        "{text:?} is not a log level; expected error, warn, info, debug, trace, off, or a list such as \"info,marquetry=debug\""
    ))
}

fn is_level(text: &str) -> bool {
    text.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_checked() {
        for level in ["info", "off", "warn,marquetry_gateway=trace", "INFO"] {
            assert_eq!(check_log_level(level), Ok(()), "{level}");
        }
        for level in ["marquetry=loud", "loud", "", "a=b=info", "info,"] {
            assert!(
                check_log_level(level).unwrap_err().contains("expected error, warn"),
                "{level}"
            );
        }
    }
}
