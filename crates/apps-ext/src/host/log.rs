//! Log messages of a View.

use marquetry_protocol::{
    shortened,
    types::{JsonObject, LogLevel},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A log message of a View.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LogEntry {
    /// Severity of the message.
    pub level: LogLevel,
    /// Part of the View that wrote the message, cut to 200 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// The message as JSON, cut to `max_log_bytes`.
    pub data: String,
}

impl LogEntry {
    pub(super) fn parse(params: &JsonObject, max_bytes: usize) -> Result<Self, &'static str> {
        let level = params.get("level").and_then(|it| LogLevel::deserialize(it).ok());
        let mut data = params.get("data").unwrap_or(&Value::Null).to_string();
        data.truncate(data.floor_char_boundary(max_bytes));
        Ok(Self {
            level: level.ok_or("level is not a log level")?,
            logger: params.get("logger").and_then(Value::as_str).map(|it| shortened(it).to_owned()),
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_bounded() {
        let params =
            json!({ "level": "warning", "logger": "l".repeat(999), "data": "é".repeat(999) });
        let entry = LogEntry::parse(params.as_object().unwrap(), 100).unwrap();
        assert_eq!((entry.logger.unwrap().len(), entry.data.len()), (200, 99));
        assert!(LogEntry::parse(json!({ "level": "loud" }).as_object().unwrap(), 100).is_err());
    }
}
