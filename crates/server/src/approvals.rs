//! Questions to a person before calls, for the gateway, the console and the audit log.

use std::sync::Arc;

use marquetry_config::{Config, ConfigError};
use marquetry_console::Console;
use marquetry_gateway::CallApprovals;

use crate::observation::Observation;

/// Returns the rules of `[ask]` with the table of questions, which the console shows and the audit
/// log records.
///
/// # Errors
/// Returns an error if the file of decisions cannot be used.
pub(crate) fn call_approvals(
    config: &Config,
    observation: &Observation,
    console: Option<&Console>,
) -> Result<Arc<CallApprovals>, ConfigError> {
    let approvals = Arc::new(config.approvals()?);
    if let Some(console) = console {
        console.show_approvals(approvals.clone());
    }
    if let Some(audit) = observation.audit.clone() {
        approvals.on_event(move |event| audit.hand_over(&event.to_json()));
    }
    let approvals = CallApprovals::new(approvals);
    config.apply_ask_rules(&approvals);
    Ok(Arc::new(approvals))
}
