//! The `marquetry` command; everything it does is in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    marquetry::cli::run(std::env::args_os())
}
