//! Where artifacts are kept.

#[cfg(any(test, feature = "conformance"))]
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub mod conformance;
mod delegating;
#[cfg(feature = "directory")]
mod directory;
mod expired;
mod memory;
mod owners;
#[cfg(feature = "directory")]
mod quota;

use std::{fmt, io, ops::Range, str::FromStr, time::SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

#[cfg(feature = "directory")]
pub use self::directory::{DirectoryOptions, DirectoryStore};
pub use self::{
    delegating::DelegatingStore,
    memory::{MemoryLimits, MemoryStore},
};
use crate::{metadata::Metadata, name::ArtifactName};

/// A place that keeps artifacts.
///
/// Versions of a name count from 0. A put is atomic: bytes and record appear together or not at all, also when the
/// process dies in between, and two puts never get the same version, also from two processes. What lies in one
/// [`Scope`] is invisible in every other.
///
/// A store with a limit makes room for a new artifact by this rule: the owner who holds the most bytes, the new ones
/// counted, loses the version that was least recently written or read, until the new one fits. An owner is the
/// application and the user of a [`Scope`]: all sessions of a user count together. Listing an artifact does not count as
/// reading it. A removed artifact is [expired](StoreError::Expired) instead of unknown, and its version number is not
/// used again, for as long as the store remembers it.
///
/// `conformance::check` and `conformance::check_limit`, behind the feature `conformance`, test a store.
#[async_trait]
pub trait ArtifactStore: Send + Sync + 'static {
    /// Keeps the artifact as the next version of its name: one more than the highest that there is or that has expired,
    /// or 0.
    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError>;

    /// What is known of one version, without its bytes.
    async fn record(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Record, StoreError>;

    /// One version. A store that can lose bytes checks them against the hash in the record.
    async fn get(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
    ) -> Result<Artifact, StoreError>;

    /// The bytes of this range of one version, as far as it has them: a range that reaches beyond the end is cut there.
    async fn read_range(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        version: Version,
        range: Range<u64>,
    ) -> Result<Bytes, StoreError>;

    /// The latest version of every name, a page at a time, in the order of the names.
    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError>;

    /// All versions of one name, the oldest first.
    async fn versions(&self, scope: &Scope, name: &ArtifactName)
    -> Result<Vec<Record>, StoreError>;

    /// Removes versions of one name, and says how many. A number becomes free again when nothing higher is left.
    async fn delete(
        &self,
        scope: &Scope,
        name: &ArtifactName,
        which: Versions,
    ) -> Result<u64, StoreError>;

    /// How much the store holds, and what it had to remove. A store without a limit need not say.
    fn usage(&self) -> Usage {
        Usage::default()
    }
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// What its artifacts are charged, in bytes: their content, their records, and what it takes to keep them.
    pub bytes: u64,
    /// The most that they may be charged together.
    pub limit: Option<u64>,
    /// Versions that were removed to make room, since the store was opened.
    pub evicted: u64,
}

/// Whose artifacts: an application, a user, a session. Stores never mix scopes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    app: String,
    user: String,
    session: String,
}

/// Why three texts are not a [`Scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part {part} of the scope is {bytes} bytes, not 1 to {}", Scope::MAX_PART_BYTES)]
pub struct ScopeError {
    part: &'static str,
    bytes: usize,
}

impl Scope {
    /// The longest part, in bytes.
    pub const MAX_PART_BYTES: usize = 256;

    /// A scope of any three texts of 1 to 256 bytes; stores see to it that no text leaves its place.
    ///
    /// # Errors
    /// When a part is empty or too long.
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

    /// The one scope of a server that knows no users.
    pub fn local() -> Self {
        Self {
            app: "marquetry".to_owned(),
            user: "local".to_owned(),
            session: "default".to_owned(),
        }
    }

    /// The application's part.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The user's part.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The session's part.
    pub fn session(&self) -> &str {
        &self.session
    }

    fn parts(&self) -> [(&'static str, &str); 3] {
        [("app", &self.app), ("user", &self.user), ("session", &self.session)]
    }
}

/// What a store is given to keep.
#[derive(Clone, Debug)]
pub struct NewArtifact {
    /// Under which name.
    pub name: ArtifactName,
    /// What the bytes are.
    pub mime_type: String,
    /// What else is known of them.
    pub metadata: Metadata,
    /// When it was made.
    pub created_at: SystemTime,
    content: Bytes,
    hash: ContentHash,
}

impl NewArtifact {
    /// An artifact of these bytes, made at `created_at`, without metadata.
    ///
    /// The bytes are hashed here, at a gigabyte a second or so: for many megabytes, call it where blocking is allowed.
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

    /// The bytes.
    pub fn content(&self) -> &Bytes {
        &self.content
    }

    /// Their hash.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }
}

/// What a store knows of one version of an artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The artifact's name.
    pub name: ArtifactName,
    /// The version, from 0.
    pub version: u64,
    /// What the bytes are.
    pub mime_type: String,
    /// How many they are.
    pub size_bytes: u64,
    /// Their hash.
    pub hash: ContentHash,
    /// When it was made; in JSON as RFC 3339, UTC, milliseconds.
    #[serde(with = "rfc3339")]
    pub created_at: SystemTime,
    /// What else is known of them.
    pub metadata: Metadata,
}

impl Record {
    /// The record of an artifact that becomes this version. For those who write a store.
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

/// One version of an artifact with its bytes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Artifact {
    /// What is known of it.
    pub record: Record,
    /// Its bytes.
    pub content: Bytes,
}

impl Artifact {
    /// An artifact as it is. For those who write a store that cannot lose bytes.
    pub fn new(record: Record, content: Bytes) -> Self {
        Self { record, content }
    }

    /// An artifact whose bytes are the ones that the record speaks of. For those who write a store.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when the hash differs.
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
    /// The hash of these bytes.
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

/// Why some text is not a [`ContentHash`].
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

/// Which version to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// The highest there is.
    #[default]
    Latest,
    /// This one.
    Number(u64),
}

impl From<Option<u64>> for Version {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::Latest, Self::Number)
    }
}

/// Which versions to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Versions {
    /// Every one.
    All,
    /// This one.
    Number(u64),
}

/// Which part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Only names behind this one: the [`Listing::next`] of the page before.
    pub after: Option<ArtifactName>,
    /// At most this many names; 1 to [`Page::MAX_LIMIT`], what is outside counts as the nearest of these.
    pub limit: usize,
}

impl Page {
    /// The largest page.
    pub const MAX_LIMIT: usize = 1000;

    /// The limit within its bounds. For those who write a store.
    pub fn bounded_limit(&self) -> usize {
        self.limit.clamp(1, Self::MAX_LIMIT)
    }
}

impl Default for Page {
    /// The first 100.
    fn default() -> Self {
        Self { after: None, limit: 100 }
    }
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Listing {
    /// The latest version of each name, by name.
    pub records: Vec<Record>,
    /// Where the next page begins; none when there is none.
    pub next: Option<ArtifactName>,
}

impl Listing {
    /// A page. For those who write a store.
    pub fn new(records: Vec<Record>, next: Option<ArtifactName>) -> Self {
        Self { records, next }
    }
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No such artifact, or no such version of it.
    #[error("no artifact \"{name}\"{}", VersionOf(*version))]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The version that was asked for; none for the latest.
        version: Option<u64>,
    },
    /// It was there, and had to make room for newer artifacts.
    #[error("artifact \"{name}\"{} has expired: the store removed it to make room for newer ones", VersionOf(*version))]
    Expired {
        /// The name that was asked for.
        name: String,
        /// The version that was asked for; none for the latest.
        version: Option<u64>,
    },
    /// Keeping it would exceed what the store may hold, and the store removes nothing.
    #[error("store is full: {held} of {limit} bytes are held, {wanted} more were wanted")]
    Full {
        /// Bytes that are kept now.
        held: u64,
        /// Bytes that the artifact needs.
        wanted: u64,
        /// Bytes that may be kept.
        limit: u64,
    },
    /// Larger than the store takes.
    #[error("artifact is {bytes} bytes, more than {limit}")]
    TooLarge {
        /// The artifact's size.
        bytes: u64,
        /// The largest size that is taken.
        limit: u64,
    },
    /// What was kept is not what is there.
    #[error("artifact \"{name}\" version {version} is damaged: {reason}")]
    Corrupt {
        /// The artifact.
        name: ArtifactName,
        /// Its version.
        version: u64,
        /// What is wrong.
        reason: String,
    },
    /// Others took every version number that was tried.
    #[error("artifact \"{name}\" is written by too many at once")]
    Contended {
        /// The artifact.
        name: ArtifactName,
    },
    /// The file system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another kind of store failed.
    #[error("{0}")]
    Backend(String),
}

impl StoreError {
    /// What to answer when something is not there. For those who write a store.
    pub fn not_found(name: &ArtifactName, version: Version) -> Self {
        let version = match version {
            Version::Latest => None,
            Version::Number(number) => Some(number),
        };
        Self::NotFound { name: name.as_str().to_owned(), version }
    }

    /// What to answer when something was removed to make room. For those who write a store.
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

/// The part of `0..length` that the range covers.
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

    /// RFC 3339 has years from 1970 to 9999 here; the writer fails on others.
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
    fn ranges_are_cut_to_what_is_there() {
        for (range, want) in
            [(0..5, 0..3), (1..2, 1..2), (3..9, 3..3), (7..9, 3..3), (2..1, 2..2), (9..0, 3..3)]
        {
            assert_eq!(clamped(&range, 3), want, "{range:?}");
        }
    }
}
