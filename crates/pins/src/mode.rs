//! The handling of definitions that differ from their pins.

use serde::{Deserialize, Serialize};

/// What happens with definitions that differ from their pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PinMode {
    /// Nothing is pinned or compared.
    Off,
    /// They are offered, and reported.
    #[default]
    Warn,
    /// They are not offered until somebody accepts them.
    Refuse,
}
