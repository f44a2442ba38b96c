//! `marquetry connect`, `marquetry import`, and the guide of the first run.

use std::io::{self, IsTerminal as _};

use marquetry_connect_command::{self as command, ConnectCommandError, Machine, TerminalDialog};

use super::{Failure, environment::variable, prompt::read_hidden, serve::program};

pub(super) fn connect(arguments: &command::ConnectArgs) -> Result<(), Failure> {
    on_machine(|machine| command::connect(arguments, machine))
}

pub(super) fn import(arguments: &command::ImportArgs) -> Result<(), Failure> {
    on_machine(|machine| command::import(arguments, machine))
}

pub(super) fn guide() -> Result<(), Failure> {
    on_machine(|machine| command::guide("http://127.0.0.1:3001/", machine))
}

/// Returns whether a person reads what the program prints and can answer.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn on_machine(
    run: impl FnOnce(&mut Machine<'_>) -> Result<(), ConnectCommandError>,
) -> Result<(), Failure> {
    let here = program().ok_or_else(|| Failure::new("the path of this program is not known"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = command::program_on_path(&here, &path).display().to_string();
    let mut output = io::stdout();
    let mut dialog = TerminalDialog { read_hidden };
    let mut machine = Machine::new(program, &variable, &mut output);
    if is_interactive() {
        machine = machine.with_dialog(&mut dialog);
    }
    run(&mut machine).map_err(|ConnectCommandError { code, message }| Failure { code, message })
}
