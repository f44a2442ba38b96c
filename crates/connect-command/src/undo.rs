//! Takes back recorded changes, the newest first.

use std::{fs, path::Path};

use marquetry_client_config::{
    Client, ConfigFile, CreatedFile, CreatedFileState, Operation, journal::Undo, unified,
};

use crate::{
    apply::Consent,
    machine::{ConnectCommandError, Machine},
};

/// Takes back the changes that a command made to the files of these clients; no clients stand for
/// all files.
pub(crate) fn undo(
    command: &str,
    clients: &[Client],
    file: Option<&Path>,
    consent: Consent,
    machine: &mut Machine<'_>,
) -> Result<(), ConnectCommandError> {
    let journal = machine.journal()?;
    let named = file.map(std::path::absolute).transpose().map_err(ConnectCommandError::new)?;
    let operations = journal.operations().map_err(ConnectCommandError::new)?;
    let own: Vec<(u64, Operation)> = operations
        .into_iter()
        .filter(|(_, it)| it.command == command)
        .filter(|(_, it)| clients.is_empty() || clients.iter().any(|one| one.id() == it.client))
        .filter(|(_, it)| named.as_ref().is_none_or(|path| *path == it.path))
        .collect();
    if own.is_empty() {
        machine.print("there is nothing to undo");
        return Ok(());
    }
    let mut failures = Vec::new();
    for (number, operation) in own {
        match undo_one(number, &operation, consent, machine) {
            Ok(true) => journal.forget(number),
            Ok(false) => {}
            Err(failure) if failure.code == 2 => return Err(failure),
            Err(failure) => failures.push(failure.message),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(ConnectCommandError::new(failures.join("\n")))
}

/// Returns whether the record is done with.
fn undo_one(
    number: u64,
    operation: &Operation,
    consent: Consent,
    machine: &mut Machine<'_>,
) -> Result<bool, ConnectCommandError> {
    let name = operation.path.display().to_string();
    let before = machine.journal()?.before(number).map_err(ConnectCommandError::new)?;
    let file = ConfigFile::read(&operation.path, machine.home_folder().as_deref())
        .map_err(ConnectCommandError::new)?;
    let undo = operation
        .undo(&file, &before)
        .map_err(|error| ConnectCommandError::new(format!("{name}: {error}")))?;
    let after = match &undo {
        Undo::Restore(text) | Undo::Edit(text) => text.as_str(),
        Undo::Remove => "",
        _ => {
            machine.print(&format!("{name}: the change is gone already"));
            return undo_created(operation, file.text(), consent, machine);
        }
    };
    if matches!(undo, Undo::Edit(_)) {
        machine.print(&format!("{name} was edited since; only Marquetry's change is taken back"));
    }
    machine.print(unified(&name, file.text(), after).trim_end());
    for created in removable(operation, after) {
        machine.print(&format!("the file {} goes, too", created.path.display()));
    }
    let is_agreed = match consent {
        Consent::DryRun => false,
        Consent::Given => true,
        Consent::Ask => {
            let flag = "pass --yes to undo, or --dry-run to look only";
            machine.confirm(&format!("Undo the change of {name}?"), flag)?
        }
    };
    if !is_agreed {
        machine.print(&format!("{name}: nothing was written"));
        return Ok(false);
    }
    if undo == Undo::Remove {
        file.remove().map_err(ConnectCommandError::new)?;
        machine.print(&format!("{name}: removed, as it was before"));
    } else {
        file.write(after).map_err(ConnectCommandError::new)?;
        machine.print(&format!("{name}: undone"));
    }
    remove_created(operation, after, machine);
    Ok(true)
}

/// Removes the created files of a change whose file is without it already, and returns whether the
/// record is done with.
fn undo_created(
    operation: &Operation,
    text: &str,
    consent: Consent,
    machine: &mut Machine<'_>,
) -> Result<bool, ConnectCommandError> {
    let count = removable(operation, text).count();
    let is_agreed = match consent {
        Consent::DryRun => false,
        Consent::Ask if count > 0 => {
            let question = format!("Remove {count} files of secrets that the change created?");
            machine.confirm(&question, "pass --yes to undo, or --dry-run to look only")?
        }
        Consent::Given | Consent::Ask => true,
    };
    if is_agreed {
        remove_created(operation, text, machine);
    }
    Ok(is_agreed)
}

/// Returns the created files that are unchanged, and that the text does not name.
fn removable<'a>(operation: &'a Operation, text: &'a str) -> impl Iterator<Item = &'a CreatedFile> {
    operation
        .created
        .iter()
        .filter(move |file| file.state() == CreatedFileState::Unchanged && !names(text, &file.path))
}

/// Removes the files that the change created, and names those that stay.
fn remove_created(operation: &Operation, text: &str, machine: &mut Machine<'_>) {
    for file in &operation.created {
        let path = file.path.display().to_string();
        if names(text, &file.path) {
            machine.print(&format!("{path}: stays, since {} names it", operation.path.display()));
            continue;
        }
        match file.state() {
            CreatedFileState::Gone => {}
            CreatedFileState::Changed => {
                machine.print(&format!("{path}: stays, since it was changed; remove it by hand"));
            }
            CreatedFileState::Unchanged => match fs::remove_file(&file.path) {
                Ok(()) => machine.print(&format!("{path}: removed")),
                Err(error) => machine.print(&format!("{path}: cannot be removed: {error}")),
            },
        }
        if let Some(folder) = file.path.parent() {
            // One that holds other files stays.
            _ = fs::remove_dir(folder);
        }
    }
}

/// Returns whether a file of servers has a reference to a file, as import writes them.
fn names(text: &str, path: &Path) -> bool {
    text.contains(&format!("${{file:{}}}", path.display()))
}
