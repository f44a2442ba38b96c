//! `index`, `search` and `records` of a program that is built without search.

use std::ffi::OsString;

use clap::Args;

use marquetry_config::NOT_BUILT;

use super::Failure;

/// Any arguments.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(super) struct AnyArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

pub(super) fn refused() -> Failure {
    Failure { code: 2, message: NOT_BUILT.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use clap::Parser as _;

    use crate::cli::{Cli, Command, run};

    #[test]
    fn commands_of_search_are_understood_and_refused() {
        for line in ["search bread -n 3", "index --watch a b", "records list --json"] {
            let arguments = || ["marquetry"].into_iter().chain(line.split(' '));
            let command = Cli::try_parse_from(arguments()).ok().unwrap().command;
            assert!(
                matches!(command, Command::Index(_) | Command::Search(_) | Command::Records(_)),
                "{line}"
            );
            let code = run(arguments().map(Into::into));
            assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(2)), "{line}");
        }
    }
}
