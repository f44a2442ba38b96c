//! Levels of the log.

use tracing::level_filters::LevelFilter;

/// Checks a level, or a list of levels by module.
///
/// # Errors
///
/// If the text is neither a level nor such a list.
pub fn check_log_level(text: &str) -> Result<(), String> {
    let is_level = |level: &str| level.parse::<LevelFilter>().is_ok();
    let is_part = |part: &str| match part.split_once('=') {
        // A single word could also be the name of a module, which would hide a typing error.
        None => !part.trim().is_empty() && is_level(part.trim()),
        Some((_module, level)) => is_level(level),
    };
    if text.split(',').all(is_part) {
        return Ok(());
    }
    Err(format!(
        "{text:?} is not a log level; expected error, warn, info, debug, trace, off, or a list such as \"info,marquetry=debug\""
    ))
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
