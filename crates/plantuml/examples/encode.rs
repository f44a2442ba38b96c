//! cargo run -p marquetry-plantuml --example encode -- diagram.puml
//!
//! Prints the URL of a diagram in a file or from standard input: `echo 'A -> B' | cargo run …`.

use std::{env, error::Error, fs, io};

use marquetry_plantuml::{EncodeOptions, Format, Server, Source, encode};

fn main() -> Result<(), Box<dyn Error>> {
    let text = match env::args_os().nth(1) {
        Some(path) => fs::read_to_string(path)?,
        None => io::read_to_string(io::stdin())?,
    };
    let code = encode(Source::new(&text)?, &EncodeOptions::default());
    let url = Server::default().url(&code, Format::Svg);
    if let Some(warning) = url.warning() {
        eprintln!("warning: {warning}");
    }
    println!("{url}");
    Ok(())
}
