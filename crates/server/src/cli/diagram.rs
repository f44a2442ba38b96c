//! `marquetry encode` and `marquetry decode`

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use marquetry_plantuml::{Server, Source};
use marquetry_plantuml_tools::{DecodeArguments, Diagrams, EncodeArguments};
use marquetry_printable::printable_diagram;
use marquetry_program_log as program_log;

use super::{DecodeArgs, EncodeArgs, Failure, print};

pub(super) fn encode(arguments: &EncodeArgs) -> Result<(), Failure> {
    let server = match &arguments.url_base {
        Some(base) => Server::new(base)
            .map_err(|error| Failure { code: 2, message: format!("--url-base: {error}") })?,
        None => Server::default(),
    };
    let (name, plantuml_code) = read(&arguments.file)?;
    Source::new(&plantuml_code).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let options =
        EncodeArguments { plantuml_code, format: arguments.format, verbatim: arguments.verbatim };
    let diagram = Diagrams::new(server).encode(&options).map_err(Failure::new)?;
    if let Some(warning) = diagram.warning {
        program_log::warn(&warning);
    }
    print(&format!("{}\n", diagram.url))
}

pub(super) fn decode(arguments: &DecodeArgs) -> Result<(), Failure> {
    let arguments = DecodeArguments { code: arguments.code.clone() };
    let diagram = Diagrams::new(Server::default()).decode(&arguments).map_err(Failure::new)?;
    print(&format!("{}\n", printable_diagram(&diagram.plantuml_code)))
}

/// Reads a file; returns its name for messages and its text.
fn read(file: &Path) -> Result<(String, String), Failure> {
    /// Maximum number of bytes that are read: one byte over the limit shows that a diagram is too
    /// large.
    const MAX_READ: u64 = Source::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let is_stdin = file == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { file.display().to_string() };
    let outcome = if is_stdin {
        io::stdin().lock().take(MAX_READ).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(MAX_READ).read_to_end(&mut bytes))
    };
    outcome.map_err(|error| {
        // The argument may be a diagram instead of a file; names of files seldom have blanks.
        let is_diagram = error.kind() == io::ErrorKind::NotFound && name.contains([' ', '\n']);
        let hint = if is_diagram {
            "; the argument must be the name of a file: to encode text, pipe it, as in `echo 'A -> B' | marquetry encode`"
        } else {
            ""
        };
        Failure::new(format!("failed to read {name}: {error}{hint}"))
    })?;
    if bytes.len() > Source::MAX_BYTES {
        let problem = format!("{name}: diagram is larger than {} bytes", Source::MAX_BYTES);
        return Err(Failure::new(problem));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name, text)),
        Err(_) => Err(Failure::new(format!("{name} is not UTF-8 text"))),
    }
}
