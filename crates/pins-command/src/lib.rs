#![doc = include_str!("../README.md")]

mod difference;
mod lines;
mod report;
mod terminal;
mod visible;
mod words;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use marquetry_pins::{AcceptedPin, PinError, PinFile, PinnedItem, accept, forget};

use crate::{
    report::{difference_of, list, list_as_json, shown_name},
    terminal::{StandardTerminal, Terminal},
    visible::visible_line,
};

/// Arguments of `marquetry pins`.
#[derive(Args)]
pub struct PinsArgs {
    #[command(subcommand)]
    command: PinsCommand,
    /// File of settings in TOML, which names the file of pins.
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The file of pins; by default `gateway.pins_file`.
    #[arg(long, value_name = "FILE", global = true)]
    pins_file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum PinsCommand {
    /// List what is pinned, and what waits to be accepted.
    #[command(after_help = "\
Examples:
  marquetry pins list
  marquetry pins list github --json")]
    List {
        /// Only those of this server, or this tool or prompt.
        #[arg(value_name = "SERVER[/NAME]")]
        name: Option<String>,
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Show how definitions differ from their pins.
    #[command(after_help = "\
Examples:
  marquetry pins diff
  marquetry pins diff github
  marquetry pins diff github/create_issue")]
    Diff {
        /// Only those of this server, or this tool or prompt; `SERVER/instructions` for its
        /// instructions.
        #[arg(value_name = "SERVER[/NAME]")]
        name: Option<String>,
    },
    /// Show how definitions differ from their pins, ask, and pin what was shown.
    ///
    /// Running servers take new pins within 2 seconds.
    #[command(after_help = "\
Examples:
  marquetry pins accept github
  marquetry pins accept github/create_issue --yes")]
    Accept {
        /// Only those of this server, or this tool or prompt.
        #[arg(value_name = "SERVER[/NAME]")]
        name: Option<String>,
        /// Accept without a question.
        #[arg(long)]
        yes: bool,
    },
    /// Remove the pins of a server, so that its next definitions are trusted.
    #[command(after_help = "\
Examples:
  marquetry pins forget github")]
    Forget {
        /// The server.
        server: String,
    },
}

/// Why the command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinsCommandError {
    /// The exit code.
    pub code: u8,
    /// The message, for people.
    pub message: String,
}

impl From<PinError> for PinsCommandError {
    fn from(error: PinError) -> Self {
        Self { code: 1, message: error.to_string() }
    }
}

/// Runs the command. `configured` returns the file of pins that a configuration names; its argument
/// is the configuration that the user named. Returns what was accepted.
///
/// # Errors
///
/// Returns an error if the file cannot be used, if nothing has the given name, or if a question
/// cannot be asked.
pub fn run(
    arguments: &PinsArgs,
    configured: impl FnOnce(Option<&Path>) -> Result<PathBuf, PinsCommandError>,
) -> Result<Vec<AcceptedPin>, PinsCommandError> {
    let path = match &arguments.pins_file {
        Some(path) => path.clone(),
        None => configured(arguments.config.as_deref())?,
    };
    run_on(&arguments.command, &path, &mut StandardTerminal)
}

fn run_on(
    command: &PinsCommand,
    path: &Path,
    terminal: &mut dyn Terminal,
) -> Result<Vec<AcceptedPin>, PinsCommandError> {
    match command {
        PinsCommand::List { name, json } => {
            let file = PinFile::read(path)?;
            let items = selected(&file, name.as_deref())?;
            terminal.print(&if *json { list_as_json(&items) } else { list(&items) });
        }
        PinsCommand::Diff { name } => {
            let file = PinFile::read(path)?;
            show_waiting(&file, name.as_deref(), terminal)?;
        }
        PinsCommand::Accept { name, yes } => {
            let file = PinFile::read(path)?;
            let waiting = show_waiting(&file, name.as_deref(), terminal)?;
            let accepted: Vec<_> = waiting.iter().filter_map(AcceptedPin::of).collect();
            if accepted.is_empty() || !(*yes || is_confirmed(&waiting, terminal)?) {
                return Ok(Vec::new());
            }
            accept(path, &accepted)?;
            terminal.print(&format!("Accepted {}.\n", count(accepted.len())));
            return Ok(accepted);
        }
        PinsCommand::Forget { server } => {
            forget(path, server)?;
            let server = visible_line(server);
            terminal.print(&format!("The next definitions of {server} are trusted.\n"));
        }
    }
    Ok(Vec::new())
}

/// Prints the differences of everything that waits and has this name, and returns it.
fn show_waiting<'a>(
    file: &'a PinFile,
    name: Option<&str>,
    terminal: &mut dyn Terminal,
) -> Result<Vec<PinnedItem<'a>>, PinsCommandError> {
    let items = selected(file, name)?;
    let waiting: Vec<_> = items.into_iter().filter(|item| item.waiting.is_some()).collect();
    if waiting.is_empty() {
        terminal.print("Everything that servers have sent is pinned.\n");
    }
    for item in &waiting {
        terminal.print(&difference_of(item));
    }
    Ok(waiting)
}

fn is_confirmed(
    waiting: &[PinnedItem<'_>],
    terminal: &mut dyn Terminal,
) -> Result<bool, PinsCommandError> {
    let question = match waiting {
        [one] => format!("Accept {}?", shown_name(one)),
        several => format!("Accept all {}?", count(several.len())),
    };
    terminal.ask(&question).ok_or_else(|| PinsCommandError {
        code: 2,
        message: "standard input is not a terminal, so nobody can be asked; add --yes to accept what was shown".to_owned(),
    })
}

/// Returns the items of a server, or with the name `SERVER/NAME`.
fn selected<'a>(
    file: &'a PinFile,
    name: Option<&str>,
) -> Result<Vec<PinnedItem<'a>>, PinsCommandError> {
    let Some(name) = name else { return Ok(file.items().collect()) };
    let items: Vec<_> = file
        .items()
        .filter(|item| {
            // A server's name may contain a slash.
            let rest = name.strip_prefix(item.server);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('/') == Some(name_in_selector(item))
            })
        })
        .collect();
    if items.is_empty() {
        let message =
            format!("nothing with the name {name:?} is pinned; see `marquetry pins list`");
        return Err(PinsCommandError { code: 1, message });
    }
    Ok(items)
}

fn name_in_selector<'a>(item: &PinnedItem<'a>) -> &'a str {
    if item.name.is_empty() { item.kind.name() } else { item.name }
}

fn count(definitions: usize) -> String {
    format!("{definitions} definition{}", if definitions == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
