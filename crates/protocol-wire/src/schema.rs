//! Compiled JSON Schemas, of draft 2020-12 unless they name another.

use std::borrow::Cow;

use jsonschema::PatternOptions;
use jsonschema::Validator;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, value::RawValue};

use crate::error::shortened;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema(Validator);

impl Schema {
    /// Compiles a schema that this program wrote itself.
    ///
    /// # Errors
    /// Returns an error with the reason if the schema is invalid.
    pub fn new(schema: &Value) -> Result<Self, String> {
        jsonschema::validator_for(schema)
            .map(Self)
            .map_err(|error| shortened(&error.to_string()).to_owned())
    }

    /// Compiles a schema that another program sent. Patterns that could take more than linear time,
    /// or much memory, are refused.
    ///
    /// # Errors
    /// Returns an error with the reason if the schema is invalid.
    pub fn untrusted(schema: &Value) -> Result<Self, String> {
        const MAX_BYTES: usize = 1 << 20;
        let patterns = PatternOptions::regex().size_limit(MAX_BYTES).dfa_size_limit(MAX_BYTES);
        jsonschema::options()
            .with_pattern_options(patterns)
            .build(schema)
            .map(Self)
            .map_err(|error| shortened(&error.to_string()).to_owned())
    }

    /// Returns the first few faults of `value`, each with its JSON pointer; `None` if it is valid.
    #[must_use]
    pub fn faults(&self, value: &Value) -> Option<String> {
        const MAX: usize = 5;
        let faults: Vec<String> = self
            .0
            .iter_errors(value)
            .take(MAX)
            .map(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                pointer => format!("{pointer}: {error}"),
            })
            .collect();
        // Errors quote the invalid value, which may be long.
        (!faults.is_empty()).then(|| shortened(&faults.join("; ")).to_owned())
    }

    /// Returns the faults of the `structuredContent` of a tool's result, if this is the tool's
    /// output schema. The result of a tool that failed, and a result that is not the last, need not
    /// be valid (2025-06-18, "Output Schema").
    #[must_use]
    pub fn faults_of_result(&self, result: &RawValue) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Parts<'a> {
            #[serde(borrow)]
            result_type: Option<Cow<'a, str>>,
            is_error: Option<bool>,
            #[serde(default, deserialize_with = "present")]
            structured_content: Option<Value>,
        }
        /// Parses a value that is present, even if it is `null`.
        fn present<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Value>, D::Error> {
            Value::deserialize(json).map(Some)
        }
        let parts: Parts<'_> = match serde_json::from_str(result.get()) {
            Ok(parts) => parts,
            Err(error) => return Some(error.to_string()),
        };
        let is_last = parts.result_type.is_none_or(|kind| kind == "complete");
        if !is_last || parts.is_error == Some(true) {
            return None;
        }
        match parts.structured_content {
            Some(content) => self.faults(&content),
            None => Some("structuredContent is missing".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    #[test]
    fn faults_have_a_pointer() {
        let schema = Schema::new(&json!({
            "type": "object",
            "properties": { "a": { "prefixItems": [{ "type": "integer" }] } },
            "unevaluatedProperties": false,
        }));
        let schema = schema.unwrap();
        assert_eq!(schema.faults(&json!({ "a": [1] })), None);
        // A feature that older drafts lack.
        let faults = schema.faults(&json!({ "a": ["x"], "b": 1 })).unwrap();
        assert!(faults.contains(r#"/a/0: "x" is not of type "integer""#), "{faults}");
        assert!(faults.contains("Unevaluated properties"), "{faults}");
    }

    #[test]
    fn a_result_has_to_keep_what_its_schema_promises() {
        let schema = Schema::new(&json!({ "required": ["n"] })).unwrap();
        for (result, faults) in [
            (json!({ "structuredContent": { "n": 1 } }), None),
            (json!({ "structuredContent": {} }), Some(r#""n" is a required property"#)),
            (json!({ "content": [] }), Some("structuredContent is missing")),
            (json!({ "structuredContent": null }), None),
            (json!({ "content": [], "isError": true }), None),
            (json!({ "resultType": "input_required" }), None),
            (json!({ "resultType": "complete" }), Some("structuredContent is missing")),
        ] {
            let got = schema.faults_of_result(&to_raw_value(&result).unwrap());
            assert_eq!(got.as_deref(), faults, "{result}");
        }
    }

    #[test]
    fn patterns_of_untrusted_schemas_take_linear_time() {
        for pattern in ["^(a+)+$", "(?=a)b", "a{1000000}"] {
            let schema = json!({ "pattern": pattern });
            let Ok(schema) = Schema::untrusted(&schema) else { continue };
            let started = std::time::Instant::now();
            _ = schema.faults(&json!("a".repeat(50_000) + "!"));
            assert!(started.elapsed() < std::time::Duration::from_secs(5), "{pattern}");
        }
        assert!(Schema::untrusted(&json!({ "$ref": "https://example.com/s.json" })).is_err());
    }
}
