//! Shows a change of a file, asks, records it and writes it.

use marquetry_client_config::{Change, Client, ConfigFile, CreatedFile, Operation, unified};

use crate::machine::{ConnectCommandError, Machine};

/// A planned change of one file.
pub(crate) struct Plan {
    pub(crate) command: &'static str,
    /// [`None`] for Marquetry's own file.
    pub(crate) client: Option<Client>,
    pub(crate) file: ConfigFile,
    pub(crate) after: String,
    pub(crate) changes: Vec<Change>,
    /// The files that were created for the change.
    pub(crate) created: Vec<CreatedFile>,
}

/// How the user agrees to changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Changes are shown, and nothing is written.
    DryRun,
    /// The user said yes in advance.
    Given,
    /// The user is asked.
    Ask,
}

impl Consent {
    pub(crate) fn of(dry_run: bool, yes: bool) -> Self {
        match (dry_run, yes) {
            (true, _) => Self::DryRun,
            (false, true) => Self::Given,
            (false, false) => Self::Ask,
        }
    }
}

impl Plan {
    /// Shows the change and, with the user's consent, records and writes it. Returns whether it was
    /// written.
    pub(crate) fn apply(
        &self,
        machine: &mut Machine<'_>,
        consent: Consent,
    ) -> Result<bool, ConnectCommandError> {
        self.show(machine);
        if !self.is_agreed(machine, consent)? {
            return Ok(false);
        }
        self.write(machine)?;
        Ok(true)
    }

    pub(crate) fn show(&self, machine: &mut Machine<'_>) {
        let name = self.file.path().display().to_string();
        if let Some(target) = self.file.link_target() {
            machine.print(&format!("{name} is a link; the file {} is changed", target.display()));
        }
        machine.print(unified(&name, self.file.text(), &self.after).trim_end());
    }

    /// Returns whether the user agrees to the change.
    pub(crate) fn is_agreed(
        &self,
        machine: &mut Machine<'_>,
        consent: Consent,
    ) -> Result<bool, ConnectCommandError> {
        let name = self.file.path().display().to_string();
        let is_agreed = match consent {
            Consent::DryRun => false,
            Consent::Given => true,
            Consent::Ask => {
                let flag = "pass --yes to write, or --dry-run to look only";
                machine.confirm(&format!("Write {name}?"), flag)?
            }
        };
        if !is_agreed {
            machine.print(&format!("{name}: nothing was written"));
        }
        Ok(is_agreed)
    }

    /// Records the change and writes it.
    pub(crate) fn write(&self, machine: &mut Machine<'_>) -> Result<(), ConnectCommandError> {
        let name = self.file.path().display().to_string();
        // Before a record of a change that would then fail.
        self.file.check_writable().map_err(ConnectCommandError::new)?;
        let operation = Operation::new(
            self.command,
            self.client,
            &self.file,
            &self.after,
            self.changes.clone(),
        )
        .with_created(self.created.clone());
        let journal = machine.journal()?;
        let record =
            journal.record(&operation, self.file.text()).map_err(ConnectCommandError::new)?;
        if let Err(error) = self.file.write(&self.after) {
            // There is nothing to undo.
            journal.forget(record.number);
            return Err(ConnectCommandError::new(error));
        }
        if self.file.exists() {
            machine
                .print(&format!("{name}: written; the file before is {}", record.copy.display()));
        } else {
            machine.print(&format!("{name}: created"));
        }
        Ok(())
    }
}
