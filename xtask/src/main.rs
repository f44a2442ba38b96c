//! What a person runs to work on Marquetry: `cargo xtask --help`.

mod scenario;

fn main() {}
