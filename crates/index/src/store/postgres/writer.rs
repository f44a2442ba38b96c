//! Writes documents. Each write is one transaction that locks the single row of `rag_state`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    convert::Infallible,
};

use deadpool_postgres::Transaction;
use marquetry_database::postgres::{Lease, Parameter};

use super::{
    super::{codec, fields::ChunkFields},
    filter::{Condition, key, signed},
    half::HalfVector,
    postings::{self, CHUNKS_IN_BLOCK, Posting},
    schema::{SELECT_STATE, StateRow},
    vector_index::VectorIndex,
};
use crate::{
    EmbeddingModel,
    ranking::{Analyzer, ChunkTerms, PackedVector, Row, Term, unit},
    types::{Document, NewChunk, StoreError, labels, reader_labels},
};

/// Maximum number of rows that one statement inserts or updates.
const MAX_ROWS_PER_STATEMENT: usize = 1_024;
/// Maximum number of counters or lists of postings that one statement changes.
const MAX_CHANGES_PER_STATEMENT: usize = 8 * MAX_ROWS_PER_STATEMENT;
/// Maximum number of documents that one round of statements deletes.
const MAX_DELETED_PER_ROUND: usize = 256;

/// Documents that are prepared for writing.
pub(super) struct Batch {
    /// The documents without duplicates: of several with the same URI, the last.
    documents: Vec<PreparedDocument>,
    /// The distinct terms of all chunks. Chunks refer to terms by their index here, until
    /// [`Self::write`] replaces it by their number in the database.
    terms: Vec<Vec<u8>>,
    /// Number of chunks, including those of dropped duplicates.
    chunk_count: u64,
}

struct PreparedDocument {
    key: Vec<u8>,
    uri: Vec<u8>,
    /// Array literal, because the elements of an array of arrays must have the same length.
    labels: String,
    /// Labels of the readers.
    readers: Vec<i64>,
    fields: Vec<u8>,
    chunks: Vec<PreparedChunk>,
}

struct PreparedChunk {
    row: Row,
    /// The unit vector for pgvector's index. [`None`] for a vector of zeros, which has no
    /// direction.
    half_vector: Option<HalfVector>,
    fields: Vec<u8>,
    content: Vec<u8>,
}

impl PreparedChunk {
    fn new(chunk: NewChunk, terms: Vec<(Term, u8)>, length: u32) -> Result<Self, StoreError> {
        Ok(Self {
            row: Row { vector: PackedVector::new(&chunk.vector), terms, length },
            half_vector: unit(&chunk.vector).map(|unit| HalfVector::new(&unit)),
            fields: serde_json::to_vec(&ChunkFields::of(&chunk)).map_err(StoreError::engine)?,
            content: chunk.content.into_bytes(),
        })
    }
}

/// Formats numbers as an array literal of PostgreSQL.
fn array_literal(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("{{{}}}", numbers.join(","))
}

/// A document in the database.
#[derive(Clone)]
struct StoredDocument {
    number: i32,
    block: i32,
    /// Labels of the readers.
    readers: Vec<i64>,
}

impl Batch {
    /// Computes everything that does not need the database.
    pub(super) fn new(documents: Vec<(Document, Vec<NewChunk>)>) -> Result<Self, StoreError> {
        let chunk_count = documents.iter().map(|(_, chunks)| chunks.len() as u64).sum();
        let mut analyzer = Analyzer::default();
        let mut terms = Vec::new();
        let mut numbers: HashMap<Vec<u8>, Term> = HashMap::new();
        let mut seen = HashSet::new();
        let mut prepared = Vec::new();
        for (document, chunks) in documents.into_iter().rev() {
            let key = key(&document.uri);
            if !seen.insert(key.clone()) {
                continue;
            }
            let Ok(counted) = analyzer.count_terms(&document, &chunks, |term| {
                Ok::<_, Infallible>(*numbers.entry(term.into()).or_insert_with(|| {
                    terms.push(term.into());
                    terms.len() as Term - 1
                }))
            });
            let mut prepared_chunks = Vec::with_capacity(chunks.len());
            for (chunk, ChunkTerms { terms, length }) in chunks.into_iter().zip(counted) {
                prepared_chunks.push(PreparedChunk::new(chunk, terms, length)?);
            }
            prepared.push(PreparedDocument {
                key,
                labels: array_literal(&signed(&labels(&document))),
                fields: serde_json::to_vec(&document).map_err(StoreError::engine)?,
                readers: signed(&reader_labels(&document)),
                chunks: prepared_chunks,
                uri: document.uri.into_bytes(),
            });
        }
        prepared.reverse();
        Ok(Self { documents: prepared, terms, chunk_count })
    }

    /// Writes all documents or none, and returns the number of new chunks.
    pub(super) async fn write(
        mut self,
        client: &mut Lease,
        model: &EmbeddingModel,
        index: &VectorIndex,
    ) -> Result<u64, StoreError> {
        let transaction = client.transaction().await?;
        let mut state = lock_state(&transaction, model).await?;
        let mut changes = Changes::default();

        let keys: Vec<&[u8]> = self.documents.iter().map(|document| &document.key[..]).collect();
        let old = find_documents(&transaction, "d.key = ANY ($1)", &[&keys]).await?;
        let replaced: Vec<StoredDocument> = old.values().cloned().collect();
        changes.delete_chunks(&transaction, model, &replaced).await?;

        let stored = self.write_documents(&transaction, &old, &mut state).await?;
        let terms = numbers_of_terms(&transaction, &self.terms).await?;
        for (document, stored) in self.documents.iter_mut().zip(&stored) {
            for (place, chunk) in (0..).zip(&mut document.chunks) {
                for (term, _) in &mut chunk.row.terms {
                    *term = terms[*term as usize];
                }
                chunk.row.terms.sort_unstable();
                changes.add(stored, place, &chunk.row);
            }
        }
        self.write_chunks(&transaction, &stored).await?;
        changes.write(&transaction, &mut state).await?;
        transaction.commit().await?;
        index.create_if_needed(state.chunks);
        Ok(self.chunk_count)
    }

    /// Writes the documents without their chunks, and returns them with their numbers and blocks.
    async fn write_documents(
        &self,
        transaction: &Transaction<'_>,
        old: &HashMap<Vec<u8>, StoredDocument>,
        state: &mut StateRow,
    ) -> Result<Vec<StoredDocument>, StoreError> {
        let (replaced, new): (Vec<_>, Vec<_>) =
            self.documents.iter().partition(|document| old.contains_key(&document.key));
        update_documents(transaction, &replaced, old).await?;
        let mut all = old.clone();
        for batch in new.chunks(MAX_ROWS_PER_STATEMENT) {
            insert_documents(transaction, batch, state, &mut all).await?;
        }
        self.documents
            .iter()
            .map(|document| {
                let StoredDocument { number, block, .. } = *all
                    .get(&document.key)
                    .ok_or_else(|| StoreError::damaged("a document has no number"))?;
                Ok(StoredDocument { number, block, readers: document.readers.clone() })
            })
            .collect()
    }

    async fn write_chunks(
        &self,
        transaction: &Transaction<'_>,
        stored: &[StoredDocument],
    ) -> Result<(), StoreError> {
        let mut all = Vec::new();
        for (document, stored) in self.documents.iter().zip(stored) {
            for (place, chunk) in (0..).zip(&document.chunks) {
                all.push(PlacedChunk { document: stored.number, place, chunk });
            }
        }
        for batch in all.chunks(MAX_ROWS_PER_STATEMENT) {
            insert_chunks(transaction, batch).await?;
            insert_vectors(transaction, batch).await?;
        }
        Ok(())
    }
}

/// A chunk with its place in a stored document.
struct PlacedChunk<'a> {
    /// Number of the document.
    document: i32,
    place: i32,
    chunk: &'a PreparedChunk,
}

async fn insert_chunks(
    transaction: &Transaction<'_>,
    chunks: &[PlacedChunk<'_>],
) -> Result<(), StoreError> {
    let documents: Vec<i32> = chunks.iter().map(|placed| placed.document).collect();
    let places: Vec<i32> = chunks.iter().map(|placed| placed.place).collect();
    let mut packed = Vec::with_capacity(chunks.len());
    for PlacedChunk { chunk, .. } in chunks {
        let mut bytes = Vec::new();
        codec::encode(&chunk.row, &mut bytes);
        packed.push(bytes);
    }
    let fields: Vec<&[u8]> = chunks.iter().map(|placed| &*placed.chunk.fields).collect();
    let contents: Vec<&[u8]> = chunks.iter().map(|placed| &*placed.chunk.content).collect();
    let sql = "INSERT INTO rag_chunk (document, place, packed, fields, content) SELECT * FROM \
        unnest($1::integer[], $2::integer[], $3::bytea[], $4::bytea[], $5::bytea[])";
    execute(transaction, sql, &[&documents, &places, &packed, &fields, &contents]).await
}

/// Inserts the vectors of chunks for pgvector's index. Chunks without a direction are left out: no
/// search by vectors finds them.
async fn insert_vectors(
    transaction: &Transaction<'_>,
    chunks: &[PlacedChunk<'_>],
) -> Result<(), StoreError> {
    let mut documents: Vec<i32> = Vec::new();
    let mut places: Vec<i32> = Vec::new();
    let mut vectors: Vec<&HalfVector> = Vec::new();
    for PlacedChunk { document, place, chunk } in chunks {
        if let Some(vector) = &chunk.half_vector {
            documents.push(*document);
            places.push(*place);
            vectors.push(vector);
        }
    }
    let sql = "INSERT INTO rag_vector (document, place, embedding) SELECT * FROM \
        unnest($1::integer[], $2::integer[], $3::halfvec[])";
    execute(transaction, sql, &[&documents, &places, &vectors]).await
}

/// Updates the rows of documents that are in the database.
async fn update_documents(
    transaction: &Transaction<'_>,
    documents: &[&PreparedDocument],
    old: &HashMap<Vec<u8>, StoredDocument>,
) -> Result<(), StoreError> {
    for batch in documents.chunks(MAX_ROWS_PER_STATEMENT) {
        let numbers: Vec<i32> = batch.iter().map(|it| old[&it.key].number).collect();
        let labels: Vec<&str> = batch.iter().map(|it| &*it.labels).collect();
        let fields: Vec<&[u8]> = batch.iter().map(|it| &*it.fields).collect();
        let chunks: Vec<i32> = batch.iter().map(|it| it.chunks.len() as i32).collect();
        let readers: Vec<String> = batch.iter().map(|it| array_literal(&it.readers)).collect();
        let sql = "UPDATE rag_document d SET labels = u.labels::bigint[], readers = u.readers::bigint[], \
            fields = u.fields, chunks = u.chunks \
            FROM unnest($1::integer[], $2::text[], $3::text[], $4::bytea[], $5::integer[]) \
            AS u (number, labels, readers, fields, chunks) WHERE d.number = u.number";
        execute(transaction, sql, &[&numbers, &labels, &readers, &fields, &chunks]).await?;
    }
    Ok(())
}

/// Inserts rows for new documents in one statement, and adds their numbers to `all`.
async fn insert_documents(
    transaction: &Transaction<'_>,
    documents: &[&PreparedDocument],
    state: &mut StateRow,
    all: &mut HashMap<Vec<u8>, StoredDocument>,
) -> Result<(), StoreError> {
    let keys: Vec<&[u8]> = documents.iter().map(|it| &*it.key).collect();
    let uris: Vec<&[u8]> = documents.iter().map(|it| &*it.uri).collect();
    let labels: Vec<&str> = documents.iter().map(|it| &*it.labels).collect();
    let fields: Vec<&[u8]> = documents.iter().map(|it| &*it.fields).collect();
    let chunks: Vec<i32> = documents.iter().map(|it| it.chunks.len() as i32).collect();
    let mut blocks = Vec::with_capacity(documents.len());
    for document in documents {
        if state.filled >= CHUNKS_IN_BLOCK {
            state.block += 1;
            state.filled = 0;
        }
        // A document without chunks counts as one, too.
        state.filled += (document.chunks.len() as i64).max(1);
        blocks.push(state.block);
    }
    let readers: Vec<String> = documents.iter().map(|it| array_literal(&it.readers)).collect();
    // Inserted in order, so that the documents of a block have numbers close to each other.
    let sql = "INSERT INTO rag_document (key, uri, labels, fields, block, chunks, readers) \
        SELECT u.key, u.uri, u.labels::bigint[], u.fields, u.block, u.chunks, u.readers::bigint[] \
        FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bytea[], $5::integer[], $6::integer[], $7::text[]) \
        WITH ORDINALITY AS u (key, uri, labels, fields, block, chunks, readers, at) ORDER BY u.at \
        RETURNING key, number, block";
    let statement = transaction.prepare_cached(sql).await?;
    let parameters: [Parameter<'_>; 7] =
        [&keys, &uris, &labels, &fields, &blocks, &chunks, &readers];
    for row in transaction.query(&statement, &parameters).await? {
        let number = row.try_get(1)?;
        let block = row.try_get(2)?;
        let inserted = StoredDocument { number, block, readers: Vec::new() };
        all.insert(row.try_get(0)?, inserted);
    }
    Ok(())
}

/// Deletes the documents that pass the filter, and returns the number of their chunks.
pub(super) async fn delete(
    client: &mut Lease,
    model: &EmbeddingModel,
    condition: &Condition,
) -> Result<u64, StoreError> {
    let transaction = client.transaction().await?;
    let mut state = lock_state(&transaction, model).await?;
    let before = state.chunks;
    if condition.is_empty() {
        let all = "DELETE FROM rag_document; DELETE FROM rag_chunk; DELETE FROM rag_vector; DELETE FROM rag_term; \
            DELETE FROM rag_posting; DELETE FROM rag_reader; DELETE FROM rag_reader_term; UPDATE rag_state SET chunks = 0, length = 0, block = 0, filled = 0";
        transaction.batch_execute(all).await?;
        transaction.commit().await?;
        return Ok(before.cast_unsigned());
    }
    let found = find_documents(&transaction, &condition.sql(1), &condition.parameters(&[])).await?;
    let deleted: Vec<StoredDocument> = found.into_values().collect();
    let mut count = 0;
    for batch in deleted.chunks(MAX_DELETED_PER_ROUND) {
        let mut changes = Changes::default();
        changes.delete_chunks(&transaction, model, batch).await?;
        let numbers: Vec<i32> = batch.iter().map(|document| document.number).collect();
        let sql = "DELETE FROM rag_document WHERE number = ANY ($1)";
        execute(&transaction, sql, &[&numbers]).await?;
        // The change of the number of chunks is negative.
        count -= changes.chunks;
        changes.write(&transaction, &mut state).await?;
    }
    transaction.commit().await?;
    Ok(count.cast_unsigned())
}

/// Locks the state against other writers until the transaction ends, and returns it.
async fn lock_state(
    transaction: &Transaction<'_>,
    model: &EmbeddingModel,
) -> Result<StateRow, StoreError> {
    // Lookups read a small part of each table. The planner does not always recognise this, and
    // would then scan or hash whole tables.
    let settings = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off";
    transaction.batch_execute(settings).await?;
    let statement = transaction.prepare_cached(&format!("{SELECT_STATE} FOR UPDATE")).await?;
    StateRow::read(&transaction.query_one(&statement, &[]).await?, model)
}

/// Returns the documents for which a condition is true, by the hashes of their URIs.
async fn find_documents(
    transaction: &Transaction<'_>,
    condition: &str,
    parameters: &[Parameter<'_>],
) -> Result<HashMap<Vec<u8>, StoredDocument>, StoreError> {
    let sql =
        format!("SELECT d.key, d.number, d.block, d.readers FROM rag_document d WHERE {condition}");
    let statement = transaction.prepare_cached(&sql).await?;
    let rows = transaction.query(&statement, parameters).await?;
    rows.iter()
        .map(|row| {
            let document = StoredDocument {
                number: row.try_get(1)?,
                block: row.try_get(2)?,
                readers: row.try_get(3)?,
            };
            Ok((row.try_get(0)?, document))
        })
        .collect()
}

/// Returns the numbers of terms, in order. Inserts terms that are new.
async fn numbers_of_terms(
    transaction: &Transaction<'_>,
    terms: &[Vec<u8>],
) -> Result<Vec<Term>, StoreError> {
    let mut numbers: HashMap<Vec<u8>, i32> = HashMap::new();
    let find = "SELECT term, number FROM rag_term WHERE term = ANY ($1)";
    let add = "INSERT INTO rag_term (term, chunks) SELECT term, 0 FROM unnest($1::bytea[]) AS u (term) \
        RETURNING term, number";
    // The statement that inserts gets only the terms that the first did not find.
    for sql in [find, add] {
        let missing: Vec<&Vec<u8>> =
            terms.iter().filter(|term| !numbers.contains_key(*term)).collect();
        if missing.is_empty() {
            break;
        }
        let statement = transaction.prepare_cached(sql).await?;
        for row in transaction.query(&statement, &[&missing]).await? {
            numbers.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    terms
        .iter()
        .map(|term| {
            numbers
                .get(term)
                .map(|number| number.cast_unsigned())
                .ok_or_else(|| StoreError::damaged("a term has no number"))
        })
        .collect()
}

/// Changes to postings and counters that a transaction collects before it writes them.
#[derive(Default)]
struct Changes {
    /// Changes of postings, by term and block.
    postings: BTreeMap<(i32, i32), PostingsEdit>,
    /// Change of the number of chunks with each term.
    terms: BTreeMap<i32, i32>,
    /// Change of the number and length of the chunks that each reader may read.
    readers: BTreeMap<i64, (i64, i64)>,
    /// Change of the number of chunks with each term that each reader may read.
    reader_terms: BTreeMap<(i32, i64), i32>,
    /// Change of the number of all chunks.
    chunks: i64,
    /// Change of the length of all chunks.
    length: i64,
}

/// A change of the postings of one term in one block.
#[derive(Default)]
struct PostingsEdit {
    /// The documents whose postings are removed.
    removed_documents: BTreeSet<u32>,
    added: Vec<Posting>,
}

impl Changes {
    /// Counts one chunk for its readers; `delta` is 1 if it is added, -1 if it is removed.
    fn count_for_readers(
        &mut self,
        readers: &[i64],
        terms: &[(Term, u8)],
        length: u32,
        delta: i32,
    ) {
        for &reader in readers {
            let (chunks, total_length) = self.readers.entry(reader).or_default();
            *chunks += i64::from(delta);
            *total_length += i64::from(delta) * i64::from(length);
            for &(term, _) in terms {
                *self.reader_terms.entry((term.cast_signed(), reader)).or_default() += delta;
            }
        }
    }

    /// Records that a chunk is added.
    fn add(&mut self, document: &StoredDocument, place: u32, row: &Row) {
        self.count_for_readers(&document.readers, &row.terms, row.length, 1);
        for &(term, count) in &row.terms {
            let term = term.cast_signed();
            let edit = self.postings.entry((term, document.block)).or_default();
            edit.added.push(Posting {
                document: document.number.cast_unsigned(),
                place,
                count,
                length: row.length,
            });
            *self.terms.entry(term).or_default() += 1;
        }
        self.chunks += 1;
        self.length += i64::from(row.length);
    }

    /// Deletes the chunks of documents, and records the changes of postings and counters.
    async fn delete_chunks(
        &mut self,
        transaction: &Transaction<'_>,
        model: &EmbeddingModel,
        documents: &[StoredDocument],
    ) -> Result<(), StoreError> {
        if documents.is_empty() {
            return Ok(());
        }
        let by_number: HashMap<i32, &StoredDocument> =
            documents.iter().map(|document| (document.number, document)).collect();
        let numbers: Vec<i32> = documents.iter().map(|document| document.number).collect();
        let sql = "DELETE FROM rag_vector WHERE document = ANY ($1)";
        execute(transaction, sql, &[&numbers]).await?;
        let sql = "DELETE FROM rag_chunk WHERE document = ANY ($1) RETURNING document, packed";
        let statement = transaction.prepare_cached(sql).await?;
        let mut terms = Vec::new();
        for row in transaction.query(&statement, &[&numbers]).await? {
            let number: i32 = row.try_get(0)?;
            let Some(document) = by_number.get(&number) else { continue };
            codec::decode(row.try_get(1)?, model.dimension, &mut terms, |row| {
                self.count_for_readers(&document.readers, row.terms, row.length, -1);
                for &(term, _) in row.terms {
                    let term = term.cast_signed();
                    let edit = self.postings.entry((term, document.block)).or_default();
                    edit.removed_documents.insert(number.cast_unsigned());
                    *self.terms.entry(term).or_default() -= 1;
                }
                self.chunks -= 1;
                self.length -= i64::from(row.length);
            })?;
        }
        Ok(())
    }

    /// Applies the changes to the counters, the postings and the state.
    async fn write(
        self,
        transaction: &Transaction<'_>,
        state: &mut StateRow,
    ) -> Result<(), StoreError> {
        add_to_terms(transaction, self.terms).await?;
        add_to_readers(transaction, self.readers).await?;
        add_to_reader_terms(transaction, self.reader_terms).await?;
        let edits: Vec<_> = self.postings.into_iter().collect();
        for batch in edits.chunks(MAX_CHANGES_PER_STATEMENT) {
            edit_postings(transaction, batch).await?;
        }
        state.chunks += self.chunks;
        state.length += self.length;
        let sql = "UPDATE rag_state SET chunks = $1, length = $2, block = $3, filled = $4";
        let StateRow { chunks, length, block, filled } = &*state;
        execute(transaction, sql, &[chunks, length, block, filled]).await
    }
}

/// Adds to the number of chunks with each term.
async fn add_to_terms(
    transaction: &Transaction<'_>,
    changes: BTreeMap<i32, i32>,
) -> Result<(), StoreError> {
    let (terms, deltas): (Vec<i32>, Vec<i32>) =
        changes.into_iter().filter(|(_, delta)| *delta != 0).unzip();
    let sql = "UPDATE rag_term t SET chunks = t.chunks + u.delta \
        FROM unnest($1::integer[], $2::integer[]) AS u (number, delta) WHERE t.number = u.number";
    execute(transaction, sql, &[&terms, &deltas]).await
}

/// Adds to the number and length of the chunks that each reader may read.
async fn add_to_readers(
    transaction: &Transaction<'_>,
    mut changes: BTreeMap<i64, (i64, i64)>,
) -> Result<(), StoreError> {
    changes.retain(|_, delta| *delta != (0, 0));
    let labels: Vec<i64> = changes.keys().copied().collect();
    let (chunks, lengths): (Vec<i64>, Vec<i64>) = changes.into_values().unzip();
    let sql = "INSERT INTO rag_reader (label, chunks, length) \
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) \
        ON CONFLICT (label) DO UPDATE SET chunks = rag_reader.chunks + excluded.chunks, \
        length = rag_reader.length + excluded.length";
    execute(transaction, sql, &[&labels, &chunks, &lengths]).await
}

/// Adds to the number of chunks with each term that each reader may read. Counters that become zero
/// are deleted.
async fn add_to_reader_terms(
    transaction: &Transaction<'_>,
    mut changes: BTreeMap<(i32, i64), i32>,
) -> Result<(), StoreError> {
    changes.retain(|_, delta| *delta != 0);
    let changes: Vec<_> = changes.into_iter().collect();
    for batch in changes.chunks(MAX_CHANGES_PER_STATEMENT) {
        let terms: Vec<i32> = batch.iter().map(|((term, _), _)| *term).collect();
        let labels: Vec<i64> = batch.iter().map(|((_, label), _)| *label).collect();
        let deltas: Vec<i32> = batch.iter().map(|(_, delta)| *delta).collect();
        let sql = "INSERT INTO rag_reader_term (term, label, chunks) \
            SELECT * FROM unnest($1::integer[], $2::bigint[], $3::integer[]) \
            ON CONFLICT (term, label) DO UPDATE SET chunks = rag_reader_term.chunks + excluded.chunks";
        execute(transaction, sql, &[&terms, &labels, &deltas]).await?;
        let sql = "DELETE FROM rag_reader_term t USING unnest($1::integer[], $2::bigint[]) AS u (term, label) \
            WHERE t.term = u.term AND t.label = u.label AND t.chunks <= 0";
        execute(transaction, sql, &[&terms, &labels]).await?;
    }
    Ok(())
}

/// Applies changes to the postings of terms in blocks.
async fn edit_postings(
    transaction: &Transaction<'_>,
    edits: &[((i32, i32), PostingsEdit)],
) -> Result<(), StoreError> {
    let (terms, blocks): (Vec<i32>, Vec<i32>) = edits.iter().map(|(at, _)| *at).unzip();
    let sql = "SELECT p.term, p.block, p.postings FROM unnest($1::integer[], $2::integer[]) AS u (term, block) \
        JOIN rag_posting p ON p.term = u.term AND p.block = u.block";
    let statement = transaction.prepare_cached(sql).await?;
    let old = transaction.query(&statement, &[&terms, &blocks]).await?;
    let mut bytes: HashMap<(i32, i32), &[u8]> = HashMap::new();
    for row in &old {
        bytes.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
    }
    let mut changed_terms = Vec::new();
    let mut changed_blocks = Vec::new();
    let mut changed_postings = Vec::new();
    let mut empty_terms = Vec::new();
    let mut empty_blocks = Vec::new();
    let mut all = Vec::new();
    for ((term, block), PostingsEdit { removed_documents, added }) in edits {
        all.clear();
        postings::decode(bytes.get(&(*term, *block)).copied().unwrap_or_default(), &mut all)?;
        all.retain(|posting| !removed_documents.contains(&posting.document));
        all.extend_from_slice(added);
        all.sort_unstable();
        if all.is_empty() {
            empty_terms.push(*term);
            empty_blocks.push(*block);
        } else {
            changed_terms.push(*term);
            changed_blocks.push(*block);
            changed_postings.push(postings::encode(&all));
        }
    }
    let sql = "INSERT INTO rag_posting (term, block, postings) \
        SELECT * FROM unnest($1::integer[], $2::integer[], $3::bytea[]) \
        ON CONFLICT (term, block) DO UPDATE SET postings = excluded.postings";
    execute(transaction, sql, &[&changed_terms, &changed_blocks, &changed_postings]).await?;
    if !empty_terms.is_empty() {
        let sql = "DELETE FROM rag_posting p USING unnest($1::integer[], $2::integer[]) AS u (term, block) \
            WHERE p.term = u.term AND p.block = u.block";
        execute(transaction, sql, &[&empty_terms, &empty_blocks]).await?;
    }
    Ok(())
}

async fn execute(
    transaction: &Transaction<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<(), StoreError> {
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, parameters).await?;
    Ok(())
}
