//! Limits of queries.

use std::time::Duration;

/// Limits of one query. Whatever exceeds one ends the query with an error, except for output, which
/// is cut and says so.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueryLimits {
    /// Time of the query.
    pub time: Duration,
    /// Largest value that a jq program may make, in bytes.
    pub max_value_bytes: usize,
    /// Longest output, in bytes.
    pub max_output_bytes: usize,
    /// Maximum number of rows or values in the output.
    pub max_rows: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(2),
            max_value_bytes: 64 << 20,
            max_output_bytes: 16 << 10,
            max_rows: 1_000,
        }
    }
}
