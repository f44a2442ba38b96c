//! Stores of artifacts.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod delegating;
#[cfg(feature = "directory")]
mod directory;
mod expired_names;
#[cfg(feature = "directory")]
mod files;
mod memory;
mod owners;
#[cfg(feature = "directory")]
mod quota;

use std::{fmt, io, ops::Range, str::FromStr, time::SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

pub use self::{
    delegating::DelegatingStore,
    memory::{MemoryLimits, MemoryStore},
};
#[cfg(feature = "directory")]
pub use self::{directory::DirectoryStore, files::DirectoryOptions};
use crate::{metadata::Metadata, name::ArtifactName};

/// A store of artifacts.
///
/// Versions of a name count from 0. A put is atomic: bytes and record appear together or not at
/// all, even if the process dies, and two puts never get the same version, even from two processes.
/// The artifacts of one [`Scope`] are invisible in every other.
///
/// A store with a limit makes room for a new artifact by this rule: the owner who holds the most
/// bytes, the new ones counted, loses the version that was least recently written or read, until
/// the new one fits. An owner is the application and the user of a [`Scope`]: all sessions of a
/// user count together. Listing an artifact does not count as reading it. A removed artifact is
/// [expired](StoreError::Expired) instead of unknown, and its version number is not used again, for
/// as long as the store remembers it.
///
/// `conformance::check` and `conformance::check_limit`, behind the feature `conformance`, test a
/// store.
#[async_trait]
pub trait ArtifactStore: Send + Sync + 'static {
    /// Saves the artifact as the next version of its name: one more than the highest existing or
    /// expired version, or 0.
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError>;

    /// Returns the record of one version, without its bytes.
    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError>;

    /// Returns one version. A store whose bytes can be damaged checks them against the hash in the
    /// record.
    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError>;

    /// Returns a range of the bytes of one version. The range is cut at the end.
    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError>;

    /// Returns a page of the latest versions of all names, ordered by name.
    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError>;

    /// Returns all versions of one name, the oldest first.
    async fn versions(&self, scope: &Scope, name: &ArtifactName)
    -> Result<Vec<Record>, StoreError>;

    /// Removes versions of one name, and returns their number. A version number is free again when
    /// no higher one is left.
    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError>;

    /// Checks whether the store can be read and written now. Stores that need nothing outside of
    /// the process may keep the default.
    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns how much the store holds and has evicted. Stores without a limit may keep the
    /// default.
    fn usage(&self) -> Usage {
        Usage::default()
    }
}

/// Usage of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Bytes that artifacts are charged: content, records, and the cost of keeping them.
    pub bytes: u64,
    /// Limit of these bytes.
    pub limit: Option<u64>,
    /// Versions that were evicted since the store was opened.
    pub evicted: u64,
}

/// The application, user and session that artifacts belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    app: String,
    user: String,
    session: String,
}

/// Error for a part that a [`Scope`] may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part {part} of the scope is {bytes} bytes, not 1 to {}", Scope::MAX_PART_BYTES)]
pub struct ScopeError {
    part: &'static str,
    bytes: usize,
}

impl Scope {
    /// The longest part, in bytes.
    pub const MAX_PART_BYTES: usize = 256;

    /// Creates a scope of three texts of 1 to 256 bytes. Stores escape them: no text can name
    /// another scope's files.
    ///
    /// # Errors
    /// Returns an error if a part is empty or too long.
    pub fn new(
        app: impl Into<String>,
        user: impl Into<String>,
        session: impl Into<String>,
    ) -> Result<Self, ScopeError> {
        let scope = Self { app: app.into(), user: user.into(), session: session.into() };
        for (part, text) in scope.parts() {
            if !(1..=Self::MAX_PART_BYTES).contains(&text.len()) {
                return Err(ScopeError { part, bytes: text.len() });
            }
        }
        Ok(scope)
    }

    /// Returns the scope of a server without users.
    pub fn local() -> Self {
        Self {
            app: "marquetry".to_owned(),
            user: "local".to_owned(),
            session: "default".to_owned(),
        }
    }

    /// Returns the application.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Returns the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the session.
    pub fn session(&self) -> &str {
        &self.session
    }

    fn parts(&self) -> [(&'static str, &str); 3] {
        [("app", &self.app), ("user", &self.user), ("session", &self.session)]
    }
}

/// An artifact to save.
#[derive(Clone, Debug)]
pub struct NewArtifact {
    /// Name of the artifact.
    pub name: ArtifactName,
    /// MIME type of the bytes.
    pub mime_type: String,
    /// Further facts about the artifact.
    pub metadata: Metadata,
    /// Time of creation.
    pub created_at: SystemTime,
    content: Bytes,
    hash: ContentHash,
}

impl NewArtifact {
    /// Creates an artifact without metadata.
    ///
    /// This hashes the bytes, at about a gigabyte a second: call it on a blocking thread for many
    /// megabytes.
    pub fn new(
        name: ArtifactName,
        mime_type: impl Into<String>,
        created_at: SystemTime,
        content: Bytes,
    ) -> Self {
        let hash = ContentHash::of(&content);
        Self {
            name,
            mime_type: mime_type.into(),
            metadata: Metadata::default(),
            created_at,
            content,
            hash,
        }
    }

    /// Returns the bytes.
    pub fn content(&self) -> &Bytes {
        &self.content
    }

    /// Returns the hash of the bytes.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }
}

/// Facts about one version of an artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The artifact's name.
    pub name: ArtifactName,
    /// The version, from 0.
    pub version: u64,
    /// MIME type of the bytes.
    pub mime_type: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Hash of the bytes.
    pub hash: ContentHash,
    /// Time of creation; in JSON as RFC 3339 in UTC with milliseconds.
    #[serde(with = "rfc3339")]
    pub created_at: SystemTime,
    /// Further facts about the artifact.
    pub metadata: Metadata,
}

impl Record {
    /// Creates the record of an artifact with this version. For implementations of stores.
    pub fn new(artifact: &NewArtifact, version: u64) -> Self {
        Self {
            name: artifact.name.clone(),
            version,
            mime_type: artifact.mime_type.clone(),
            size_bytes: artifact.content.len() as u64,
            hash: artifact.hash,
            created_at: artifact.created_at,
            metadata: artifact.metadata.clone(),
        }
    }
}

/// A version of an artifact with its bytes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Artifact {
    /// The record.
    pub record: Record,
    /// The bytes.
    pub content: Bytes,
}

impl Artifact {
    /// Creates an artifact without a check. For stores whose bytes cannot be damaged.
    pub fn new(record: Record, content: Bytes) -> Self {
        Self { record, content }
    }

    /// Creates an artifact after checking the bytes against the hash. For implementations of
    /// stores.
    ///
    /// # Errors
    /// Returns an error if the hash differs: [`StoreError::Corrupt`].
    pub fn verified(record: Record, content: Bytes) -> Result<Self, StoreError> {
        if ContentHash::of(&content) != record.hash {
            return Err(StoreError::Corrupt {
                name: record.name,
                version: record.version,
                reason: "its bytes do not have the hash that was recorded".to_owned(),
            });
        }
        Ok(Self { record, content })
    }
}

/// BLAKE3 of an artifact's bytes, written as `blake3:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Returns the hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "blake3:{}", blake3::Hash::from_bytes(self.0))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// Error for text that is not a [`ContentHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hash is not \"blake3:\" and 64 hex digits")]
pub struct HashError;

impl FromStr for ContentHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        let digits = text.strip_prefix("blake3:").ok_or(HashError)?;
        blake3::Hash::from_hex(digits).map(|hash| Self(*hash.as_bytes())).map_err(|_| HashError)
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The version to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// The highest version.
    #[default]
    Latest,
    /// The version of this number.
    Number(u64),
}

impl From<Option<u64>> for Version {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Latest, Self::Number)
    }
}

/// The versions to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Versions {
    /// All versions.
    All,
    /// The version of this number.
    Number(u64),
}

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Only names after this one: [`Listing::next`] of the previous page.
    pub after: Option<ArtifactName>,
    /// At most this many names, clamped to 1 to [`Page::MAX_LIMIT`].
    pub limit: usize,
}

impl Page {
    /// The largest page.
    pub const MAX_LIMIT: usize = 1000;

    /// Creates a page of at most `limit` names after `after`.
    pub fn new(after: Option<ArtifactName>, limit: usize) -> Self {
        Self { after, limit }
    }

    /// Returns the limit within its bounds. For implementations of stores.
    pub fn bounded_limit(&self) -> usize {
        self.limit.clamp(1, Self::MAX_LIMIT)
    }
}

impl Default for Page {
    /// Returns the page with the first 100 names.
    fn default() -> Self {
        Self { after: None, limit: 100 }
    }
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// The latest version of each name, ordered by name.
    pub records: Vec<Record>,
    /// The name to continue after; none on the last page.
    pub next: Option<ArtifactName>,
    /// Number of artifacts on this page whose latest version is damaged. An earlier version is
    /// listed instead, if one is readable.
    pub damaged: usize,
}

impl Listing {
    /// Creates a page without damaged artifacts. For implementations of stores.
    pub fn new(records: Vec<Record>, next: Option<ArtifactName>) -> Self {
        Self { records, next, damaged: 0 }
    }

    /// Sets [`damaged`](Self::damaged).
    #[must_use]
    pub fn with_damaged(self, damaged: usize) -> Self {
        Self { damaged, ..self }
    }
}

/// Error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The artifact or the version does not exist.
    #[error("no artifact \"{name}\"{}", VersionOf(*version))]
    NotFound {
        /// The requested name.
        name: String,
        /// The requested version; none for the latest.
        version: Option<u64>,
    },
    /// The store evicted the artifact to make room for newer ones.
    #[error("artifact \"{name}\"{} has expired: the store removed it to make room for newer ones", VersionOf(*version))]
    Expired {
        /// The requested name.
        name: String,
        /// The requested version; none for the latest.
        version: Option<u64>,
    },
    /// The artifact does not fit, and the store cannot evict others.
    #[error("store is full: {held} of {limit} bytes are held, {wanted} more were wanted")]
    Full {
        /// Bytes that the store holds.
        held: u64,
        /// Bytes that the artifact needs.
        wanted: u64,
        /// Bytes that the store may hold.
        limit: u64,
    },
    /// The artifact is larger than the store accepts.
    #[error("artifact is {bytes} bytes, more than {limit}")]
    TooLarge {
        /// Size of the artifact in bytes.
        bytes: u64,
        /// Largest size that is accepted.
        limit: u64,
    },
    /// The stored bytes or the record are damaged.
    #[error("artifact \"{name}\" version {version} is damaged: {reason}")]
    Corrupt {
        /// The artifact.
        name: ArtifactName,
        /// Version of the artifact.
        version: u64,
        /// The damage.
        reason: String,
    },
    /// Other writers took every version number that was tried.
    #[error("artifact \"{name}\" is being written by too many clients at once; try again")]
    Contended {
        /// The artifact.
        name: ArtifactName,
    },
    /// The directory was removed while the store was open. Opening the store creates it again.
    #[error("the directory of the artifacts was removed")]
    DirectoryRemoved,
    /// The file system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An error of another kind of store.
    #[error("{0}")]
    Backend(String),
}

impl StoreError {
    /// Returns the error for a missing artifact. For implementations of stores.
    pub fn not_found(name: &ArtifactName, version: Version) -> Self {
        let version = match version {
            Version::Latest => None,
            Version::Number(number) => Some(number),
        };
        Self::NotFound { name: name.as_str().to_owned(), version }
    }

    /// Returns the error for an evicted artifact. For implementations of stores.
    pub fn expired(name: &ArtifactName, version: Version) -> Self {
        let version = match version {
            Version::Latest => None,
            Version::Number(number) => Some(number),
        };
        Self::Expired { name: name.as_str().to_owned(), version }
    }
}

struct VersionOf(Option<u64>);

impl fmt::Display for VersionOf {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |version| write!(out, " version {version}"))
    }
}

/// Returns the part of `range` within `0..length`.
fn clamped(range: &Range<u64>, length: u64) -> Range<u64> {
    let start = range.start.min(length);
    start..range.end.clamp(start, length)
}

mod rfc3339 {
    use std::time::SystemTime;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(
        time: &SystemTime,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(in_range(*time)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text).map_err(D::Error::custom)
    }

    /// Limits a time to the years from 1970 to 9999, because `humantime` fails on others.
    fn in_range(time: SystemTime) -> SystemTime {
        const LAST_SECOND: u64 = 253_402_300_799;
        let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        SystemTime::UNIX_EPOCH + seconds.min(std::time::Duration::from_secs(LAST_SECOND))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn scopes() {
        assert!(Scope::new("a", "b", "../c").is_ok());
        let error = Scope::new("a", "", "c").unwrap_err().to_string();
        assert_eq!(error, "part user of the scope is 0 bytes, not 1 to 256");
        assert!(Scope::new("a", "b", "c".repeat(257)).is_err());
        assert!(
            Scope::new(Scope::local().app, Scope::local().user, Scope::local().session).is_ok()
        );
    }

    #[test]
    fn records_survive_being_stored() {
        for time in [
            SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_225_600_123),
            SystemTime::UNIX_EPOCH,
        ] {
            let name = ArtifactName::parse("a.txt").unwrap();
            let record = Record::new(
                &NewArtifact::new(name, "text/plain", time, Bytes::from_static(b"abc")),
                3,
            );
            let json = serde_json::to_string(&record).unwrap();
            let again: Record = serde_json::from_str(&json).unwrap();
            assert_eq!(again, record);
        }
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        #[derive(Serialize)]
        struct Time(#[serde(with = "rfc3339")] SystemTime);
        assert_eq!(serde_json::to_string(&Time(early)).unwrap(), "\"1970-01-01T00:00:00.000Z\"");
        assert_eq!(serde_json::to_string(&Time(late)).unwrap(), "\"9999-12-31T23:59:59.000Z\"");
    }

    #[test]
    fn hashes_are_read_strictly() {
        let hash = ContentHash::of(b"abc");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for text in ["", "blake3:", "blake3:zz", "sha256:00", &hash.to_string()[..70]] {
            assert_eq!(text.parse::<ContentHash>(), Err(HashError), "{text}");
        }
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "callers may send them")]
    fn ranges_are_cut_to_the_content() {
        for (range, want) in
            [(0..5, 0..3), (1..2, 1..2), (3..9, 3..3), (7..9, 3..3), (2..1, 2..2), (9..0, 3..3)]
        {
            assert_eq!(clamped(&range, 3), want, "{range:?}");
        }
    }
}
