//! A store in one libSQL file, with the searchable data in memory.

mod schema;
mod writer;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    thread::{self, JoinHandle},
};

use async_trait::async_trait;
use libsql::{Connection, Row, params};
use marquetry_database::{
    DatabaseError,
    libsql::{
        LibsqlFile, Prepared, error, get, json, limit, map, number, select, text, transaction, wait,
    },
};
use tokio::sync::{mpsc, oneshot};

use self::writer::{Job, WriteRequest};
use super::{ChunkStore, blocking, codec, fields::ChunkFields};
use crate::{
    EmbeddingModel,
    ranking::{Analyzer, Entry, FoundRow, Index, Language, Postings, Query, Term, Word},
    types::{
        ChunkId, Document, Filter, Hit, Kind, Label, NewChunk, SearchRequest, StoreError,
        StoredChunk, check_documents, check_request, label,
    },
};

/// A store in one file, which several processes may use at once.
///
/// The file is authoritative. Vectors and words are also in memory, and are searched there; changes
/// by this or another process are read before the next search. If a process is killed while it
/// writes, the file holds the old chunks or the new ones. While the store is in use, files that end
/// in `-wal` and `-shm` belong to it; after [`checkpoint`](ChunkStore::checkpoint) all data is in
/// the file itself. The names of its tables begin with `rag_`; other tables are not touched.
///
/// Dropping the store waits until all pending writes are finished and the file is closed. While
/// other processes use the file, this takes up to about a second longer than the writes.
pub struct LibsqlStore {
    shared: Arc<Shared>,
    /// `None` only while the store is dropped.
    requests: Option<mpsc::Sender<WriteRequest>>,
    /// `None` only while the store is dropped.
    writer: Option<JoinHandle<()>>,
}

impl Drop for LibsqlStore {
    /// Waits for the thread that has the connection for writing. The engine removes its files
    /// beside the database when the last connection is closed; a process that ends earlier leaves
    /// them behind.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // A panic was reported already.
            let _ = writer.join();
        }
    }
}

struct Shared {
    model: EmbeddingModel,
    file: LibsqlFile,
    /// Idle connections for reading.
    idle: Mutex<Vec<Reader>>,
    indexed: RwLock<IndexedRevision>,
    /// Held while changes are read, so that only one task reads them.
    refresh_lock: Mutex<()>,
}

/// The index of a revision of the database.
struct IndexedRevision {
    index: Index,
    /// The revision; -1 before the index is loaded.
    revision: i64,
}

/// Options of a [`LibsqlStore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibsqlOptions {
    /// Whether to delete the documents of another model or of an older version of this program.
    pub reset: bool,
    /// Largest size of the database in bytes, for writes of this process; beyond it they fail with
    /// [`DatabaseError::Full`]. No limit by default.
    pub max_bytes: Option<u64>,
    /// Whether to refuse a file that only has tables of other programs. Otherwise the tables are
    /// created beside them.
    pub only_ours: bool,
    /// Opens the file for reading only: nothing is created or changed in the file or beside it, and
    /// writes fail with [`DatabaseError::ReadOnly`]. Use it for files and folders without write
    /// permission.
    pub read_only: bool,
}

/// Bytes of the file that are mapped into memory while the whole file is read, which avoids copies.
/// After that, no bytes are mapped.
const MAPPED: u64 = 1 << 34;
/// Maximum number of documents that one statement reads.
const MAX_AT_ONCE: usize = 256;
/// Maximum number of idle readers.
const MAX_IDLE: usize = 8;
/// Maximum number of attempts of a search until index and database have the same revision. The
/// first attempt nearly always succeeds.
const ATTEMPTS: usize = 1_000;
/// Bytes of terms in one message to the sorting thread, while a database is opened.
const TERMS_AT_ONCE: usize = 1 << 18;
/// Maximum number of messages in the queue of the sorting thread.
const SORT_QUEUE: usize = 8;

impl LibsqlStore {
    /// Opens the database in a file, and creates a missing file. Its directory must exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be used, such as [`StoreError::OtherModel`] if it has
    /// vectors of another model; [`LibsqlOptions::reset`] deletes them.
    pub async fn open(path: impl AsRef<Path>, model: EmbeddingModel) -> Result<Self, StoreError> {
        Self::open_with(path, model, LibsqlOptions::default()).await
    }

    /// Opens the database in a file, with options.
    ///
    /// # Errors
    ///
    /// Returns an error if [`Self::open`] would, or an option does not allow the file.
    pub async fn open_with(
        path: impl AsRef<Path>,
        model: EmbeddingModel,
        options: LibsqlOptions,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let in_file = path.clone();
        let opened = blocking(move || {
            let file = LibsqlFile::open(&path, options.read_only)?;
            if options.only_ours {
                file.check_tables(&schema::OURS)?;
            }
            let connection = file.connect()?;
            if options.read_only {
                schema::check_readable(&file, &connection, &model)?;
            } else {
                schema::check(&connection, &model, options.reset)?;
            }
            if let Some(bytes) = options.max_bytes {
                limit(&connection, bytes)?;
            }
            let indexed = IndexedRevision { index: Index::new(model.dimension), revision: -1 };
            let shared = Shared {
                model,
                file,
                idle: Mutex::default(),
                indexed: RwLock::new(indexed),
                refresh_lock: Mutex::default(),
            };
            map(&connection, MAPPED)?;
            shared.refresh(&connection)?;
            map(&connection, 0)?;
            let shared = Arc::new(shared);
            let (requests, received) = mpsc::channel(writer::QUEUE);
            let for_writer = Arc::clone(&shared);
            let writer = thread::Builder::new()
                .name("rag-writer".to_owned())
                .spawn(move || {
                    let file = &for_writer.file;
                    writer::run(&connection, &for_writer.model, file, received, |connection| {
                        // If this fails, the next search tries again and returns the error.
                        let _ = for_writer.refresh(connection);
                    });
                })
                .map_err(StoreError::engine)?;
            Ok(Self { shared, requests: Some(requests), writer: Some(writer) })
        });
        opened.await.map_err(|error| named(error, &in_file))
    }

    /// Passes a job to the writer, and waits until it is done.
    async fn write(&self, job: Job) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(DatabaseError::Closed)?;
        requests.send((job, reply)).await.map_err(|_| DatabaseError::Closed)?;
        let done = answer.await.map_err(|_| DatabaseError::Closed)?;
        done.map_err(|error| named(error, self.shared.file.path()))
    }

    /// Reads from the database on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let read = blocking(move || {
            let reader = shared.reader()?;
            let done = work(&shared, &reader);
            if done.is_ok() {
                shared.give_back(reader);
            }
            done
        });
        read.await.map_err(|error| named(error, self.shared.file.path()))
    }
}

/// Adds the path of the file to an error of the database.
fn named(error: StoreError, file: &Path) -> StoreError {
    match error {
        StoreError::Database(error) => error.in_file(file).into(),
        error => error,
    }
}

#[async_trait]
impl ChunkStore for LibsqlStore {
    fn model(&self) -> &EmbeddingModel {
        &self.shared.model
    }

    async fn replace_all(
        &self,
        documents: Vec<(Document, Vec<NewChunk>)>,
    ) -> Result<u64, StoreError> {
        check_documents(&self.shared.model, &documents)?;
        self.write(Job::Replace(documents)).await
    }

    async fn delete(&self, filter: &Filter) -> Result<u64, StoreError> {
        self.write(Job::Delete(filter.clone())).await
    }

    async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError> {
        let uri = uri.to_owned();
        self.read(move |_, Reader { connection, .. }| {
            let sql = "SELECT fields FROM rag_document WHERE live AND uri = ?";
            let mut documents =
                select(connection, sql, params![uri.as_bytes()], |row| document(row, 0))?;
            Ok(documents.pop())
        })
        .await
    }

    async fn documents(
        &self,
        filter: &Filter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let filter = filter.clone();
        let scope = filter.scope.clone().map(String::into_bytes);
        let mut after = after.map(|uri| uri.as_bytes().to_vec());
        self.read(move |_, Reader { connection, .. }| {
            let compiled = filter.compile();
            let mut found = Vec::new();
            let mut sizes = page_sizes(limit);
            while let Some(at_once) = sizes.next().filter(|_| found.len() < limit) {
                let sql = "SELECT uri, labels, fields FROM rag_document \
                    WHERE live AND (?1 IS NULL OR uri > ?1) AND (?2 IS NULL OR uri = ?2) ORDER BY uri LIMIT ?3";
                let values = params![after.clone(), scope.clone(), at_once as i64];
                let page = select(connection, sql, values, |row| {
                    let labels: Vec<u8> = get(row, 1)?;
                    let passes = compiled.matches(&read_labels(&labels)?);
                    Ok::<_, StoreError>((text(row, 0)?, passes.then(|| document(row, 2)).transpose()?))
                })?;
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone().into_bytes());
                found.extend(page.into_iter().filter_map(|(_, document)| document));
            }
            found.truncate(limit);
            Ok(found)
        })
        .await
    }

    async fn first_chunks(&self, uri: &str, limit: usize) -> Result<Vec<StoredChunk>, StoreError> {
        let uri = uri.to_owned();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |_, Reader { connection, .. }| {
            let sql = "SELECT c.document, c.place, c.fields, c.content, r.count FROM rag_document d \
                JOIN rag_chunk c ON c.document = d.number JOIN rag_rows r ON r.document = d.number \
                WHERE d.live AND d.uri = ? ORDER BY c.place LIMIT ?";
            select(connection, sql, params![uri.as_bytes(), limit], |row| chunk(row, &uri))
        })
        .await
    }

    async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError> {
        let uri = uri.to_owned();
        let dimension = self.shared.model.dimension;
        self.read(move |_, Reader { connection, .. }| {
            // One value holds the rows of all chunks, and is read once.
            let sql = "SELECT c.document, c.place, c.fields, c.content, r.count, \
                CASE WHEN c.place = 0 THEN r.rows END FROM rag_document d \
                JOIN rag_chunk c ON c.document = d.number JOIN rag_rows r ON r.document = d.number \
                WHERE d.live AND d.uri = ? ORDER BY c.place";
            let found = select(connection, sql, params![uri.as_bytes()], |row| {
                Ok::<_, StoreError>((chunk(row, &uri)?, get::<Option<Vec<u8>>>(row, 5)?))
            })?;
            let Some((_, Some(bytes))) = found.first() else {
                return Ok(Vec::new());
            };
            let vectors = codec::rows(bytes, dimension)
                .map(|row| Ok(row?.vector()))
                .collect::<Result<Vec<_>, StoreError>>()?;
            let chunks = found.iter().cloned().zip(vectors);
            Ok(chunks.map(|((chunk, _), vector)| NewChunk::from_stored(chunk, vector)).collect())
        })
        .await
    }

    async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError> {
        self.read(move |_, reader| reader.chunk(id)).await
    }

    async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let scope = filter.scope_label();
        let filter = filter.compile();
        self.read(move |shared, reader| {
            shared.refresh(&reader.connection)?;
            let indexed = shared.indexed();
            Ok(indexed.index.select(scope, filter).map(|(_, rows)| u64::from(rows)).sum())
        })
        .await
    }

    async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError> {
        check_request(request, &self.shared.model)?;
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let request = request.clone();
        self.read(move |shared, reader| shared.search(reader, &request)).await
    }

    async fn checkpoint(&self) -> Result<(), StoreError> {
        self.write(Job::Checkpoint).await.map(drop)
    }
}

impl Shared {
    fn reader(&self) -> Result<Reader, StoreError> {
        self.file.check_unchanged()?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(reader) = idle else {
            return Reader::new(self.file.connect()?);
        };
        Ok(reader)
    }

    fn give_back(&self, reader: Reader) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(reader);
        }
    }

    fn indexed(&self) -> RwLockReadGuard<'_, IndexedRevision> {
        self.indexed.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn search(&self, reader: &Reader, request: &SearchRequest) -> Result<Vec<Hit>, StoreError> {
        let mut analyzer = Analyzer::default();
        for _ in 0..ATTEMPTS {
            // The database does not change within the transaction. The index must have the same
            // revision.
            let hits = transaction(&reader.connection, "BEGIN", || {
                let revision = reader.revision()?;
                let words = reader.words(&request.text, &mut analyzer)?;
                let found = {
                    let indexed = self.indexed();
                    if indexed.revision != revision {
                        return Ok(None);
                    }
                    indexed.index.search(&Query::new(request, &words, &self.model))
                };
                found
                    .into_iter()
                    .map(|found| reader.hit(request, found))
                    .collect::<Result<_, _>>()
                    .map(Some)
            })?;
            if let Some(hits) = hits {
                return Ok(hits);
            }
            self.refresh(&reader.connection)?;
        }
        Err(DatabaseError::Busy.into())
    }

    /// Applies the changes of the database to the index.
    fn refresh(&self, connection: &Connection) -> Result<(), StoreError> {
        if revision(connection)? == self.indexed().revision {
            return Ok(());
        }
        let _one = self.refresh_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.indexed().revision;
        transaction(connection, "BEGIN", || {
            let revision = revision(connection)?;
            if revision == known {
                return Ok(());
            }
            let stored = schema::stored_model(connection)?;
            if let Some(stored) = stored.filter(|stored| *stored != self.model) {
                return Err(StoreError::OtherModel { stored, wanted: self.model.clone() });
            }
            if known < 0 {
                // No search can read the index before it is loaded.
                let mut index = Index::new(self.model.dimension);
                load(connection, &mut index)?;
                let mut indexed = self.indexed.write().unwrap_or_else(PoisonError::into_inner);
                *indexed = IndexedRevision { index, revision };
            } else {
                let mut indexed = self.indexed.write().unwrap_or_else(PoisonError::into_inner);
                let mut terms = Vec::new();
                changes(connection, known, &mut indexed.index, |index, entry, bytes| {
                    let dimension = index.dimension();
                    let mut adding = index.add(entry);
                    for row in codec::rows(&bytes, dimension) {
                        let row = row?;
                        row.terms(&mut terms)?;
                        adding.row(row.with_terms(&terms));
                    }
                    Ok(())
                })?;
                indexed.revision = revision;
            }
            Ok(())
        })
    }
}

/// Reads all documents into an empty index.
///
/// Sorts words into their lists on another thread, because this takes as long as everything else.
fn load(connection: &Connection, index: &mut Index) -> Result<(), StoreError> {
    let dimension = index.dimension();
    // A row has at least a byte for each dimension. A damaged count must not reserve more.
    let sql = format!(
        "SELECT coalesce(sum(min(count, length(rows) / {})), 0) FROM rag_rows",
        dimension.max(1)
    );
    let count = number(connection, &sql)?;
    index.reserve(count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0));
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<u8>>(SORT_QUEUE);
    let postings = thread::scope(|scope| {
        let sorted = scope.spawn(move || sort_terms(receiver));
        let mut batch = Vec::new();
        let read = changes(connection, -1, index, |index, entry, bytes| {
            let mut adding = index.add(entry);
            for row in codec::rows(&bytes, dimension) {
                let row = row?;
                row.encode_terms(&mut batch);
                adding.row_without_terms(row.with_terms(&[]));
            }
            if batch.len() > TERMS_AT_ONCE {
                // If the other thread has stopped, it reports the reason.
                let _ = sender.send(std::mem::take(&mut batch));
            }
            Ok(())
        });
        let _ = sender.send(batch);
        drop(sender);
        let sorted = sorted.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        read.and(sorted)
    })?;
    index.set_postings(postings);
    Ok(())
}

/// Sorts the terms of rows, in messages of [`codec::EncodedRow::encode_terms`], into lists.
fn sort_terms(messages: std::sync::mpsc::Receiver<Vec<u8>>) -> Result<Postings, StoreError> {
    let mut postings = Postings::default();
    let mut terms = Vec::new();
    for bytes in messages {
        for row in codec::rows(&bytes, 0) {
            let row = row?;
            postings.push(row.terms(&mut terms)?, row.length);
        }
    }
    Ok(postings)
}

/// Passes all documents that changed after a revision to `add`, with their rows.
fn changes(
    connection: &Connection,
    after: i64,
    index: &mut Index,
    mut add: impl FnMut(&mut Index, Entry, Vec<u8>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    // With another join order, or with an order by the index on revisions, opening takes several
    // times as long.
    let sql = if after < 0 {
        "SELECT d.number, d.live, d.uri, d.labels, r.rows FROM rag_document d NOT INDEXED \
         LEFT JOIN rag_rows r ON r.document = d.number ORDER BY d.number"
    } else {
        "SELECT d.number, d.live, d.uri, d.labels, r.rows FROM rag_document d \
         LEFT JOIN rag_rows r ON r.document = d.number WHERE d.revision > ?1 ORDER BY d.number"
    };
    let params = if after < 0 { vec![] } else { vec![libsql::Value::Integer(after)] };
    let mut rows = wait(connection.query(sql, params)).map_err(error)?;
    while let Some(row) = wait(rows.next()).map_err(error)? {
        let number: u32 = get(&row, 0)?;
        let live: bool = get(&row, 1)?;
        index.remove(number);
        if !live {
            continue;
        }
        let uri = label(Kind::Uri, &[&text(&row, 2)?]);
        let labels = read_labels(&get::<Vec<u8>>(&row, 3)?)?;
        add(index, Entry { number, uri, labels }, get(&row, 4)?)?;
    }
    Ok(())
}

const REVISION: &str = "SELECT value FROM rag_setting WHERE name = 'revision'";

fn revision(connection: &Connection) -> Result<i64, StoreError> {
    number(connection, REVISION)?.ok_or_else(no_revision)
}

fn no_revision() -> StoreError {
    StoreError::damaged("no revision")
}

/// A connection with the prepared statements of a search.
struct Reader {
    connection: Connection,
    revision: Prepared,
    term: Prepared,
    chunk: Prepared,
}

impl Reader {
    fn new(connection: Connection) -> Result<Self, StoreError> {
        Ok(Self {
            revision: Prepared::new(&connection, REVISION)?,
            term: Prepared::new(&connection, "SELECT number FROM rag_term WHERE term = ?")?,
            chunk: Prepared::new(
                &connection,
                "SELECT c.document, c.place, c.fields, c.content, r.count, d.fields FROM rag_chunk c \
                 JOIN rag_document d ON d.number = c.document JOIN rag_rows r ON r.document = c.document \
                 WHERE d.live AND c.document = ? AND c.place = ?",
            )?,
            connection,
        })
    }

    fn revision(&self) -> Result<i64, StoreError> {
        self.revision.number(())?.ok_or_else(no_revision)
    }

    /// Returns the words of a question, with the numbers of their terms.
    fn words(&self, text: &str, analyzer: &mut Analyzer) -> Result<Vec<Word>, StoreError> {
        let languages =
            Language::of_store(|term| self.number_of_term(term).map(|number| number.is_some()))?;
        let words = analyzer.question(text, SearchRequest::MAX_TERMS, &languages);
        Word::all(&words, |term| self.number_of_term(term))
    }

    fn number_of_term(&self, term: &str) -> Result<Option<Term>, StoreError> {
        let number = self.term.number(params![term])?;
        Ok(number.and_then(|number| Term::try_from(number).ok()))
    }

    /// Reads the hit of a found row.
    fn hit(&self, request: &SearchRequest, found: FoundRow) -> Result<Hit, StoreError> {
        let id = ChunkId { document: found.document, index: found.index };
        let (document, chunk) = self
            .chunk(id)?
            .ok_or_else(|| StoreError::damaged(format_args!("chunk {id} is missing")))?;
        Ok(found.into_hit(request, &document, chunk))
    }

    fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError> {
        let mut rows = self.chunk.query(params![id.document, id.index])?;
        let Some(row) = wait(rows.next()).map_err(error)? else { return Ok(None) };
        let found = document(&row, 5).and_then(|document| {
            let chunk = chunk(&row, &document.uri)?;
            Ok(Some((document, chunk)))
        });
        // Otherwise the statement would keep the transaction open.
        self.chunk.reset();
        found
    }
}

fn document(row: &Row, column: i32) -> Result<Document, StoreError> {
    Ok(json(row, column)?)
}

/// Reads a chunk from the columns document, place, fields, content, count.
fn chunk(row: &Row, uri: &str) -> Result<StoredChunk, StoreError> {
    let fields: ChunkFields<'_> = json(row, 2)?;
    let id = ChunkId { document: get(row, 0)?, index: get(row, 1)? };
    Ok(fields.chunk(id, uri, text(row, 3)?, get(row, 4)?))
}

fn read_labels(bytes: &[u8]) -> Result<Vec<Label>, StoreError> {
    let (labels, rest) = bytes.as_chunks();
    if rest.is_empty() {
        Ok(labels.iter().map(|bytes| Label::from_le_bytes(*bytes)).collect())
    } else {
        Err(StoreError::damaged("failed to decode the labels of a document"))
    }
}

/// Returns how many documents each statement of a list reads. The filter is applied afterwards: if
/// few documents pass it, the later statements read more.
fn page_sizes(limit: usize) -> impl Iterator<Item = usize> {
    let first = limit.min(MAX_AT_ONCE);
    std::iter::successors(Some(first), |size| Some((2 * size).min(MAX_AT_ONCE)))
}

#[cfg(test)]
mod tests {
    use libsql::Builder;
    use marquetry_database::libsql::damages;

    use super::*;
    use crate::store::conformance;

    fn model() -> EmbeddingModel {
        EmbeddingModel::new("test", 64)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_conforms() {
        let folder = tempfile::tempdir().unwrap();
        let count = std::sync::atomic::AtomicUsize::new(0);
        conformance::check(async || {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let path = folder.path().join(format!("{number}.db"));
            LibsqlStore::open(path, model()).await.unwrap()
        })
        .await;
    }

    #[test]
    fn a_list_reads_all_documents_with_few_statements() {
        assert_eq!(page_sizes(6).take(8).collect::<Vec<_>>(), [6, 12, 24, 48, 96, 192, 256, 256]);
        assert_eq!(page_sizes(1).take(400).sum::<usize>(), 255 + 392 * 256);
        assert_eq!(page_sizes(1_000).take(2).collect::<Vec<_>>(), [256, 256]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn databases_of_newer_programs_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(LibsqlStore::open(&path, model()).await.unwrap());
        let connection = Builder::new_local(&path).build().await.unwrap().connect().unwrap();
        // The writer of the store may still be closing the database.
        connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let newer = "UPDATE rag_setting SET value = 6 WHERE name = 'schema'";
        connection.execute(newer, ()).await.unwrap();
        let error = LibsqlStore::open(&path, model()).await.err().unwrap();
        assert!(
            matches!(
                error,
                StoreError::Database(DatabaseError::NewerSchema { found: 6, known: 5 })
            ),
            "{error}"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = LibsqlStore::open(&path, model()).await.unwrap();
        let chunk = NewChunk::of_text("Content.", vec![1.0; 64]);
        store.replace(Document::new("a"), vec![chunk]).await.unwrap();
        let connection = Builder::new_local(&path).build().await.unwrap().connect().unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        connection.execute("UPDATE rag_rows SET rows = substr(rows, 1, 20)", ()).await.unwrap();
        let error = LibsqlStore::open(&path, model()).await.err().unwrap();
        assert!(matches!(error, StoreError::Database(DatabaseError::Damaged(_))), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn values_of_other_types_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let store = LibsqlStore::open(&path, model()).await.unwrap();
        let chunks = vec![NewChunk::of_text("Content.", vec![1.0; 64])];
        store.replace(Document::new("a"), chunks.clone()).await.unwrap();
        store.checkpoint().await.unwrap();
        let connection = Builder::new_local(&path).build().await.unwrap().connect().unwrap();
        let damages = damages(&connection).unwrap();
        assert!(damages.len() > 50, "{damages:?}");
        let mut refused = 0;
        for (at, damage) in damages.iter().enumerate() {
            let damaged = folder.path().join(format!("{at}.db"));
            std::fs::copy(&path, &damaged).unwrap();
            let connection = Builder::new_local(&damaged).build().await.unwrap().connect().unwrap();
            if connection.execute(damage, ()).await.is_err() {
                // The schema does not let it in.
                continue;
            }
            drop(connection);
            let Ok(store) = LibsqlStore::open(&damaged, model()).await else {
                refused += 1;
                continue;
            };
            let filter = Filter::default();
            let request = SearchRequest::new("content", Some(vec![1.0; 64]));
            let errors = [
                store.document("a").await.err(),
                store.documents(&filter, None, 10).await.err(),
                store.chunks("a").await.err(),
                store.embedded("a").await.err(),
                store.search(&request).await.err(),
                store.replace(Document::new("a"), chunks.clone()).await.err(),
                store.delete(&filter).await.err(),
            ];
            for error in errors.into_iter().flatten() {
                assert!(matches!(error, StoreError::Database(_)), "{damage}: {error}");
                refused += 1;
            }
        }
        assert!(refused > 20, "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text.db");
        std::fs::write(&text, "Some text in place of a database. ".repeat(100)).unwrap();
        let error = LibsqlStore::open(&text, model()).await.err().unwrap().to_string();
        assert!(error.contains("text.db: it is not a database"), "{error}");
    }
}
