//! The `marquetry` command; everything it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    marquetry::cli::run(std::env::args_os())
}
