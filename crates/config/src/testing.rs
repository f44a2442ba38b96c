//! The section `[testing]`.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Settings that make a run repeatable; for tests only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct TestingConfig {
    /// Serves the API of tests with a model below `/api/test/`, as `ENABLE_TESTING=true` does.
    /// Callers on this machine, or with `[auth]` those with the scope `admin`, can then run
    /// programs as the user of this server.
    pub enabled: bool,
    /// Seed for the random part of artifact names. Without it the part is random.
    #[schemars(example = 7)]
    pub seed: Option<u64>,
    /// Time (RFC 3339) of new artifacts. Without it, the machine's clock.
    #[serde(deserialize_with = "time", serialize_with = "rfc3339")]
    #[schemars(with = "Option<String>", example = &"2026-01-01T00:00:00Z")]
    pub clock: Option<SystemTime>,
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SystemTime>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map(Some).map_err(|_| {
        let problem = "is not a time; expected one like \"2026-01-01T00:00:00Z\"";
        D::Error::custom(format!("{text:?} {problem}"))
    })
}

#[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
fn rfc3339<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| humantime::format_rfc3339(time).to_string()).serialize(serializer)
}
