//! A library: files that are indexed in one database, searched and cited.

use std::{ffi::OsString, path::Path, sync::Arc};

use marquetry_embed::{Embedder, builtin::StaticModel};
use marquetry_index::{Hit, LibsqlOptions, LibsqlStore, SearchRequest, StoreError};
use marquetry_records::{
    Caller, LibsqlRecords, LibsqlRecordsOptions, RecordError, RecordStoreError, Records,
};

use crate::{
    cite::{CitationResolver, Citations, CiteError, CiteRequest},
    files::{FileOptions, IndexError, IndexReport, Indexer},
    pipeline::{Pipeline, PipelineError},
};

/// Files and records in one database, with the model that embeds them, as one user sees them.
///
/// Clones share the database. A Tokio runtime with time is needed.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let (notes, database) = (folder.path().join("notes"), folder.path().join("kb.db"));
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
    database: std::path::PathBuf,
}

/// How a [`Library`] is opened.
#[derive(Clone, Default)]
#[must_use]
pub struct LibraryBuilder {
    embedder: Option<Arc<dyn Embedder>>,
    caller: Option<Caller>,
    reset: bool,
    read_only: bool,
}

/// Why a library did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The database cannot be opened, or the search was refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The records failed.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The model failed, or is not the one that the database was filled by.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Indexing ended early.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Passages could not be looked up.
    #[error(transparent)]
    Cite(#[from] CiteError),
}

impl From<RecordStoreError> for LibraryError {
    fn from(error: RecordStoreError) -> Self {
        Self::Records(error.into())
    }
}

impl LibraryBuilder {
    /// Embeds with this model instead of the built-in one.
    pub fn embedder(self, embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder: Some(embedder), ..self }
    }

    /// Acts as this user instead of `local` of the organisation `default`.
    pub fn caller(self, caller: Caller) -> Self {
        Self { caller: Some(caller), ..self }
    }

    /// Deletes what was indexed with another model, or by an older version of this program; records stay.
    pub fn reset(self) -> Self {
        Self { reset: true, ..self }
    }

    /// Only reads: the file is neither created nor changed.
    pub fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Opens the database in a file. A missing file is created; its directory must be there.
    ///
    /// # Errors
    ///
    /// [`StoreError::OtherModel`] if the database was filled by another model; see [`Self::reset`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<Library, LibraryError> {
        let path = path.as_ref();
        let embedder = self.embedder.unwrap_or_else(|| Arc::new(StaticModel::built_in()));
        let mut options = LibsqlOptions::default();
        (options.reset, options.read_only) = (self.reset, self.read_only);
        let store = LibsqlStore::open_with(path, embedder.model().clone(), options).await?;
        let mut options = LibsqlRecordsOptions::default();
        options.read_only = self.read_only;
        let records = LibsqlRecords::open_with(path, options).await?;
        let caller = match self.caller {
            Some(caller) => caller,
            None => Caller::new("default", "local")?,
        };
        Ok(Library {
            pipeline: Pipeline::new(Arc::new(store), embedder)?,
            records: Records::new(Arc::new(records)),
            caller,
            database: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        })
    }
}

impl Library {
    /// Opens the database in a file with the built-in model, for the user `local`. A missing file is created.
    ///
    /// # Errors
    ///
    /// As [`LibraryBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, LibraryError> {
        Self::builder().open(path).await
    }

    /// Returns a builder, for another model or user, or to read only.
    pub fn builder() -> LibraryBuilder {
        LibraryBuilder::default()
    }

    /// Indexes files and folders, by paths or `file:` URIs. Unchanged files are not read again.
    ///
    /// # Errors
    ///
    /// The database failed. Unreadable files are no error: the report names them with the reason.
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
    /// As [`Self::index`].
    pub async fn index_with(
        &self,
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
        mut options: FileOptions,
    ) -> Result<IndexReport, LibraryError> {
        for ending in ["", "-wal", "-shm", "-journal"] {
            let mut file = self.database.clone().into_os_string();
            file.push(ending);
            options.except.push(file.into());
        }
        let records = Arc::new(self.records.clone());
        let (pipeline, caller) = (self.pipeline.clone(), self.caller.clone());
        let mut indexer = Indexer::new(pipeline, records, caller, options);
        let paths: Vec<OsString> = paths.into_iter().map(|path| path.as_ref().into()).collect();
        Ok(indexer.run(&paths, |_| ()).await?)
    }

    /// Finds the best passages for a question that the user may read: `library.search("…")`, or a [`SearchRequest`] with
    /// a filter and a limit.
    ///
    /// # Errors
    ///
    /// The question is too long, or the database failed.
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

    /// Cites the passages of documents that answer a question, as blocks to put before a model's prompt
    /// ([`Citations::text`]). Documents are named by URI, as in `hit.chunk.document`.
    ///
    /// # Errors
    ///
    /// The database failed. Documents that are not there are no error: the citations name them with the reason.
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

    /// Moves what was written into the one file, which can be copied alone then. The library can be used on.
    ///
    /// # Errors
    ///
    /// Another process is using the file, so that not everything was moved; nothing is lost.
    pub async fn checkpoint(&self) -> Result<(), LibraryError> {
        self.pipeline.store().checkpoint().await?;
        Ok(self.records.store().checkpoint().await?)
    }

    /// Returns the user as whom the library is used.
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
        f.debug_struct("Library").field("database", &self.database).finish_non_exhaustive()
    }
}
