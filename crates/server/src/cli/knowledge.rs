//! Shared by `index`, `search` and `records`: the database, the output format, and conversions of errors.

use std::{
    io::{self, Read as _},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use marquetry_knowledge::{ErrorCode, Knowledge, KnowledgeError, Place};
use marquetry_rag::{
    IndexError, PipelineError, RecordError, RecordStoreError, SearchRequest, StoreError,
};

use super::{Failure, print};
use crate::{
    config::{self, Config, ConfigError},
    logging,
};

#[derive(Args)]
pub(super) struct KnowledgeArgs {
    /// Settings in TOML; this command uses [knowledge] only. Without it: $MARQUETRY_CONFIG,
    /// ~/.config/marquetry/marquetry.toml, /etc/marquetry/marquetry.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Database: a file, or the URL of a PostgreSQL database.
    #[arg(long, value_name = "FILE|URL")]
    database: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct OutputArgs {
    /// Output for people or for programs.
    #[arg(long, default_value = "text")]
    format: OutputFormat,
    /// Same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Text,
    Json,
}

impl KnowledgeArgs {
    /// Returns whether the output is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.output.json || self.output.format == OutputFormat::Json
    }

    pub(super) fn load(&self) -> Result<Config, ConfigError> {
        let config::Loaded { mut config, warnings, .. } = config::load(self.config.as_deref())?;
        warnings.iter().for_each(|warning| logging::warn(warning));
        if let Some(database) = &self.database {
            config.knowledge.database = Some(database.clone());
        }
        Ok(config.with_user_folders())
    }

    /// Opens an existing database for reading, runs `work`, and closes it. The file may be read-only.
    pub(super) async fn to_read(
        &self,
        work: impl AsyncFnOnce(&Knowledge) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let knowledge = Knowledge::open_to_read(&self.load_existing()?.knowledge_options()).await?;
        let done = work(&knowledge).await;
        knowledge.close().await;
        done
    }

    /// Opens the records of an existing database for reading. No embedding model is loaded.
    pub(super) async fn to_read_records(
        &self,
        work: impl AsyncFnOnce(&Knowledge) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let knowledge = Knowledge::open_records(&self.load_existing()?.knowledge_options()).await?;
        work(&knowledge).await
    }

    /// Opens an existing database, runs `work`, and closes it.
    pub(super) async fn with(
        &self,
        work: impl AsyncFnOnce(&Knowledge) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let knowledge = Knowledge::open(&self.load_existing()?.knowledge_options()).await?;
        let done = work(&knowledge).await;
        knowledge.close().await;
        done
    }

    /// Loads the configuration. Fails if its database does not exist.
    fn load_existing(&self) -> Result<Config, Failure> {
        let config = self.load()?;
        let place = config
            .knowledge_place()
            .map_err(|problem| Failure::new(format!("knowledge.database: {problem}")))?;
        if let Place::File(path) = place
            && !path.try_exists().map_err(|error| {
                Failure::new(format!("the database {} cannot be read: {error}", path.display()))
            })?
        {
            let path = path.display();
            let advice = "`marquetry index PATH…` creates it from your files";
            return Err(Failure::new(format!("the database {path} does not exist yet; {advice}")));
        }
        Ok(config)
    }
}

/// Prints JSON for programs, one value on each line.
pub(super) fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Returns the question on the command line; `-` reads standard input.
pub(super) fn question(words: &[String]) -> Result<String, Failure> {
    /// Most bytes that are read: one byte over the limit shows that a question is too long.
    const MOST: u64 = SearchRequest::MAX_TEXT_BYTES as u64 + 1;
    let question = if matches!(words, [word] if word == "-") {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(MOST).read_to_end(&mut bytes);
        read.map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
        if bytes.len() > SearchRequest::MAX_TEXT_BYTES {
            // A text that ends within a character exceeds the limit in any case.
            String::from_utf8_lossy(&bytes).into_owned()
        } else {
            String::from_utf8(bytes).map_err(|_| Failure {
                code: 2,
                message: "the question on standard input is not UTF-8 text".to_owned(),
            })?
        }
    } else {
        words.join(" ")
    };
    if question.len() > SearchRequest::MAX_TEXT_BYTES {
        let most = SearchRequest::MAX_TEXT_BYTES;
        let message = format!("the question has more than {most} bytes, the maximum");
        return Err(Failure { code: 2, message });
    }
    if question.trim().is_empty() {
        return Err(Failure { code: 2, message: "the question is empty".to_owned() });
    }
    Ok(question)
}

impl From<marquetry_knowledge::Failure> for Failure {
    /// Errors that do not depend on the database are errors of the command line.
    fn from(failure: marquetry_knowledge::Failure) -> Self {
        let is_at_fault =
            matches!(failure.code, ErrorCode::InvalidParams | ErrorCode::LimitExceeded);
        Self { code: if is_at_fault { 2 } else { 1 }, message: failure.message }
    }
}

impl From<KnowledgeError> for Failure {
    fn from(error: KnowledgeError) -> Self {
        Self::new(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(error)
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        Self::new(error)
    }
}

impl From<RecordStoreError> for Failure {
    fn from(error: RecordStoreError) -> Self {
        Self::new(error)
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Records(error) => error.into(),
            error => Self::new(error),
        }
    }
}

impl From<RecordError> for Failure {
    /// Errors that do not depend on the database are errors of the command line.
    fn from(error: RecordError) -> Self {
        let at_fault = matches!(
            error,
            RecordError::UnknownType { .. }
                | RecordError::Uri { .. }
                | RecordError::Invalid { .. }
                | RecordError::Limit { .. }
        );
        Self { code: if at_fault { 2 } else { 1 }, message: error.to_string() }
    }
}
