//! Knowledge in the report of `marquetry check`.

use marquetry_knowledge::DatabaseLocation;
use serde_json::{Value, json};

use marquetry_config::{
    Config,
    sections::{ChatConfig, EmbeddingConfig, EmbeddingProvider},
};

use super::without_secrets;

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
