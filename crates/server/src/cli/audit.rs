//! `marquetry audit`

use marquetry_audit_command::{AuditArgs, AuditCommandError, run};

use super::Failure;

pub(super) fn audit(arguments: &AuditArgs) -> Result<(), Failure> {
    Ok(run(arguments, |file| match marquetry_config::load(file) {
        Ok(loaded) => Ok(loaded.config.audit.path),
        Err(error) => Err(AuditCommandError { code: 2, message: error.to_string() }),
    })?)
}
