//! The single thread of this process that writes.

use std::collections::HashMap;

use libsql::{Connection, params};
use marquetry_database::libsql::{LibsqlFile, Prepared, checkpoint, error, get, transaction, wait};
use tokio::sync::{mpsc, oneshot};

use super::{
    super::{codec::encode, fields::ChunkFields},
    schema,
};
use crate::{
    EmbeddingModel,
    ranking::{Analyzer, ChunkTerms, PackedVector, Row, Term},
    types::{Document, Filter, LabelFilter, NewChunk, StoreError, labels},
};

/// A job of the writer.
pub(super) enum Job {
    Replace(Vec<(Document, Vec<NewChunk>)>),
    Delete(Filter),
    /// Moves all earlier writes into the file.
    Checkpoint,
}

/// A job, and the channel for its result.
pub(super) type WriteRequest = (Job, oneshot::Sender<Result<u64, StoreError>>);

/// Maximum number of requests in the queue; further callers wait.
pub(super) const QUEUE: usize = 64;
/// Approximate number of chunks in one transaction. A document is not divided, since searches see
/// either all of its chunks or none: one with 20,000 delays other writers for seconds.
const CHUNKS_AT_ONCE: usize = 2_048;
/// Maximum number of terms in the cache.
const MAX_TERMS: usize = 1 << 18;

/// Writes until the store is dropped. `refresh` shows the changes to the searches of this process.
pub(super) fn run(
    connection: &Connection,
    model: &EmbeddingModel,
    file: &LibsqlFile,
    mut requests: mpsc::Receiver<WriteRequest>,
    refresh: impl Fn(&Connection),
) {
    let mut writer = None;
    while let Some(request) = requests.blocking_recv() {
        // Requests that arrive at the same time share a transaction, because most of its cost is
        // fixed.
        let mut batch = Vec::new();
        let mut size = 0;
        let mut next = Some(request);
        let mut checkpoint_reply = None;
        while let Some((job, reply)) = next.take() {
            size += match &job {
                Job::Replace(documents) => {
                    documents.iter().map(|(_, chunks)| 1 + chunks.len()).sum::<usize>()
                }
                Job::Delete(_) => 1,
                Job::Checkpoint => {
                    checkpoint_reply = Some(reply);
                    break;
                }
            };
            batch.push((job, reply));
            if size < CHUNKS_AT_ONCE {
                next = requests.try_recv().ok();
            }
        }
        if !batch.is_empty() {
            write(connection, model, file, &mut writer, batch, &refresh);
        }
        if let Some(reply) = checkpoint_reply {
            let _ = reply.send(checkpoint(connection).map(|()| 0).map_err(StoreError::from));
        }
    }
    drop(writer);
    // No caller is left to receive an error. Data that stays in the log is read when the file is
    // next opened.
    let _ = checkpoint(connection);
}

/// Writes requests together; if that fails, writes each by itself.
fn write(
    connection: &Connection,
    model: &EmbeddingModel,
    file: &LibsqlFile,
    writer: &mut Option<Writer>,
    batch: Vec<WriteRequest>,
    refresh: impl Fn(&Connection),
) {
    let (jobs, replies): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    let one_by_one = jobs.len() > 1;
    match commit(connection, model, file, writer, &jobs) {
        Ok(counts) => {
            refresh(connection);
            for (reply, count) in replies.into_iter().zip(counts) {
                // Sending fails if the caller has gone.
                let _ = reply.send(Ok(count));
            }
        }
        // A failed request must not make the others fail.
        Err(_) if one_by_one => {
            for (job, reply) in jobs.into_iter().zip(replies) {
                let done = commit(connection, model, file, writer, &[job]);
                let _ = reply.send(done.map(|counts| counts.iter().sum()));
            }
            refresh(connection);
        }
        Err(error) => {
            if let Some(reply) = replies.into_iter().next() {
                let _ = reply.send(Err(error));
            }
        }
    }
}

fn commit(
    connection: &Connection,
    model: &EmbeddingModel,
    file: &LibsqlFile,
    writer: &mut Option<Writer>,
    jobs: &[Job],
) -> Result<Vec<u64>, StoreError> {
    file.check_unchanged()?;
    let slot = &mut *writer;
    let done = transaction(connection, "BEGIN IMMEDIATE", || {
        // Another process may have reset the database in the meantime.
        if let Some(stored) = schema::stored_model(connection)?.filter(|stored| stored != model) {
            return Err(StoreError::OtherModel { stored, wanted: model.clone() });
        }
        let writer = match slot {
            Some(writer) => writer,
            none => none.insert(Writer::new(connection)?),
        };
        let revision =
            (writer.next_revision.number(())?).ok_or_else(|| StoreError::damaged("no revision"))?;
        jobs.iter()
            .map(|job| match job {
                Job::Replace(documents) => documents
                    .iter()
                    .map(|(document, chunks)| writer.put(document, chunks, revision))
                    .sum(),
                Job::Delete(filter) => writer.delete(filter, revision),
                // A checkpoint writes no documents.
                Job::Checkpoint => Ok(0),
            })
            .collect()
    });
    if done.is_err() {
        // The writer may have cached terms that were rolled back.
        *writer = None;
    }
    done
}

struct Writer {
    analyzer: Analyzer,
    terms: HashMap<Box<str>, Term>,
    next_revision: Prepared,
    find_term: Prepared,
    add_term: Prepared,
    put_document: Prepared,
    drop_chunks: Prepared,
    add_chunk: Prepared,
    put_rows: Prepared,
    drop_rows: Prepared,
    all: Prepared,
    scope: Prepared,
    kill: Prepared,
}

impl Writer {
    fn new(connection: &Connection) -> Result<Self, StoreError> {
        Ok(Self {
            analyzer: Analyzer::default(),
            terms: HashMap::new(),
            next_revision: Prepared::new(
                connection,
                "UPDATE rag_setting SET value = value + 1 WHERE name = 'revision' RETURNING value",
            )?,
            find_term: Prepared::new(connection, "SELECT number FROM rag_term WHERE term = ?")?,
            add_term: Prepared::new(
                connection,
                "INSERT INTO rag_term (term) VALUES (?) RETURNING number",
            )?,
            put_document: Prepared::new(
                connection,
                "INSERT INTO rag_document (uri, revision, live, labels, fields) VALUES (?, ?, 1, ?, ?) \
                 ON CONFLICT (uri) DO UPDATE SET revision = excluded.revision, live = 1, \
                 labels = excluded.labels, fields = excluded.fields RETURNING number",
            )?,
            drop_chunks: Prepared::new(connection, "DELETE FROM rag_chunk WHERE document = ?")?,
            add_chunk: Prepared::new(
                connection,
                "INSERT INTO rag_chunk (document, place, fields, content) VALUES (?, ?, ?, ?)",
            )?,
            put_rows: Prepared::new(
                connection,
                "INSERT OR REPLACE INTO rag_rows VALUES (?, ?, ?)",
            )?,
            drop_rows: Prepared::new(
                connection,
                "DELETE FROM rag_rows WHERE document = ? RETURNING count",
            )?,
            all: Prepared::new(connection, "SELECT number, labels FROM rag_document WHERE live")?,
            scope: Prepared::new(
                connection,
                "SELECT number, labels FROM rag_document WHERE live AND uri = ?",
            )?,
            kill: Prepared::new(
                connection,
                "UPDATE rag_document SET live = 0, labels = x'', fields = '', revision = ?2 WHERE number = ?1",
            )?,
        })
    }

    fn put(
        &mut self,
        document: &Document,
        chunks: &[NewChunk],
        revision: i64,
    ) -> Result<u64, StoreError> {
        let labels: Vec<u8> = labels(document).into_iter().flat_map(u64::to_le_bytes).collect();
        let fields = serde_json::to_string(document).map_err(StoreError::engine)?;
        let number = self
            .put_document
            .number(params![document.uri.as_bytes(), revision, labels, fields])?
            .ok_or_else(|| StoreError::damaged("a document has no number"))?;
        self.drop_chunks.execute(params![number])?;
        let counted = {
            let Self { analyzer, terms, find_term, add_term, .. } = self;
            analyzer.count_terms(document, chunks, |term| {
                term_number(terms, find_term, add_term, term)
            })?
        };
        let mut rows = Vec::new();
        for (place, (chunk, ChunkTerms { terms, length })) in
            (0_i64..).zip(chunks.iter().zip(counted))
        {
            encode(&Row { vector: PackedVector::new(&chunk.vector), terms, length }, &mut rows);
            let fields =
                serde_json::to_string(&ChunkFields::of(chunk)).map_err(StoreError::engine)?;
            self.add_chunk.execute(params![number, place, fields, chunk.content.as_bytes()])?;
        }
        self.put_rows.execute(params![number, chunks.len() as i64, rows])?;
        Ok(chunks.len() as u64)
    }

    fn delete(&self, filter: &Filter, revision: i64) -> Result<u64, StoreError> {
        let mut rows = match &filter.scope {
            Some(uri) => self.scope.query(params![uri.as_bytes()])?,
            None => self.all.query(())?,
        };
        let filter: LabelFilter = filter.compile();
        let mut gone = Vec::new();
        while let Some(row) = wait(rows.next()).map_err(error)? {
            let labels: Vec<u8> = get(&row, 1)?;
            if filter.matches(&super::read_labels(&labels)?) {
                gone.push(get::<i64>(&row, 0)?);
            }
        }
        let mut count = 0;
        for number in gone {
            let rows = self.drop_rows.number(params![number])?.unwrap_or(0);
            count += u64::try_from(rows).unwrap_or(0);
            self.drop_chunks.execute(params![number])?;
            self.kill.execute(params![number, revision])?;
        }
        Ok(count)
    }
}

fn term_number(
    terms: &mut HashMap<Box<str>, Term>,
    find: &Prepared,
    add: &Prepared,
    term: &str,
) -> Result<Term, StoreError> {
    if let Some(&number) = terms.get(term) {
        return Ok(number);
    }
    let stored = match find.number(params![term])? {
        Some(number) => Some(number),
        None => add.number(params![term])?,
    };
    let number = stored
        .and_then(|number| Term::try_from(number).ok())
        .ok_or_else(|| StoreError::damaged("a term has no number"))?;
    if terms.len() >= MAX_TERMS {
        terms.clear();
    }
    terms.insert(term.into(), number);
    Ok(number)
}
