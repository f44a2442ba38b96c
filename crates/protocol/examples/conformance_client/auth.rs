//! Scenarios of authorization.

use crate::{Assignment, Failed};

pub(crate) async fn run(assignment: &Assignment) -> Result<(), Failed> {
    Err(assignment.not_supported())
}
