//! Where knowledge is kept.

use std::{
    ffi::OsString,
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use marquetry_context_blocks::Am7Uri;
use marquetry_rag::ChunkOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{ChatConfig, EmbeddingConfig};

/// Searchable documents and other records: the tools `am7_*` and the resources `am7://…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct KnowledgeConfig {
    /// Whether knowledge is available. If not, no tool `am7_*` is listed and no database is opened.
    pub enabled: bool,
    /// Database: a file, which is created when the first record is stored, or `postgres://USER:PASSWORD@HOST/DATABASE`. PostgreSQL must be 15 or
    /// newer with pgvector 0.8 or newer; another machine is reached by TLS (`?sslrootcert=FILE` replaces Mozilla's roots). Without it,
    /// `marquetry/knowledge.db` below `$XDG_DATA_HOME` or `~/.local/share`.
    #[schemars(example = &"knowledge.db")]
    pub database: Option<String>,
    /// Organization: the first part of the URIs of records. Agents work in this one only.
    #[serde(deserialize_with = "organization")]
    pub organization: String,
    /// Largest content of one record, in bytes.
    pub max_content_bytes: NonZeroU64,
    /// Time that a tool may take to read and cut one document, in milliseconds. It may wait as long again for other work to end.
    pub max_work_ms: NonZeroU64,
    /// Time that embedding all passages of one document may take, in milliseconds.
    pub max_embed_ms: NonZeroU64,
    /// Longest passage, in bytes of its text. Longer ones are cut between words.
    pub max_passage_bytes: NonZeroUsize,
    /// Model that computes the vectors of texts. A database belongs to the model that filled it.
    pub embedding: EmbeddingConfig,
    /// Chat model behind `am7_chat` and `/mcp/v1/sampling/createMessage`: an `olio.llm.chatConfig` record may name another model of the
    /// same provider, its temperature and its prompts. Without `provider` and `model` there is no chat.
    pub chat: ChatConfig,
}

impl Default for KnowledgeConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            database: None,
            organization: "default".to_owned(),
            max_content_bytes: NonZeroU64::new(64 << 20).expect("it is not zero"),
            max_work_ms: NonZeroU64::new(60_000).expect("it is not zero"),
            max_embed_ms: NonZeroU64::new(600_000).expect("it is not zero"),
            max_passage_bytes: ChunkOptions::default().max_bytes,
            embedding: EmbeddingConfig::default(),
            chat: ChatConfig::default(),
        }
    }
}

/// Where knowledge is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnowledgePlace {
    /// In a file.
    File(PathBuf),
    /// In a PostgreSQL database with this URL.
    Postgres(String),
}

impl KnowledgeConfig {
    /// Where it is kept.
    ///
    /// # Errors
    ///
    /// Nothing says where: neither the configuration nor the environment.
    pub(crate) fn place(&self) -> Result<KnowledgePlace, String> {
        self.place_with(&|name| std::env::var_os(name))
    }

    fn place_with(
        &self,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<KnowledgePlace, String> {
        if let Some(database) = &self.database {
            let is_server =
                ["postgres://", "postgresql://"].iter().any(|scheme| database.starts_with(scheme));
            if is_server {
                return Ok(KnowledgePlace::Postgres(database.clone()));
            }
            if database.is_empty() {
                return Err("the name of the database is empty".to_owned());
            }
            if let Some(scheme) = scheme(database) {
                return Err(format!(
                    "no database is reached by {scheme:?}: give a path, if need be one that begins with ./, or a postgres:// URL"
                ));
            }
            return Ok(KnowledgePlace::File(database.into()));
        }
        // A relative path in these variables does not count (XDG Base Directory Specification).
        let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = folder("XDG_DATA_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".local/share")))
            .ok_or("it is not set, and neither $XDG_DATA_HOME nor $HOME says where it is to be")?;
        Ok(KnowledgePlace::File(data.join("marquetry/knowledge.db")))
    }
}

/// What text begins with if it is written as a URI (RFC 3986, section 3.1). One letter is a drive.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one));
    is_scheme.then_some(scheme)
}

fn organization<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    // A URI could hold them, written otherwise than they are here; nobody would find what they mean.
    if name.contains(|one: char| one == '/' || one.is_whitespace() || one.is_control()) {
        return Err(D::Error::custom(format!("{name:?} holds a slash or white space")));
    }
    let uri = Am7Uri::builder().organization(&name).object_type("data.data").id("id").build();
    uri.map(|_| name.clone()).map_err(|error| {
        D::Error::custom(format!("{name:?} cannot be the first part of a URI: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_or_a_server() {
        let place = |database: Option<&str>, variables: &[(&str, &str)]| {
            let config =
                KnowledgeConfig { database: database.map(str::to_owned), ..Default::default() };
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            config.place_with(&variable)
        };
        let file = |path: &str| Ok(KnowledgePlace::File(path.into()));
        assert_eq!(place(Some("k.db"), &[]), file("k.db"));
        assert_eq!(place(Some("./sqlite:k.db"), &[]), file("./sqlite:k.db"));
        assert_eq!(place(Some("C:k.db"), &[]), file("C:k.db"));
        assert_eq!(place(Some(""), &[]).unwrap_err(), "the name of the database is empty");
        for database in ["sqlite:k.db", "file:k.db?mode=memory", "mysql+x://me:secret@host/k"] {
            let error = place(Some(database), &[]).unwrap_err();
            let scheme = &database[..database.find(':').unwrap()];
            assert!(
                error.starts_with(&format!("no database is reached by {scheme:?}: ")),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
        let server = "postgres://me@127.0.0.1/k";
        assert_eq!(place(Some(server), &[]), Ok(KnowledgePlace::Postgres(server.to_owned())));
        let home = ("HOME", "/home/a");
        assert_eq!(
            place(None, &[("XDG_DATA_HOME", "/data"), home]),
            file("/data/marquetry/knowledge.db")
        );
        for unset in ["", "data"] {
            assert_eq!(
                place(None, &[("XDG_DATA_HOME", unset), home]),
                file("/home/a/.local/share/marquetry/knowledge.db")
            );
        }
        assert!(place(None, &[]).is_err());
    }

    #[test]
    fn an_organization_can_stand_in_a_uri() {
        let read = |name: &str| {
            toml::from_str::<KnowledgeConfig>(&format!("organization = '{name}'")).map(|_| ())
        };
        read("acme").unwrap();
        for bad in ["", "..", "a b/../c", "a b/c", "a b", "a/media", "<x>"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
