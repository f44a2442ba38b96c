//! `marquetry completions`

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, Failure, print};

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// Shell that will run the script.
    shell: Shell,
}

pub(super) fn completions(arguments: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut shown(), "marquetry", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Returns the command line without hidden commands, which the scripts would offer.
fn shown() -> Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("marquetry").version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}
