//! Limits of trials.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of one trial. A trial that reaches one ends with the status `error`, and the reason names
/// the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum requests to the agent's model; 20 by default.
    pub max_turns: u32,
    /// Maximum tool calls; 50 by default.
    pub max_tool_calls: u32,
    /// Maximum tokens of the requests and answers of both models; 200,000 by default. If a provider
    /// reports no usage, they are estimated.
    pub max_tokens: u64,
    /// Maximum time of a trial, in milliseconds; 300,000 by default.
    pub timeout_ms: u64,
    /// Maximum time of one tool call, in milliseconds; 60,000 by default.
    pub call_timeout_ms: u64,
    /// Maximum time until a server has started and listed its tools, in milliseconds; 30,000 by
    /// default.
    pub connect_timeout_ms: u64,
    /// Maximum cost in US dollars. It requires the `price` of each model. By default 1 if the
    /// models have a `price`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Maximum tools that the model gets; 128 by default, which is OpenAI's limit.
    pub max_tools: u32,
    /// Maximum bytes of a tool result that are shown to the model and recorded; 65,536 by default.
    /// The rest is cut off.
    pub max_result_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 20,
            max_tool_calls: 50,
            max_tokens: 200_000,
            timeout_ms: 300_000,
            call_timeout_ms: 60_000,
            connect_timeout_ms: 30_000,
            max_cost_usd: None,
            max_tools: 128,
            max_result_bytes: 65_536,
        }
    }
}

/// [`Limits::max_cost_usd`] of cases that do not give it.
const USUAL_COST_USD: f64 = 1.0;

impl Limits {
    /// Returns the cost that a trial may have.
    pub(crate) fn cost_usd(&self) -> f64 {
        self.max_cost_usd.unwrap_or(USUAL_COST_USD)
    }

    /// Returns bounds for [`Self::at_most`] by their names in cases, such as `maxTurns`; all others
    /// stay open.
    ///
    /// # Errors
    ///
    /// Returns an error if a limit does not exist, or cannot have its value.
    pub fn bounds(
        named: impl IntoIterator<Item = (String, serde_json::Number)>,
    ) -> Result<Self, serde_json::Error> {
        let open = Self {
            max_turns: u32::MAX,
            max_tool_calls: u32::MAX,
            max_tokens: u64::MAX,
            timeout_ms: u64::MAX,
            call_timeout_ms: u64::MAX,
            connect_timeout_ms: u64::MAX,
            max_cost_usd: Some(f64::MAX),
            max_tools: u32::MAX,
            max_result_bytes: u64::MAX,
        };
        let mut bounds = serde_json::to_value(open)?;
        for (name, number) in named {
            bounds[name] = number.into();
        }
        serde_json::from_value(bounds)
    }

    /// Returns the smaller of each limit: for a server that bounds what its callers may ask for.
    #[must_use]
    pub fn at_most(self, bounds: &Self) -> Self {
        Self {
            max_turns: self.max_turns.min(bounds.max_turns),
            max_tool_calls: self.max_tool_calls.min(bounds.max_tool_calls),
            max_tokens: self.max_tokens.min(bounds.max_tokens),
            timeout_ms: self.timeout_ms.min(bounds.timeout_ms),
            call_timeout_ms: self.call_timeout_ms.min(bounds.call_timeout_ms),
            connect_timeout_ms: self.connect_timeout_ms.min(bounds.connect_timeout_ms),
            max_cost_usd: match self.max_cost_usd {
                // A limit that nobody gave requires no price.
                None if bounds.cost_usd() >= USUAL_COST_USD => None,
                _ => Some(self.cost_usd().min(bounds.cost_usd())),
            },
            max_tools: self.max_tools.min(bounds.max_tools),
            max_result_bytes: self.max_result_bytes.min(bounds.max_result_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn bounds(text: &str) -> Result<Limits, serde_json::Error> {
        let named: BTreeMap<String, serde_json::Number> = serde_json::from_str(text).unwrap();
        Limits::bounds(named)
    }

    fn with_cost(max_cost_usd: Option<f64>) -> Limits {
        Limits { max_cost_usd, ..Limits::default() }
    }

    #[test]
    fn bounds_are_named_as_in_cases() {
        let case = Limits {
            max_turns: 90,
            timeout_ms: 900_000,
            max_cost_usd: Some(7.5),
            ..Limits::default()
        };
        assert_eq!(case.at_most(&bounds("{}").unwrap()), case);
        assert_eq!(Limits::default().at_most(&bounds("{}").unwrap()), Limits::default());
        let max = bounds(r#"{"maxTurns": 5, "maxCostUsd": 0.5}"#).unwrap();
        assert_eq!(case.at_most(&max), Limits { max_turns: 5, max_cost_usd: Some(0.5), ..case });
        for (text, said) in [
            (r#"{"maxTurn": 5}"#, "unknown field `maxTurn`, expected one of `maxTurns`"),
            (r#"{"maxTurns": -1}"#, "invalid value: integer `-1`"),
            (r#"{"maxTurns": 0.5}"#, "invalid type: floating point `0.5`"),
        ] {
            let error = bounds(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_bound_of_the_operator_requires_a_price_only_below_the_usual_cost() {
        for (case, max, want) in [
            (None, None, None),
            (None, Some(5.0), None),
            (None, Some(0.5), Some(0.5)),
            (Some(3.0), None, Some(1.0)),
            (Some(0.2), Some(0.5), Some(0.2)),
        ] {
            assert_eq!(
                with_cost(case).at_most(&with_cost(max)).max_cost_usd,
                want,
                "{case:?} {max:?}"
            );
        }
    }
}
