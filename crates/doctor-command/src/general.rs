//! Causes that servers over every transport have in common.

use marquetry_protocol::client::ClientError;

use crate::cause::{Cause, Finding};

/// Returns the finding for a server that could be reached, and answered wrongly.
pub(crate) fn finding(error: &ClientError) -> Finding {
    let problem = error.to_string();
    match error {
        ClientError::Revision(_) => Finding::new(
            Cause::UnsupportedRevision,
            problem,
            "update the server; if the setting \"revision\" names another one, remove it",
        ),
        ClientError::Rpc(_) => Finding::new(
            Cause::Refused,
            format!("it answered `initialize` with an error: {problem}"),
            "mend what the message says, or update the server",
        ),
        ClientError::NotStarted(why) => {
            Finding::new(Cause::Configuration, why, "correct the entry in the configuration")
        }
        ClientError::Protocol(_) => Finding::new(
            Cause::InvalidAnswer,
            problem,
            "update the server, or report the fault to its authors",
        ),
        ClientError::Closed(_) => {
            Finding::new(Cause::Lost, problem, "try again; the log of the server may say more")
        }
        _ => Finding::new(
            Cause::Unreachable,
            problem,
            "try again; the log of the server may say more",
        ),
    }
}
