//! The database of a command, and the format of its output.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use marquetry_knowledge::{DatabaseLocation, Knowledge, KnowledgeOptions};

use crate::LibraryCommandError;

/// Reads the settings for a command. Their database is the one that [`DatabaseArgs::database`]
/// returns, or the program's default.
pub type Settings<'a> =
    &'a (dyn Fn(&DatabaseArgs) -> Result<KnowledgeOptions, LibraryCommandError> + Sync);

/// Arguments of all commands.
#[derive(Args, Clone, Debug)]
pub struct DatabaseArgs {
    /// File of settings in TOML, of which this command uses [knowledge]. Defaults to the first of
    /// $MARQUETRY_CONFIG, ~/.config/marquetry/marquetry.toml, /etc/marquetry/marquetry.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Database: a file, or the URL of a PostgreSQL database.
    #[arg(long, value_name = "FILE|URL")]
    database: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args, Clone, Debug)]
struct OutputArgs {
    /// Output for people or for programs.
    #[arg(long, default_value = "text")]
    format: OutputFormat,
    /// Same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Text,
    Json,
}

impl DatabaseArgs {
    /// Returns the file of settings, if the command line names one.
    #[must_use]
    pub fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Returns the file or URL of the database, if the command line names one.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.output.json || self.output.format == OutputFormat::Json
    }

    /// Opens an existing database for reading, runs `work`, and closes it. The file may be
    /// read-only.
    pub(crate) async fn read(
        &self,
        settings: Settings<'_>,
        work: impl AsyncFnOnce(&Knowledge) -> Result<(), LibraryCommandError>,
    ) -> Result<(), LibraryCommandError> {
        let knowledge = Knowledge::open_to_read(&self.existing(settings)?).await?;
        let done = work(&knowledge).await;
        knowledge.close().await;
        done
    }

    /// Opens the records of an existing database for reading. No embedding model is loaded.
    pub(crate) async fn read_records(
        &self,
        settings: Settings<'_>,
        work: impl AsyncFnOnce(&Knowledge) -> Result<(), LibraryCommandError>,
    ) -> Result<(), LibraryCommandError> {
        let knowledge = Knowledge::open_records(&self.existing(settings)?).await?;
        work(&knowledge).await
    }

    /// Opens an existing database, runs `work`, and closes it.
    pub(crate) async fn modify(
        &self,
        settings: Settings<'_>,
        work: impl AsyncFnOnce(&Knowledge) -> Result<(), LibraryCommandError>,
    ) -> Result<(), LibraryCommandError> {
        let knowledge = Knowledge::open(&self.existing(settings)?).await?;
        let done = work(&knowledge).await;
        knowledge.close().await;
        done
    }

    /// Reads the settings. Fails if their database does not exist.
    fn existing(&self, settings: Settings<'_>) -> Result<KnowledgeOptions, LibraryCommandError> {
        let options = settings(self)?;
        if let DatabaseLocation::File(path) = options.location()?
            && !path.try_exists().map_err(|error| {
                LibraryCommandError::new(format!(
                    "failed to read the database {}: {error}",
                    path.display()
                ))
            })?
        {
            let path = path.display();
            let advice = "`marquetry index PATH…` creates it from your files";
            return Err(LibraryCommandError::new(format!(
                "the database {path} does not exist yet; {advice}"
            )));
        }
        Ok(options)
    }
}
