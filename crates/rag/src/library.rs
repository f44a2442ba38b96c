//! A library: a database in which files are indexed, searched and cited.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use marquetry_embed::{Embedder, builtin::StaticModel};
use marquetry_index::{ChunkStore, Hit, SearchRequest, StoreError};
#[cfg(feature = "libsql")]
use marquetry_index::{LibsqlOptions, LibsqlStore};
#[cfg(feature = "postgres")]
use marquetry_index::{PostgresOptions, PostgresStore};
use marquetry_records::{Caller, RecordError, RecordStore, RecordStoreError, Records};
#[cfg(feature = "libsql")]
use marquetry_records::{LibsqlRecords, LibsqlRecordsOptions};
#[cfg(feature = "postgres")]
use marquetry_records::{PostgresRecords, PostgresRecordsOptions};

use crate::{
    cite::{CitationResolver, Citations, CiteError, CiteRequest},
    files::{FileOptions, IndexError, IndexReport, Indexer},
    pipeline::{Pipeline, PipelineError},
};

/// A database of files and records, with the model that embeds them, as one user sees them.
///
/// Clones share the database. A library needs a Tokio runtime with timers.
///
/// ```
/// # #[cfg(feature = "libsql")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let notes = folder.path().join("notes");
/// # let database = folder.path().join("kb.db");
/// # std::fs::create_dir(&notes)?;
/// # std::fs::write(notes.join("bread.md"), "# Bread\n\nBread is made of flour and water.")?;
/// use marquetry_rag::{Library, SearchRequest};
///
/// let library = Library::open(&database).await?;
/// let report = library.index([&notes]).await?;
/// assert_eq!((report.indexed, report.failed), (1, 0));
///
/// let hits = library.search(SearchRequest::from("What is in bread?").limit(3)).await?;
/// assert!(hits[0].chunk.content.contains("flour and water"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Library {
    pipeline: Pipeline,
    records: Records,
    caller: Caller,
    /// The database file; `None` for a PostgreSQL server.
    file: Option<PathBuf>,
}

/// Options of a [`Library`].
#[derive(Clone, Default)]
#[must_use]
pub struct LibraryBuilder {
    embedder: Option<Arc<dyn Embedder>>,
    caller: Option<Caller>,
    reset: bool,
    read_only: bool,
}

/// An error of an operation of a library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The database cannot be opened, or refused the search.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database needs a feature that was disabled when this crate was built.
    #[error(
        "this program was built without support for {database}; build marquetry-rag with the feature {feature}"
    )]
    MissingFeature {
        /// The kind of database.
        database: &'static str,
        /// The missing feature of this crate.
        feature: &'static str,
    },
    /// A PostgreSQL database cannot be opened read-only. Connect as a user without write permission
    /// instead.
    #[error("PostgreSQL cannot be opened read-only; connect as a user with read permission only")]
    ReadOnlyServer,
    /// An operation on records failed.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The model failed, or the database was filled by another model.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Indexing ended early.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Citing failed.
    #[error(transparent)]
    Cite(#[from] CiteError),
}

impl From<RecordStoreError> for LibraryError {
    fn from(error: RecordStoreError) -> Self {
        Self::Records(error.into())
    }
}

impl LibraryBuilder {
    /// Sets the model, instead of the built-in one.
    pub fn embedder(self, embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder: Some(embedder), ..self }
    }

    /// Sets the user, instead of `local` of the organisation `default`.
    pub fn caller(self, caller: Caller) -> Self {
        Self { caller: Some(caller), ..self }
    }

    /// Deletes index data of another model or of an older version of this program; records stay.
    pub fn reset(self) -> Self {
        Self { reset: true, ..self }
    }

    /// Opens the database read-only: the file is neither created nor changed. Not supported for
    /// PostgreSQL.
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Opens a database: the path of a file, or the URL of a PostgreSQL database with pgvector,
    /// `postgresql://user:password@host/database` (or `postgres:`).
    ///
    /// A missing file is created; its directory must exist. In a PostgreSQL database, missing
    /// tables are created; see [`PostgresStore`](crate::index::PostgresStore) for TLS.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be opened, such as [`StoreError::OtherModel`] if it
    /// was filled by another model, which [`Self::reset`] deletes; [`LibraryError::MissingFeature`]
    /// for a file without the feature `libsql`, or a URL without the feature `postgres`.
    pub async fn open(self, database: impl AsRef<Path>) -> Result<Library, LibraryError> {
        let database = database.as_ref();
        let url = database
            .to_str()
            .filter(|text| text.starts_with("postgresql://") || text.starts_with("postgres://"));
        match url {
            Some(url) => self.open_postgres(url).await,
            None => self.open_file(database).await,
        }
    }

    #[cfg(feature = "libsql")]
    async fn open_file(self, path: &Path) -> Result<Library, LibraryError> {
        let embedder = self.model();
        let mut options = LibsqlOptions::default();
        options.reset = self.reset;
        options.read_only = self.read_only;
        let store = LibsqlStore::open_with(path, embedder.model().clone(), options).await?;
        let mut records_options = LibsqlRecordsOptions::default();
        records_options.read_only = self.read_only;
        let records = LibsqlRecords::open_with(path, records_options).await?;
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.library(Arc::new(store), Arc::new(records), embedder, Some(file))
    }

    #[cfg(not(feature = "libsql"))]
    async fn open_file(self, _path: &Path) -> Result<Library, LibraryError> {
        Err(LibraryError::MissingFeature { database: "a database in a file", feature: "libsql" })
    }

    #[cfg(feature = "postgres")]
    async fn open_postgres(self, url: &str) -> Result<Library, LibraryError> {
        if self.read_only {
            return Err(LibraryError::ReadOnlyServer);
        }
        let embedder = self.model();
        let mut options = PostgresOptions::default();
        options.reset = self.reset;
        let store = PostgresStore::open_with(url, embedder.model().clone(), options).await?;
        let max_content_bytes = PostgresRecordsOptions::default().max_content_bytes;
        let records = PostgresRecords::with_pool(store.pool().clone(), max_content_bytes).await?;
        self.library(Arc::new(store), Arc::new(records), embedder, None)
    }

    #[cfg(not(feature = "postgres"))]
    async fn open_postgres(self, _url: &str) -> Result<Library, LibraryError> {
        Err(LibraryError::MissingFeature { database: "PostgreSQL", feature: "postgres" })
    }

    fn model(&self) -> Arc<dyn Embedder> {
        self.embedder.clone().unwrap_or_else(|| Arc::new(StaticModel::built_in()))
    }

    fn library(
        self,
        store: Arc<dyn ChunkStore>,
        records: Arc<dyn RecordStore>,
        embedder: Arc<dyn Embedder>,
        file: Option<PathBuf>,
    ) -> Result<Library, LibraryError> {
        let caller = match self.caller {
            Some(caller) => caller,
            None => Caller::new("default", "local")?,
        };
        let pipeline = Pipeline::new(store, embedder)?;
        Ok(Library { pipeline, records: Records::new(records), caller, file })
    }
}

impl Library {
    /// Opens a database with the built-in model, for the user `local`. `database` is the path of a
    /// file, such as `"kb.db"`, or `"postgresql://…"` (feature `postgres`). A missing file is
    /// created.
    ///
    /// # Errors
    ///
    /// Returns an error if [`LibraryBuilder::open`] would.
    pub async fn open(database: impl AsRef<Path>) -> Result<Self, LibraryError> {
        Self::builder().open(database).await
    }

    /// Returns a builder, to choose another model or user, or to open the database read-only.
    pub fn builder() -> LibraryBuilder {
        LibraryBuilder::default()
    }

    /// Indexes files and folders, by paths or `file:` URIs. Unchanged files are not read again.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. An unreadable file is not an error: the report names
    /// it with the reason.
    pub async fn index(
        &self,
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<IndexReport, LibraryError> {
        self.index_with(paths, FileOptions::default()).await
    }

    /// Indexes files and folders with options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::index`] would.
    pub async fn index_with(
        &self,
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
        mut options: FileOptions,
    ) -> Result<IndexReport, LibraryError> {
        if let Some(file) = &self.file {
            for ending in ["", "-wal", "-shm", "-journal"] {
                let mut file = file.clone().into_os_string();
                file.push(ending);
                options.except.push(file.into());
            }
        }
        let records = Arc::new(self.records.clone());
        let pipeline = self.pipeline.clone();
        let caller = self.caller.clone();
        let mut indexer = Indexer::new(pipeline, records, caller, options);
        let paths: Vec<OsString> = paths.into_iter().map(|path| path.as_ref().into()).collect();
        Ok(indexer.run(&paths, |_| ()).await?)
    }

    /// Returns the best passages for a question that the user may read: `library.search("…")`, or a
    /// [`SearchRequest`] with a filter and a limit.
    ///
    /// # Errors
    ///
    /// Returns an error if the question is too long, or the database fails.
    pub async fn search(
        &self,
        request: impl Into<SearchRequest>,
    ) -> Result<Vec<Hit>, LibraryError> {
        let mut request = request.into();
        if request.filter.readers.is_none() {
            let principals = self.records.principals(&self.caller).await?;
            request.filter.readers = Some(principals.into_iter().collect());
        }
        Ok(self.pipeline.search(request).await?)
    }

    /// Cites the passages of documents that answer a question, as blocks that belong before a
    /// model's prompt ([`Citations::text`]). Documents are named by URI, as in
    /// `hit.chunk.document`.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. A missing document is not an error: the citations
    /// name it with the reason.
    pub async fn cite(
        &self,
        question: &str,
        documents: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Citations, LibraryError> {
        let request =
            documents.into_iter().fold(CiteRequest::new(question), CiteRequest::reference);
        let resolver = CitationResolver::new(self.records.clone(), self.pipeline.clone());
        Ok(resolver.resolve(&self.caller, &request).await?)
    }

    /// Moves all changes into the database file, which can then be copied alone. Does nothing for a
    /// PostgreSQL server.
    ///
    /// # Errors
    ///
    /// Returns an error if another process uses the file, so that not all changes were moved. No
    /// data is lost.
    pub async fn checkpoint(&self) -> Result<(), LibraryError> {
        self.pipeline.store().checkpoint().await?;
        Ok(self.records.store().checkpoint().await?)
    }

    /// Returns the user on whose behalf the library reads and writes.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the records, with their permissions.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the store of chunks with its model.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = &self.caller.user;
        let mut library = f.debug_struct("Library");
        library.field("file", &self.file).field("user", user).finish_non_exhaustive()
    }
}
