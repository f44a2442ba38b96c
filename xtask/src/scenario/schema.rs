//! The JSON Schema of the language, for editors.

use super::Scenario;

/// The schema as it is checked in.
pub(crate) fn schema() -> String {
    let schema = schemars::schema_for!(Scenario);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}
