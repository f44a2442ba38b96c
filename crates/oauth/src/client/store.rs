//! Stores of registrations and tokens.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use marquetry_atomic_file::{Readers, create_folder, replace};
use serde::{Deserialize, Serialize};

use crate::{Secret, url::same_url};

/// Stores a client's credentials for each server. They are secrets.
#[async_trait]
pub trait CredentialStore: Send + Sync + 'static {
    /// Loads the credentials for the server at that URL.
    ///
    /// # Errors
    /// Returns an error if they cannot be read. A server without credentials is not an error.
    async fn load(&self, server: &str) -> io::Result<Option<Credentials>>;

    /// Stores the credentials for a server, in place of older ones.
    ///
    /// # Errors
    /// Returns an error if they cannot be stored.
    async fn save(&self, server: &str, credentials: &Credentials) -> io::Result<()>;

    /// Deletes the credentials for a server.
    ///
    /// # Errors
    /// Returns an error if they cannot be deleted.
    async fn delete(&self, server: &str) -> io::Result<()>;
}

/// A client's credentials for one server. Only this crate reads them; stores keep them as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Credentials {
    /// Registrations by issuer. A registration is shown to its issuer alone.
    pub(super) registrations: BTreeMap<String, Registration>,
    /// The issuer to which a client id without an issuer was first shown.
    pub(super) first_issuer: Option<String>,
    pub(super) tokens: Option<Tokens>,
}

impl Credentials {
    /// Returns the registration at an issuer.
    pub(super) fn registration(&self, issuer: &str) -> Option<&Registration> {
        self.registrations.iter().find(|(known, _)| same_url(known, issuer)).map(|(_, it)| it)
    }

    /// Removes the registration at an issuer.
    pub(super) fn forget_registration(&mut self, issuer: &str) {
        self.registrations.retain(|known, _| !same_url(known, issuer));
    }
}

/// A registration at an authorization server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Registration {
    pub(super) client_id: String,
    pub(super) client_secret: Option<Secret>,
    pub(super) method: Method,
    /// The redirect URI that was registered.
    pub(super) redirect_uri: String,
    /// Time at which the secret expires, in seconds since 1970.
    pub(super) expires_at: Option<u64>,
}

/// The authentication of a client at the token endpoint (RFC 7591, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// The tokens of one login.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tokens {
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    /// The client id with which they were requested, and how the client authenticated itself.
    pub(super) client_id: String,
    pub(super) method: Method,
    /// The resource that they are for, as its metadata spells it.
    pub(super) resource: Option<String>,
    pub(super) access: Secret,
    /// Whether they are sent with a proof of possession instead of as a bearer token.
    pub(super) key: Option<Secret>,
    pub(super) refresh: Option<Secret>,
    /// Time at which the access token expires, in seconds since 1970.
    pub(super) expires_at: Option<u64>,
    /// The granted scopes; if the server names none, the requested ones.
    pub(super) scope: Option<String>,
}

impl Method {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// Stores credentials in memory, until the process ends.
#[derive(Default)]
pub struct MemoryStore {
    kept: Mutex<HashMap<String, Credentials>>,
}

#[async_trait]
impl CredentialStore for MemoryStore {
    async fn load(&self, server: &str) -> io::Result<Option<Credentials>> {
        Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned())
    }

    async fn save(&self, server: &str, credentials: &Credentials) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(server.to_owned(), credentials.clone());
        Ok(())
    }

    async fn delete(&self, server: &str) -> io::Result<()> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(server);
        Ok(())
    }
}

/// Stores credentials in a directory, one file per server. On Unix other users cannot read them:
/// files have mode 0600, the directory 0700.
///
/// Files are replaced atomically. If two processes log in to one server at the same time, the later
/// login is kept.
#[derive(Clone, Debug)]
pub struct DirectoryStore {
    directory: PathBuf,
}

impl DirectoryStore {
    /// Returns a store in `directory`, which is created with the first file.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Returns the file for a server. Its name shows the host where possible, and differs for each
    /// URL.
    fn path(&self, server: &str) -> PathBuf {
        let digest = ring::digest::digest(&ring::digest::SHA256, server.as_bytes());
        let digest: String =
            digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let host = server.split("://").nth(1).unwrap_or(server);
        let host: String = host
            .chars()
            .take_while(|char| *char != '/')
            .take(64)
            .map(|char| if char.is_ascii_alphanumeric() || char == '.' { char } else { '-' })
            .collect();
        self.directory.join(format!("{}-{digest}.json", host.trim_start_matches('.')))
    }
}

#[async_trait]
impl CredentialStore for DirectoryStore {
    async fn load(&self, server: &str) -> io::Result<Option<Credentials>> {
        let path = self.path(server);
        blocking(move || read(&path)).await
    }

    async fn save(&self, server: &str, credentials: &Credentials) -> io::Result<()> {
        let path = self.path(server);
        let text = serde_json::to_vec_pretty(credentials)?;
        blocking(move || write(&path, &text)).await
    }

    async fn delete(&self, server: &str) -> io::Result<()> {
        let path = self.path(server);
        blocking(move || match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn read(path: &Path) -> io::Result<Option<Credentials>> {
    use io::Read;
    const MAX: u64 = 1 << 20;
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    file.take(MAX).read_to_end(&mut text)?;
    // serde's errors may contain values.
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        io::Error::other(format!(
            "{} is not valid (line {}); delete it and log in again",
            path.display(),
            error.line()
        ))
    })
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        create_folder(directory)?;
    }
    replace(path, text, Readers::Owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Credentials {
        let registration = Registration {
            client_id: "me".to_owned(),
            client_secret: Some("hush".into()),
            method: Method::ClientSecretPost,
            redirect_uri: "http://127.0.0.1:1/".to_owned(),
            expires_at: None,
        };
        let tokens = Tokens {
            issuer: "https://as.example".to_owned(),
            token_endpoint: "https://as.example/token".to_owned(),
            client_id: "me".to_owned(),
            method: Method::ClientSecretPost,
            resource: None,
            access: "hush".into(),
            key: Some("hush".into()),
            refresh: Some("hush".into()),
            expires_at: Some(1),
            scope: None,
        };
        Credentials {
            registrations: [("https://as.example".to_owned(), registration)].into(),
            first_issuer: None,
            tokens: Some(tokens),
        }
    }

    #[test]
    fn debug_forms_show_no_secrets() {
        assert!(!format!("{:?}", some()).contains("hush"));
    }

    #[tokio::test]
    async fn every_store_keeps_servers_apart() {
        let directory = tempfile::tempdir().unwrap();
        let stores: [&dyn CredentialStore; 2] =
            [&MemoryStore::default(), &DirectoryStore::new(directory.path().join("new"))];
        for store in stores {
            assert!(store.load("https://a/mcp").await.unwrap().is_none());
            store.delete("https://a/mcp").await.unwrap();
            store.save("https://a/mcp", &some()).await.unwrap();
            store.save("https://a/mcp", &some()).await.unwrap();
            let kept = store.load("https://a/mcp").await.unwrap().unwrap();
            assert_eq!(serde_json::to_value(kept).unwrap(), serde_json::to_value(some()).unwrap());
            assert!(store.load("https://a/mcp2").await.unwrap().is_none());
            store.delete("https://a/mcp").await.unwrap();
            assert!(store.load("https://a/mcp").await.unwrap().is_none());
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn files_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let store = DirectoryStore::new(directory.path().join("new"));
        store.save("https://../../x", &some()).await.unwrap();
        fn mode(path: &Path) -> u32 {
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        }
        assert_eq!(mode(&directory.path().join("new")), 0o700);
        let files: Vec<_> = std::fs::read_dir(directory.path().join("new"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(mode(&files[0]), 0o600);
        std::fs::write(&files[0], r#"{"tokens":"hush"}"#).unwrap();
        let error = store.load("https://../../x").await.unwrap_err().to_string();
        assert!(error.contains("is not valid") && !error.contains("hush"), "{error}");
    }
}
