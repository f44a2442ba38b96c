//! Opening databases.

use std::{io, path::Path, sync::Arc};

use marquetry_rag::{
    EmbedError, Embedder, LibsqlOptions, LibsqlRecords, LibsqlRecordsOptions, LibsqlStore,
    MemoryRecords, MemoryStore, Pipeline, Prefixed, RecordLimits, Records, RemoteEmbedder,
    StaticModel,
};

use crate::{
    config::{EmbeddingChoice, EmbeddingConfig, KnowledgeConfig},
    error::KnowledgeError,
    location::DatabaseLocation,
    options::KnowledgeOptions,
};

/// Purpose of an open database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Change,
    /// For writing, after vectors of another model were removed.
    Reset,
    Read,
}

/// Opens the database in the options.
pub(crate) async fn open(
    options: &KnowledgeOptions,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let embedder = embedder(&options.config.embedding, "embedding", options).await?;
    let limits = limits(&options.config);
    let location = options.database.as_ref();
    match location.map_err(|reason| KnowledgeError::NoLocation(reason.clone()))? {
        DatabaseLocation::Memory => memory(embedder, limits),
        DatabaseLocation::File(path) => file(path, embedder, limits, wanted).await,
        DatabaseLocation::Postgres(url) => postgres(url, embedder, limits, wanted).await,
    }
}

/// Opens an embedding model. `section` is its place in `[knowledge]`, for errors; the options have
/// the environment variables.
pub(crate) async fn embedder(
    config: &EmbeddingConfig,
    section: &str,
    options: &KnowledgeOptions,
) -> Result<Arc<dyn Embedder>, KnowledgeError> {
    let choice = config
        .choice(options.variables())
        .map_err(|invalid| KnowledgeError::Embedding(format!("knowledge.{section}.{invalid}")))?;
    let model: Arc<dyn Embedder> = match choice {
        EmbeddingChoice::BuiltIn => {
            // Opening takes some time at the first call.
            let ready = tokio::task::spawn_blocking(StaticModel::built_in).await;
            Arc::new(ready.map_err(|error| KnowledgeError::Embedding(error.to_string()))?)
        }
        #[cfg(feature = "transformer")]
        EmbeddingChoice::Transformer(folder) => {
            let options = marquetry_rag::TransformerOptions::new(folder);
            Arc::new(marquetry_rag::Transformer::open(options).await.map_err(|error| {
                KnowledgeError::Embedding(format!("knowledge.{section}.folder: {error}"))
            })?)
        }
        EmbeddingChoice::Remote(options) => Arc::new(
            RemoteEmbedder::open(*options)
                .await
                .map_err(|error: EmbedError| KnowledgeError::Embedding(error.to_string()))?,
        ),
    };
    let [query, passage] =
        [&config.query_prefix, &config.passage_prefix].map(|it| it.as_deref().unwrap_or(""));
    Ok(match (query, passage) {
        ("", "") => model,
        (query, passage) => Arc::new(Prefixed::new(model, query, passage)),
    })
}

/// Opens a database in PostgreSQL.
#[cfg(feature = "postgres")]
async fn postgres(
    url: &str,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let mut options = marquetry_rag::PostgresOptions::default();
    options.reset = wanted == Use::Reset;
    let model = embedder.model().clone();
    let chunks = marquetry_rag::PostgresStore::open_with(url, model, options).await?;
    let max_content_bytes = limits.max_content_bytes as u64;
    let records =
        marquetry_rag::PostgresRecords::with_pool(chunks.pool().clone(), max_content_bytes).await?;
    let pipeline = Pipeline::new(Arc::new(chunks), embedder)?;
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(
    _: &str,
    _: Arc<dyn Embedder>,
    _: RecordLimits,
    _: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    Err(KnowledgeError::NoPostgres)
}

/// Creates an empty database in memory, with the built-in model.
pub(crate) fn in_memory() -> Result<(Records, Pipeline), KnowledgeError> {
    memory(Arc::new(StaticModel::built_in()), RecordLimits::default())
}

/// Creates an empty database in memory.
fn memory(
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let chunks = MemoryStore::new(embedder.model().clone());
    let records = Records::with_limits(Arc::new(MemoryRecords::default()), limits);
    Ok((records, Pipeline::new(Arc::new(chunks), embedder)?))
}

/// Opens the records of an existing file for reading, with an empty index of passages.
pub(crate) async fn records_alone(
    path: &Path,
    config: &KnowledgeConfig,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let mut options = LibsqlRecordsOptions::default();
    options.read_only = true;
    let records = LibsqlRecords::open_with(path, options).await?;
    let (_, pipeline) = in_memory()?;
    let limits = limits(config);
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}

fn limits(config: &KnowledgeConfig) -> RecordLimits {
    let mut limits = RecordLimits::default();
    limits.max_content_bytes =
        usize::try_from(config.max_content_bytes.get()).unwrap_or(usize::MAX);
    limits
}

/// Opens a database in a file.
async fn file(
    path: &Path,
    embedder: Arc<dyn Embedder>,
    limits: RecordLimits,
    wanted: Use,
) -> Result<(Records, Pipeline), KnowledgeError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|_| wanted != Use::Read) {
        make_private(folder)
            .map_err(|error| KnowledgeError::Folder { path: folder.to_owned(), error })?;
    }
    let read_only = wanted == Use::Read;
    let mut options = LibsqlOptions::default();
    // A file that was named by mistake must not change.
    (options.only_ours, options.read_only) = (true, read_only);
    options.reset = wanted == Use::Reset;
    let model = embedder.model().clone();
    let chunks = LibsqlStore::open_with(path, model, options).await?;
    let mut options = LibsqlRecordsOptions::default();
    options.read_only = read_only;
    options.max_content_bytes = limits.max_content_bytes as u64;
    let records = LibsqlRecords::open_with(path, options).await?;
    let pipeline = Pipeline::new(Arc::new(chunks), embedder)?;
    Ok((Records::with_limits(Arc::new(records), limits), pipeline))
}

/// Creates a folder that only its owner can read. An existing folder keeps its permissions.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
