//! JSON Schemas of test files, for editors and other programs.

use std::io::{self, Write as _};

use marquetry_judge::case_file::CaseFile;

use crate::{Failed, arguments::SchemaKind};

/// Prints a schema on standard output.
pub(crate) fn print(kind: SchemaKind) -> Result<(), Failed> {
    io::stdout().write_all(text(kind).as_bytes()).map_err(Failed::error)
}

fn text(kind: SchemaKind) -> String {
    match kind {
        SchemaKind::Cases => format!("{:#}\n", CaseFile::schema()),
        SchemaKind::Scenarios => marquetry_scenarios::schema(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn schemas_are_the_files_of_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (kind, file) in [
            (SchemaKind::Cases, "crates/judge/case-file.schema.json"),
            (SchemaKind::Scenarios, "tests/scenarios/scenario.schema.json"),
        ] {
            assert_eq!(text(kind), fs::read_to_string(root.join(file)).unwrap(), "{kind:?}");
        }
    }
}
