//! Settings for configuration files. Programs can also set the fields directly.

mod chat;
mod embedding;

use std::{
    collections::BTreeMap,
    num::{NonZeroU64, NonZeroUsize},
};

use marquetry_context_blocks::Am7Uri;
use marquetry_rag::ChunkOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

pub(crate) use self::embedding::EmbeddingChoice;
pub use self::{
    chat::{ChatConfig, LegacyTokens},
    embedding::{EmbeddingConfig, EmbeddingProvider},
};

/// Looks up the values of environment variables that settings name, such as `api_key_env`.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
#[non_exhaustive]
pub struct InvalidSetting {
    /// The key in its section.
    pub key: &'static str,
    /// The problem, and what to do.
    pub problem: String,
}

impl InvalidSetting {
    fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into() }
    }
}

/// Searchable documents and other records: the tools `am7_*` and the resources `am7://…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct KnowledgeConfig {
    /// Whether knowledge is available. If not, no tool `am7_*` is listed and no database is opened.
    pub enabled: bool,
    /// Database: a file, which is created when the first record is stored, or
    /// `postgres://USER:PASSWORD@HOST/DATABASE`. PostgreSQL must be 15 or newer with pgvector 0.8
    /// or newer; another machine is reached by TLS (`?sslrootcert=FILE` replaces Mozilla's roots).
    /// Without it, `marquetry/knowledge.db` below `$XDG_DATA_HOME` or `~/.local/share`.
    #[schemars(example = &"knowledge.db")]
    pub database: Option<String>,
    /// Organization: the first part of the URIs of records. Agents can use only records of this
    /// organization.
    #[serde(deserialize_with = "organization")]
    pub organization: String,
    /// Users and groups that may read the documents of `marquetry index`, unless `--reader` names
    /// others: "everyone", or names of users and groups.
    #[schemars(example = ["everyone"])]
    pub readers: Vec<String>,
    /// Largest content of one record, in bytes.
    pub max_content_bytes: NonZeroU64,
    /// Largest total size of the records of one user, in bytes: their contents and their fields.
    /// Administrators and the user of this machine may store more.
    pub max_owner_bytes: NonZeroU64,
    /// Memory that documents may take while they are read, cut and embedded, in bytes: about six
    /// times their size after unpacking, and 1.5 KiB for each passage. Further documents wait,
    /// fairly between users. A larger document is in work while its user has no other.
    pub max_unpacked_bytes_at_once: NonZeroU64,
    /// Time that a tool may take to read and cut one document, in milliseconds. It may wait as long
    /// again for other work to end.
    pub max_work_ms: NonZeroU64,
    /// Time that embedding all passages of one document may take, in milliseconds.
    pub max_embed_ms: NonZeroU64,
    /// Longest passage, in bytes of its text. Longer ones are cut between words.
    pub max_passage_bytes: NonZeroUsize,
    /// Largest number of passages of all documents of a user with a token. Each takes about 600
    /// bytes of the server's memory, except in PostgreSQL. `marquetry index` has no limit.
    pub max_passages_per_user: NonZeroU64,
    /// Model that computes the vectors of texts. A database belongs to the model that filled it.
    pub embedding: EmbeddingConfig,
    /// Further embedding models by name, with the settings of `embedding`. `am7_embed` makes
    /// vectors with them.
    #[serde(deserialize_with = "named_models", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = serde_json::json!({"nomic": {"model": "nomic-embed-text", "provider": "ollama"}}))]
    pub embeddings: BTreeMap<String, EmbeddingConfig>,
    /// Chat model behind `am7_chat` and `/mcp/v1/sampling/createMessage`: an `olio.llm.chatConfig`
    /// record may name another model of the same provider, its temperature and its prompts. Without
    /// `provider` and `model` there is no chat.
    pub chat: ChatConfig,
}

impl Default for KnowledgeConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            database: None,
            organization: "default".to_owned(),
            readers: Vec::new(),
            max_content_bytes: NonZeroU64::new(64 << 20).expect("it is not zero"),
            max_owner_bytes: NonZeroU64::new(512 << 20).expect("it is not zero"),
            max_unpacked_bytes_at_once: NonZeroU64::new(512 << 20).expect("it is not zero"),
            max_work_ms: NonZeroU64::new(60_000).expect("it is not zero"),
            max_embed_ms: NonZeroU64::new(600_000).expect("it is not zero"),
            max_passage_bytes: ChunkOptions::default().max_bytes,
            max_passages_per_user: NonZeroU64::new(100_000).expect("it is not zero"),
            embedding: EmbeddingConfig::default(),
            embeddings: BTreeMap::new(),
            chat: ChatConfig::default(),
        }
    }
}

fn organization<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    // A URI would encode these characters.
    if name.contains(|one: char| one == '/' || one.is_whitespace() || one.is_control()) {
        return Err(D::Error::custom(format!("{name:?} holds a slash or white space")));
    }
    let uri = Am7Uri::builder().organization(&name).object_type("data.data").id("id").build();
    uri.map(|_| name.clone()).map_err(|error| {
        D::Error::custom(format!("{name:?} cannot be the first part of a URI: {error}"))
    })
}

/// Returns a default, which is more than zero.
pub(crate) fn non_zero(default: usize) -> NonZeroUsize {
    NonZeroUsize::new(default).expect("every default is more than zero")
}

/// Maximum length of the name of a model, in bytes.
const MAX_MODEL_NAME: usize = 64;

fn is_model_name(name: &str) -> bool {
    (1..=MAX_MODEL_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn named_models<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, EmbeddingConfig>, D::Error> {
    let models = BTreeMap::<String, EmbeddingConfig>::deserialize(deserializer)?;
    match models.keys().find(|name| !is_model_name(name)) {
        Some(name) => Err(D::Error::custom(format!(
            "{name:?} is not a name of a model: use at most {MAX_MODEL_NAME} letters, digits, hyphens, underscores and dots"
        ))),
        None => Ok(models),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_model(name: &str) -> Result<KnowledgeConfig, toml::de::Error> {
        toml::from_str(&format!("[embeddings.{name:?}]\nprovider = 'ollama'\nmodel = 'm'"))
    }

    fn with_organization(name: &str) -> Result<KnowledgeConfig, toml::de::Error> {
        toml::from_str(&format!("organization = '{name}'"))
    }

    #[test]
    fn further_models_have_names() {
        let config = with_model("nomic-1.5").unwrap();
        assert_eq!(config.embeddings["nomic-1.5"].model.as_deref(), Some("m"));
        for bad in ["", "a b", "a/b", "ä", &"x".repeat(65)] {
            let error = with_model(bad).unwrap_err().to_string();
            assert!(error.contains("is not a name of a model"), "{error}");
        }
    }

    #[test]
    fn an_organization_can_stand_in_a_uri() {
        with_organization("acme").unwrap();
        for bad in ["", "..", "a b/../c", "a b/c", "a b", "a/media", "<x>"] {
            assert!(with_organization(bad).is_err(), "{bad}");
        }
    }
}
