//! The handling of definitions that differ from their pins.

use serde::{Deserialize, Serialize};

/// Handling of definitions that differ from their pins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PinMode {
    /// Definitions are neither pinned nor compared.
    Off,
    /// They are offered, and reported.
    #[default]
    Warn,
    /// They are not offered until somebody accepts them.
    Refuse,
}
