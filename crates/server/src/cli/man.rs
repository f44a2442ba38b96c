//! `marquetry man`

use std::{fs, path::PathBuf};

use clap::{Args, CommandFactory as _};

use super::{Cli, Failure};

#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder for marquetry.1 and a page for each command. It is created if it is missing.
    folder: PathBuf,
}

/// Writes the man pages, as a release packages them.
pub(super) fn man(arguments: &ManArgs) -> Result<(), Failure> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| {
            Failure::new(format!("failed to write man pages to {}: {error}", folder.display()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_a_hidden_one_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("man");
        man(&ManArgs { folder: folder.clone() }).unwrap_or_else(|e| panic!("{}", e.message));
        for name in ["marquetry", "marquetry-serve", "marquetry-man", "marquetry-records-list"] {
            let page = fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
            assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{name}: {page}");
        }
        for name in ["marquetry-guard", "marquetry-scenario-upstream"] {
            assert!(!folder.join(format!("{name}.1")).exists(), "{name}");
        }
    }
}
