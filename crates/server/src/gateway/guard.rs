//! An upstream's program behind the guard that ends it with this process; see [`GatewayConfig::guard`](crate::config::GatewayConfig::guard).

use std::{env, ffi::OsString, io, os::unix::fs::PermissionsExt as _, path::Path, process};

use marquetry_protocol::client::{ClientError, StdioCommand};

/// Makes the guard run the program in its place.
///
/// # Errors
///
/// The program is not there: said here, where its name is known, as the guard itself can always be started.
pub(super) fn stand_before(command: &mut StdioCommand, guard: &Path) -> Result<(), ClientError> {
    find(command).map_err(|source| ClientError::Io {
        what: format!("cannot start '{}'", command.program),
        source,
    })?;
    let head = [
        "guard".to_owned(),
        "--server".to_owned(),
        process::id().to_string(),
        "--grace-ms".to_owned(),
        command.stop_grace.as_millis().to_string(),
        "--".to_owned(),
        std::mem::replace(&mut command.program, guard.to_string_lossy().into_owned()),
    ];
    command.args.splice(0..0, head);
    Ok(())
}

/// Looks the program up as starting it would: a path as seen from its directory, a name in its `PATH`.
fn find(command: &StdioCommand) -> io::Result<()> {
    let is_program = |path: &Path| -> io::Result<()> {
        let metadata = path.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            return Ok(());
        }
        Err(io::ErrorKind::PermissionDenied.into())
    };
    if command.program.contains('/') {
        let base = command.cwd.as_deref().unwrap_or(Path::new(""));
        return is_program(&base.join(&command.program));
    }
    let theirs = command.env.get("PATH").map(OsString::from);
    let path = theirs.or_else(|| env::var_os("PATH").filter(|_| command.inherit_env));
    let Some(path) = path else {
        // The system's own default applies, and the guard will say.
        return Ok(());
    };
    let mut problem = io::ErrorKind::NotFound.into();
    for directory in env::split_paths(&path) {
        match is_program(&directory.join(&command.program)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => problem = error,
            Err(_) => {}
        }
    }
    Err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_they_would_be_started() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("text"), "").unwrap();
        let at = |program: &str| {
            let mut command = StdioCommand::new(program, [""; 0]);
            command.cwd = Some(folder.path().to_owned());
            command
        };
        let folder_as_path = |program: &str| {
            let mut command = at(program);
            command.env.insert("PATH".into(), folder.path().display().to_string());
            command
        };
        for (command, want) in [
            (at("sh"), "found"),
            (at("/bin/sh"), "found"),
            (at("no-such-program"), "entity not found"),
            (at("./no-such-program"), "No such file or directory (os error 2)"),
            (at("./text"), "permission denied"),
            (folder_as_path("text"), "permission denied"),
            (folder_as_path("sh"), "entity not found"),
        ] {
            let found =
                find(&command).map_or_else(|error| error.to_string(), |()| "found".to_owned());
            assert_eq!(found, want, "{}", command.program);
        }
    }

    #[test]
    fn the_guard_is_told_whom_it_serves_and_what_to_run() {
        let mut command = StdioCommand::new("sh", ["-c", "true"]);
        stand_before(&mut command, Path::new("/guard")).unwrap();
        assert_eq!(command.program, "/guard");
        let server = process::id().to_string();
        assert_eq!(
            command.args,
            ["guard", "--server", &server, "--grace-ms", "2000", "--", "sh", "-c", "true"]
        );
    }
}
