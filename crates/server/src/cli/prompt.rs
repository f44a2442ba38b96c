//! Asks on the terminal for the values that an editor would ask its user for (`${input:ID}` of VS
//! Code's files).

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::Command,
};

use marquetry_config::Input;
use marquetry_printable::printable_line;

use marquetry_program_log as program_log;

/// Returns the typed line; `None` without a terminal or for an empty line.
pub(super) fn ask(input: &Input) -> Option<String> {
    // A question would not be JSON.
    if program_log::is_json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let what = printable_line(input.description.as_deref().unwrap_or(&input.id));
    let default = input.default.as_ref().map(|default| format!(" [{}]", printable_line(default)));
    let options: Vec<String> =
        input.options.iter().map(|option| printable_line(option.value())).collect();
    let options =
        if options.is_empty() { String::new() } else { format!(", one of {}", options.join(", ")) };
    let id = printable_line(&input.id);
    eprint!("{what} (${{input:{id}}}{options}){}: ", default.unwrap_or_default());
    _ = io::stderr().flush();
    let line = if input.password { read_hidden() } else { read() };
    line.filter(|line| !line.is_empty())
}

fn read() -> Option<String> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok()?;
    Some(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a line without echo. Returns [`None`] for a terminal whose echo cannot be switched off.
pub(super) fn read_hidden() -> Option<String> {
    let line = set_echo("-echo").then(read)?;
    set_echo("echo");
    eprintln!();
    line
}

/// Switches the echo of the terminal on or off.
fn set_echo(how: &str) -> bool {
    // The child inherits our standard input, the terminal.
    Command::new("stty").arg(how).status().is_ok_and(|status| status.success())
}
