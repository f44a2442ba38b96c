//! Starts an upstream's program through the guard; see [`GatewayOptions::guard`](crate::GatewayOptions::guard).

use std::{path::Path, process};

use marquetry_protocol::client::StdioCommand;

/// Changes the command so that the guard runs the program.
pub(super) fn stand_before(command: &mut StdioCommand, guard: &Path) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_is_told_whom_it_serves_and_what_to_run() {
        let mut command = StdioCommand::new("sh", ["-c", "true"]);
        stand_before(&mut command, Path::new("/guard"));
        assert_eq!(command.program, "/guard");
        let server = process::id().to_string();
        assert_eq!(
            command.args,
            ["guard", "--server", &server, "--grace-ms", "2000", "--", "sh", "-c", "true"]
        );
    }
}
