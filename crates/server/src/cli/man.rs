//! `marquetry man`

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use marquetry_atomic_file::{Readers, replace};

use super::{Cli, Failure};

#[derive(Args)]
pub(super) struct ManArgs {
    /// Folder for marquetry.1 and a page for each command. It is created if it is missing.
    folder: PathBuf,
}

/// Writes the man pages, as a release packages them.
pub(super) fn man(arguments: &ManArgs) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(folder).and_then(|()| write_pages(&command, folder)).map_err(|error| {
        Failure::new(format!("failed to write man pages to {}: {error}", folder.display()))
    })
}

/// Writes the page of a command and those of its subcommands. `clap_mangen` would write them
/// through links.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write_pages(subcommand, folder)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    replace(&folder.join(page.get_filename()), &text, Readers::Everyone)
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
        #[cfg(unix)]
        {
            let page = folder.join("marquetry.1");
            fs::rename(&page, folder.join("other")).unwrap();
            std::os::unix::fs::symlink("other", &page).unwrap();
            let failed = man(&ManArgs { folder: folder.clone() }).unwrap_err();
            assert!(failed.message.contains("is a link"), "{}", failed.message);
        }
        for name in ["marquetry-guard", "marquetry-scenario-upstream"] {
            assert!(!folder.join(format!("{name}.1")).exists(), "{name}");
        }
    }
}
