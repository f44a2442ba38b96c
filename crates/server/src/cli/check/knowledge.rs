//! Knowledge in the report of `marquetry check`.

use marquetry_knowledge::{DatabaseLocation, Knowledge};
use serde_json::{Value, json};

use marquetry_config::{
    Config,
    sections::{ChatConfig, EmbeddingConfig, EmbeddingProvider},
};

use super::without_secrets;

/// Returns a warning if users have tokens, and the documents in the database's file are for the
/// local user alone. A search does not tell users what they may not read.
pub(super) fn sharing_warning(config: &Config) -> Option<String> {
    if !config.auth.is_set() || !config.has_knowledge() {
        return None;
    }
    let options = config.knowledge_options();
    if !matches!(&options.database, Ok(DatabaseLocation::File(path)) if path.exists()) {
        return None;
    }
    let runtime = tokio::runtime::Runtime::new().ok()?;
    let count = runtime.block_on(async {
        let knowledge = Knowledge::open_records(&options).await.ok()?;
        knowledge.unshared_documents().await.ok()?
    })?;
    let documents =
        if count == 1 { "its document".to_owned() } else { format!("its {count} documents") };
    Some(format!(
        "knowledge: no user with a token can find {documents}, which belong to user local; share \
         them with `marquetry index --reader NAME PATH`, where NAME is everyone, a user or a group"
    ))
}

/// Describes where records and passages are stored and which models are used. Opens nothing.
pub(super) fn summary(config: &Config) -> String {
    if !config.knowledge.enabled {
        return "knowledge  none\n".to_owned();
    }
    let database = match config.knowledge_database() {
        Ok(DatabaseLocation::Memory) => "in memory".to_owned(),
        Ok(DatabaseLocation::File(path)) if path.exists() => path.display().to_string(),
        Ok(DatabaseLocation::File(path)) => format!("{}, does not exist yet", path.display()),
        Ok(DatabaseLocation::Postgres(url)) => without_secrets(&url),
        Err(problem) => format!("none: {problem}"),
    };
    format!(
        "knowledge  {database}\n  vectors  {}\n  chat     {}\n",
        embedding(&config.knowledge.embedding),
        chat(&config.knowledge.chat)
    )
}

/// Returns the members of [`summary`], without secrets.
pub(super) fn as_json(config: &Config) -> Value {
    let database = match config.knowledge_database() {
        Ok(DatabaseLocation::File(path)) => Some(path.display().to_string()),
        Ok(DatabaseLocation::Postgres(url)) => Some(without_secrets(&url)),
        Ok(DatabaseLocation::Memory) | Err(_) => None,
    };
    json!({
        "database": database.filter(|_| config.knowledge.enabled),
        "vectors": embedding(&config.knowledge.embedding),
        "chat": config.knowledge.chat.provider.map(|_| chat(&config.knowledge.chat)),
    })
}

fn embedding(config: &EmbeddingConfig) -> String {
    let provider = match config.provider {
        EmbeddingProvider::BuiltIn => return "built-in model".to_owned(),
        EmbeddingProvider::Transformer => {
            let folder = config.folder.as_deref().unwrap_or_else(|| "".as_ref());
            return format!("sentence transformer in {}", folder.display());
        }
        EmbeddingProvider::OpenAi => "openai",
        EmbeddingProvider::Ollama => "ollama",
        // The enum is `non_exhaustive`.
        _ => "another provider",
    };
    remote_model(provider, config.model.as_deref(), config.base_url.as_deref())
}

fn chat(config: &ChatConfig) -> String {
    let Some(provider) = config.provider else { return "none".to_owned() };
    let provider = format!("{provider:?}").to_lowercase();
    remote_model(&provider, config.model.as_deref(), config.base_url.as_deref())
}

fn remote_model(provider: &str, model: Option<&str>, base_url: Option<&str>) -> String {
    let model = model.unwrap_or_default();
    match base_url {
        Some(url) => format!("{model} of {provider} at {}", without_secrets(url)),
        None => format!("{model} of {provider}"),
    }
}
