//! `marquetry encode` and `marquetry decode`

use std::{fs, io::Read as _, path::Path};

use marquetry_plantuml::{Server, Source};

use super::{DecodeArgs, EncodeArgs, Failure, print};
use crate::tools::{DecodeArguments, Diagrams, EncodeArguments};

pub(super) fn encode(arguments: &EncodeArgs) -> Result<(), Failure> {
    let server = match &arguments.url_base {
        Some(base) => {
            let at_fault = |error| Failure { code: 2, message: format!("--url-base: {error}") };
            Server::new(base).map_err(at_fault)?
        }
        None => Server::default(),
    };
    let (name, plantuml_code) = read(&arguments.file)?;
    Source::new(&plantuml_code).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let options =
        EncodeArguments { plantuml_code, format: arguments.format, verbatim: arguments.verbatim };
    let diagram = Diagrams::new(server).encode(&options).map_err(Failure::new)?;
    if let Some(warning) = diagram.warning {
        eprintln!("warning: {warning}");
    }
    print(&format!("{}\n", diagram.url))
}

pub(super) fn decode(arguments: &DecodeArgs) -> Result<(), Failure> {
    let arguments = DecodeArguments { code: arguments.code.clone() };
    let diagram = Diagrams::new(Server::default()).decode(&arguments).map_err(Failure::new)?;
    print(&format!("{}\n", diagram.plantuml_code))
}

/// A file's name for messages, and its text.
fn read(file: &Path) -> Result<(String, String), Failure> {
    let (name, bytes) = if file == Path::new("-") {
        let mut bytes = Vec::new();
        (
            "standard input".to_owned(),
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        )
    } else {
        (file.display().to_string(), fs::read(file))
    };
    let bytes = bytes.map_err(|error| Failure::new(format!("{name} cannot be read: {error}")))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(_) => Err(Failure::new(format!("{name} is not UTF-8 text"))),
    }
}
