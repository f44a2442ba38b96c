//! The JSON Schema of the language, for editors.

use super::Scenario;

/// The JSON Schema of the scenario language, by which editors complete scenarios.
///
/// # Panics
///
/// Never: a schema is plain JSON.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Scenario);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    text.push('\n');
    text
}
