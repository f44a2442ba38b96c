//! Searches: the database returns candidates, which are ranked here.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
};

use deadpool_postgres::Transaction;
use futures_util::TryStreamExt;
use marquetry_database::postgres::Parameter;
use tokio_postgres::Row;

use super::{
    super::{blocking, codec},
    document_and_chunk,
    filter::Condition,
    half::HalfVector,
    postings::{self, List, ScoredChunk},
    schema::{SELECT_STATE, StateRow},
    vector_index::VectorIndex,
};
use crate::{
    EmbeddingModel,
    ranking::{
        Collector, FoundRow, Matrix, Probe, Query, QuestionWord, RankedRows, Ranking, Term,
        average, fuse, unit, weight,
    },
    types::{Hit, Matching, SearchRequest, StoreError},
};

/// The documents of a search.
enum Scope {
    All,
    /// Few documents, by their numbers in order. Each of their chunks is examined.
    These {
        numbers: Vec<i32>,
        blocks: Vec<i32>,
    },
    /// More documents, as a condition.
    Many(Condition),
}

/// Identifies a chunk by the number of its document and its index there.
type Place = (i32, i32);

/// Returns the best chunks. All statements of the transaction must see one state of the database.
pub(super) async fn search(
    transaction: &Transaction<'_>,
    model: &EmbeddingModel,
    request: &SearchRequest,
    words: Vec<QuestionWord>,
    index: &VectorIndex,
    scan_up_to: i64,
) -> Result<Vec<Hit>, StoreError> {
    let vector =
        request.vector.as_deref().and_then(|vector| Some((Probe::new(vector)?, unit(vector)?)));
    if vector.is_none() && words.is_empty() {
        return Ok(Vec::new());
    }
    let readers = Condition::readers(&request.filter);
    let (state, terms, readable, scope) = tokio::try_join!(
        state(transaction, model),
        terms(transaction, &words, readers.as_deref()),
        readable(transaction, readers.as_deref()),
        scope(transaction, Condition::new(&request.filter), scan_up_to),
    )?;
    let query = Query::new(request, &[], model);
    let (chunks, length) = readable.unwrap_or((state.chunks, state.length));
    let wanted = Arc::new(QueryWords::new(
        &words,
        &terms,
        chunks.cast_unsigned() as usize,
        length.cast_unsigned(),
        request.matching,
    ));
    let (nearest, best) = tokio::try_join!(
        async {
            match &vector {
                Some((_, unit)) => {
                    let narrow = matches!(scope, Scope::These { .. });
                    let indexed = !narrow && index.serves(transaction, state.chunks).await?;
                    nearest(transaction, &query, &scope, unit, indexed).await
                }
                None => Ok(Nearest::default()),
            }
        },
        best_by_words(transaction, &query, &scope, &wanted),
    )?;
    let probe = vector.as_ref().map(|(probe, _)| probe);
    let rows = Rows::read(transaction, probe, &wanted, &nearest, &best, model.dimension).await?;
    let found = rows.fuse(&query, &nearest, &best);
    read_hits(transaction, request, found).await
}

async fn state(
    transaction: &Transaction<'_>,
    model: &EmbeddingModel,
) -> Result<StateRow, StoreError> {
    let statement = transaction.prepare_cached(SELECT_STATE).await?;
    StateRow::read(&transaction.query_one(&statement, &[]).await?, model)
}

/// Returns the number of each known term, and the number of chunks with it that these readers may
/// read.
async fn terms(
    transaction: &Transaction<'_>,
    words: &[QuestionWord],
    readers: Option<&[i64]>,
) -> Result<HashMap<Vec<u8>, (i32, i64)>, StoreError> {
    if words.is_empty() {
        return Ok(HashMap::new());
    }
    let terms: Vec<_> =
        words.iter().flat_map(|word| &word.terms).map(std::string::String::as_bytes).collect();
    let sql = match readers {
        None => {
            "SELECT term, number, chunks::bigint FROM rag_term WHERE term = ANY ($1) AND chunks > 0"
        }
        Some(_) => {
            "SELECT t.term, t.number, sum(r.chunks)::bigint FROM rag_term t \
             JOIN rag_reader_term r ON r.term = t.number \
             WHERE t.term = ANY ($1) AND r.label = ANY ($2) GROUP BY t.number, t.term"
        }
    };
    let statement = transaction.prepare_cached(sql).await?;
    let rows = match &readers {
        None => transaction.query(&statement, &[&terms]).await?,
        Some(readers) => transaction.query(&statement, &[&terms, readers]).await?,
    };
    rows.iter().map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)))).collect()
}

/// Returns the number of chunks that these readers may read, and their total length. A chunk counts
/// once for each of its readers, here and for terms.
async fn readable(
    transaction: &Transaction<'_>,
    readers: Option<&[i64]>,
) -> Result<Option<(i64, i64)>, StoreError> {
    let Some(readers) = readers else { return Ok(None) };
    let sql = "SELECT coalesce(sum(chunks), 0)::bigint, coalesce(sum(length), 0)::bigint \
        FROM rag_reader WHERE label = ANY ($1)";
    let statement = transaction.prepare_cached(sql).await?;
    let row = transaction.query_one(&statement, &[&readers]).await?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

async fn scope(
    transaction: &Transaction<'_>,
    condition: Condition,
    scan_up_to: i64,
) -> Result<Scope, StoreError> {
    if condition.is_empty() {
        return Ok(Scope::All);
    }
    let sql = format!(
        "SELECT count(*), coalesce(sum(chunks), 0)::bigint, array_agg(number), array_agg(block) FROM \
         (SELECT d.chunks, d.number, d.block FROM rag_document d WHERE {} LIMIT {}) AS passing",
        condition.sql(1),
        scan_up_to + 1
    );
    let statement = transaction.prepare_cached(&sql).await?;
    let row = transaction.query_one(&statement, &condition.parameters(&[])).await?;
    let documents: i64 = row.try_get(0)?;
    let chunks: i64 = row.try_get(1)?;
    if documents > scan_up_to || chunks > scan_up_to {
        return Ok(Scope::Many(condition));
    }
    let mut numbers: Vec<i32> = row.try_get::<_, Option<_>>(2)?.unwrap_or_default();
    let mut blocks: Vec<i32> = row.try_get::<_, Option<_>>(3)?.unwrap_or_default();
    numbers.sort_unstable();
    blocks.sort_unstable();
    blocks.dedup();
    Ok(Scope::These { numbers, blocks })
}

/// Chunks by their vectors, nearest first.
#[derive(Default)]
struct Nearest {
    chunks: Vec<Place>,
    /// The nearest chunk of each of the nearest documents, for a search with `distinct`.
    of_documents: Vec<Place>,
}

/// Returns the nearest chunks, a few more than are fused, because they are ordered by rounded
/// vectors.
async fn nearest(
    transaction: &Transaction<'_>,
    query: &Query<'_>,
    scope: &Scope,
    unit: &[f32],
    indexed: bool,
) -> Result<Nearest, StoreError> {
    let vector = HalfVector::new(unit);
    let want = query.depth() + query.depth() / 8 + 8;
    if indexed {
        let limit = if query.distinct { 4 * want } else { want };
        let mut chunks = by_index(transaction, scope, &vector, limit).await?;
        let mut of_documents = Vec::new();
        if query.distinct {
            let mut seen = HashSet::new();
            of_documents.clone_from(&chunks);
            of_documents.retain(|(document, _)| seen.insert(*document));
            of_documents.truncate(want);
        }
        let found = if query.distinct { of_documents.len() } else { chunks.len() };
        chunks.truncate(want);
        if found >= want {
            return Ok(Nearest { chunks, of_documents });
        }
    }
    let chunks = by_scan(transaction, false, scope, &vector, want).await?;
    let of_documents = if query.distinct {
        by_scan(transaction, true, scope, &vector, want).await?
    } else {
        Vec::new()
    };
    Ok(Nearest { chunks, of_documents })
}

/// Returns the condition on `rag_vector v`, with its parameters after those in `before`.
fn restricted<'a>(scope: &'a Scope, before: &[Parameter<'a>]) -> (String, Vec<Parameter<'a>>) {
    let next = before.len() + 1;
    match scope {
        Scope::All => ("true".to_owned(), before.to_vec()),
        Scope::These { numbers, .. } => {
            let parameters = before.iter().copied().chain([numbers as Parameter<'a>]);
            (format!("v.document = ANY (${next})"), parameters.collect())
        }
        Scope::Many(condition) => {
            let sql = format!(
                "EXISTS (SELECT 1 FROM rag_document d WHERE d.number = v.document AND {})",
                condition.sql(next)
            );
            (sql, condition.parameters(before))
        }
    }
}

async fn by_index(
    transaction: &Transaction<'_>,
    scope: &Scope,
    vector: &HalfVector,
    limit: usize,
) -> Result<Vec<Place>, StoreError> {
    // The index continues until enough rows pass the filter; 1,000 is the largest allowed value. In
    // strict order it would leave out rows that it finds late.
    let search = (2 * limit).clamp(100, 1_000);
    let settings = format!(
        "SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {search}"
    );
    transaction.batch_execute(&settings).await?;
    let limit = limit as i64;
    let (condition, parameters) = restricted(scope, &[vector, &limit]);
    let sql = format!(
        "WITH near AS MATERIALIZED (SELECT v.document, v.place, v.embedding <=> $1 AS distance \
         FROM rag_vector v WHERE {condition} ORDER BY v.embedding <=> $1 LIMIT $2) \
         SELECT document, place FROM near ORDER BY distance + 0, document, place"
    );
    places(transaction, &sql, &parameters).await
}

async fn by_scan(
    transaction: &Transaction<'_>,
    distinct: bool,
    scope: &Scope,
    vector: &HalfVector,
    limit: usize,
) -> Result<Vec<Place>, StoreError> {
    let limit = limit as i64;
    let (condition, parameters) = restricted(scope, &[vector, &limit]);
    // A sum is not a distance operator, so the planner cannot use the index for this order.
    let sql = if distinct {
        format!(
            "SELECT document, place FROM (SELECT DISTINCT ON (v.document) v.document, v.place, \
             (v.embedding <=> $1) + 0 AS distance FROM rag_vector v WHERE {condition} \
             ORDER BY v.document, distance, v.place) AS best ORDER BY distance, document LIMIT $2"
        )
    } else {
        format!(
            "SELECT v.document, v.place FROM rag_vector v WHERE {condition} \
             ORDER BY (v.embedding <=> $1) + 0, v.document, v.place LIMIT $2"
        )
    };
    places(transaction, &sql, &parameters).await
}

async fn places(
    transaction: &Transaction<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Place>, StoreError> {
    let statement = transaction.prepare_cached(sql).await?;
    let rows = transaction.query(&statement, parameters).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The words of a question.
struct QueryWords {
    /// The known terms, with the weight of each and the index of its word.
    terms: Vec<(Term, f32, usize)>,
    /// Weight of each word. Optional words that no chunk has are left out.
    words: Vec<f32>,
    average: f32,
    /// Sum of the weights in `words`.
    total_weight: f32,
    /// Whether any chunk can match.
    possible: bool,
}

impl QueryWords {
    /// Computes the weights of words from the numbers of chunks that have them, the number of all
    /// chunks, and their total length.
    fn new(
        asked: &[QuestionWord],
        known: &HashMap<Vec<u8>, (i32, i64)>,
        chunks: usize,
        length: u64,
        matching: Matching,
    ) -> Self {
        let mut terms = Vec::new();
        let mut weights = Vec::new();
        let mut unknown = 0;
        for word in asked {
            let of_word: Vec<_> =
                word.terms.iter().filter_map(|term| known.get(term.as_bytes())).collect();
            if word.is_optional && of_word.is_empty() {
                continue;
            }
            let index = weights.len();
            // A chunk counts once for each of its readers and for each of its terms, so the sum can
            // exceed the number of chunks.
            let having: i64 = of_word.iter().map(|(_, chunks)| chunks).sum();
            let word_weight = weight(chunks, (having.cast_unsigned() as usize).min(chunks));
            weights.push(word_weight);
            unknown += usize::from(of_word.is_empty());
            let weight = word_weight * word.count as f32;
            terms.extend(of_word.iter().map(|(term, _)| (term.cast_unsigned(), weight, index)));
        }
        Self {
            average: average(length, chunks),
            total_weight: weights.iter().sum(),
            possible: !terms.is_empty() && (unknown == 0 || matching == Matching::Any),
            words: weights,
            terms,
        }
    }

    fn terms(&self) -> Vec<i32> {
        self.terms.iter().map(|(term, ..)| term.cast_signed()).collect()
    }

    /// Returns an empty list for each term.
    fn lists(&self) -> Vec<List> {
        (self.terms.iter())
            .map(|&(term, weight, word)| List { term, weight, word, postings: Vec::new() })
            .collect()
    }

    /// Returns the share of the question's words that a chunk with these terms has. The terms are
    /// in order.
    fn share(&self, of: &[(Term, u8)]) -> f32 {
        let mut has = vec![false; self.words.len()];
        for (term, _, word) in &self.terms {
            has[*word] |= of.binary_search_by_key(term, |(term, _)| *term).is_ok();
        }
        let weights = self.words.iter().zip(has).filter(|(_, has)| *has);
        let weight: f32 = weights.map(|(weight, _)| weight).sum();
        if self.total_weight > 0.0 { weight / self.total_weight } else { 0.0 }
    }
}

/// Returns the best chunks by their words, as many as are fused.
async fn best_by_words(
    transaction: &Transaction<'_>,
    query: &Query<'_>,
    scope: &Scope,
    wanted: &Arc<QueryWords>,
) -> Result<BestByWords, StoreError> {
    if !wanted.possible {
        return Ok(BestByWords::default());
    }
    let Scope::Many(condition) = scope else {
        return best(transaction, query, scope, wanted, query.depth()).await;
    };
    // Filters are applied only to the best chunks. Many documents pass, so the first attempt is
    // nearly always enough.
    let mut depth = query.depth() * 4;
    loop {
        let mut best = best(transaction, query, scope, wanted, depth).await?;
        // If a list is shorter than its limit, it is complete.
        let complete = [best.chunks.len() < depth, best.of_documents.len() < depth];
        let documents = best.documents();
        let sql = format!(
            "SELECT d.number FROM rag_document d WHERE d.number = ANY ($1) AND {}",
            condition.sql(2)
        );
        let statement = transaction.prepare_cached(&sql).await?;
        let rows = transaction.query(&statement, &condition.parameters(&[&documents])).await?;
        let passing: HashSet<i32> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        best.retain(|document| passing.contains(&document));
        let lengths = [best.chunks.len(), best.of_documents.len()];
        if (0..2).all(|list| complete[list] || lengths[list] >= query.depth()) {
            best.truncate(query.depth());
            return Ok(best);
        }
        depth *= 8;
    }
}

/// Bytes of postings after which they are scored, together with the rest of the block of documents.
const BATCH_BYTES: usize = 2 << 20;

/// Returns the best chunks by their words, of all documents or of a few. Postings are read block by
/// block and dropped again, because a question with frequent words has many.
async fn best(
    transaction: &Transaction<'_>,
    query: &Query<'_>,
    scope: &Scope,
    wanted: &Arc<QueryWords>,
    depth: usize,
) -> Result<BestByWords, StoreError> {
    let terms = wanted.terms();
    let (sql, parameters): (_, &[Parameter<'_>]) = match scope {
        Scope::These { blocks, .. } => (
            "SELECT block, term, postings FROM rag_posting WHERE term = ANY ($1) AND block = ANY ($2) ORDER BY block",
            &[&terms, blocks],
        ),
        _ => (
            "SELECT block, term, postings FROM rag_posting WHERE term = ANY ($1) ORDER BY block",
            &[&terms],
        ),
    };
    let numbers: Option<Arc<[i32]>> = match scope {
        Scope::These { numbers, .. } => Some(numbers[..].into()),
        _ => None,
    };
    let statement = transaction.prepare_cached(sql).await?;
    let mut rows = pin!(transaction.query_raw(&statement, parameters.iter().copied()).await?);
    let mut accumulator = Accumulator {
        depth,
        distinct: query.distinct,
        matching: query.matching,
        best: BestByWords::default(),
    };
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut last = None;
    loop {
        let row = rows.try_next().await?;
        let block: Option<i32> = row.as_ref().map(|row| row.try_get(0)).transpose()?;
        // All chunks of a document are in one block.
        if row.is_none() || bytes > BATCH_BYTES && block != last {
            let batch = std::mem::take(&mut batch);
            let wanted = Arc::clone(wanted);
            let numbers = numbers.clone();
            bytes = 0;
            accumulator = blocking(move || {
                accumulator.add(&wanted, &decode(&batch, &wanted, numbers.as_deref())?);
                Ok::<_, StoreError>(accumulator)
            })
            .await?;
        }
        let Some(row) = row else { return Ok(accumulator.best) };
        last = block;
        bytes += row.try_get::<_, &[u8]>(2)?.len();
        batch.push(row);
    }
}

/// Decodes the postings of each term, in the order of documents. `numbers` restricts them to these
/// documents.
fn decode(
    rows: &[Row],
    wanted: &QueryWords,
    numbers: Option<&[i32]>,
) -> Result<Vec<List>, StoreError> {
    let mut lists = wanted.lists();
    let places: HashMap<i32, usize> =
        (0..).zip(&lists).map(|(at, list)| (list.term.cast_signed(), at)).collect();
    for row in rows {
        let term: i32 = row.try_get(1)?;
        let Some(&at) = places.get(&term) else { continue };
        postings::decode(row.try_get(2)?, &mut lists[at].postings)?;
    }
    for list in &mut lists {
        if let Some(numbers) = numbers {
            list.postings
                .retain(|posting| numbers.binary_search(&posting.document.cast_signed()).is_ok());
        }
        if !list.postings.is_sorted() {
            list.postings.sort_unstable();
        }
    }
    Ok(lists)
}

/// Keeps the best chunks of all that were added, best first. Of chunks with equal scores, the
/// earlier one comes first.
struct Accumulator {
    depth: usize,
    /// Whether to keep the best chunk of each of the best documents, too.
    distinct: bool,
    matching: Matching,
    best: BestByWords,
}

impl Accumulator {
    /// Adds postings of documents that were not added before.
    fn add(&mut self, wanted: &QueryWords, lists: &[List]) {
        let words = wanted.words.len();
        let scored = postings::score(lists, words, self.matching, wanted.average);
        let documents: Vec<u32> = if self.distinct {
            scored.iter().map(|chunk| chunk.document).collect()
        } else {
            Vec::new()
        };
        let mut top = Collector::with_depth(self.depth, self.distinct.then_some(&documents[..]));
        for (row, chunk) in (0..).zip(&scored) {
            top.push(chunk.score, row);
        }
        let found = top.into_ranking();
        merge(&mut self.best.chunks, &found.best, &scored, self.depth);
        merge(&mut self.best.of_documents, &found.of_documents, &scored, self.depth);
    }
}

/// Adds found rows of `scored` to the best chunks, of which `depth` remain.
fn merge(best: &mut Vec<(f32, Place)>, found: &[(f32, u32)], scored: &[ScoredChunk], depth: usize) {
    best.extend(found.iter().map(|&(score, row)| {
        let ScoredChunk { document, place, .. } = scored[row as usize];
        (score, (document.cast_signed(), place.cast_signed()))
    }));
    best.sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    best.truncate(depth);
}

/// Chunks by their words, best first.
#[derive(Clone, Debug, Default, PartialEq)]
struct BestByWords {
    chunks: Vec<(f32, Place)>,
    /// The best chunk of each of the best documents, for a search with `distinct`.
    of_documents: Vec<(f32, Place)>,
}

impl BestByWords {
    fn documents(&self) -> Vec<i32> {
        let all = self.chunks.iter().chain(&self.of_documents);
        all.map(|(_, (document, _))| *document).collect()
    }

    fn retain(&mut self, passes: impl Fn(i32) -> bool) {
        self.chunks.retain(|(_, (document, _))| passes(*document));
        self.of_documents.retain(|(_, (document, _))| passes(*document));
    }

    fn truncate(&mut self, depth: usize) {
        self.chunks.truncate(depth);
        self.of_documents.truncate(depth);
    }
}

/// The candidates of both rankings with their vectors, and their shares of the question's words.
struct Rows<'a> {
    places: Vec<Place>,
    /// Index of each candidate in `places` and `vectors`.
    numbers: HashMap<Place, u32>,
    vectors: Matrix,
    shares: Vec<f32>,
    probe: Option<&'a Probe>,
}

impl<'a> Rows<'a> {
    async fn read(
        transaction: &Transaction<'_>,
        probe: Option<&'a Probe>,
        wanted: &QueryWords,
        nearest: &Nearest,
        best: &BestByWords,
        dimension: usize,
    ) -> Result<Self, StoreError> {
        let mut places = Vec::new();
        let mut numbers = HashMap::new();
        let near = nearest.chunks.iter().chain(&nearest.of_documents);
        let good = best.chunks.iter().chain(&best.of_documents).map(|(_, place)| place);
        for place in near.chain(good) {
            numbers.entry(*place).or_insert_with(|| {
                places.push(*place);
                places.len() as u32 - 1
            });
        }
        let mut rows =
            Self { places, numbers, vectors: Matrix::new(dimension), shares: Vec::new(), probe };
        if rows.places.is_empty() {
            return Ok(rows);
        }
        let sql = "SELECT c.packed FROM unnest($1::integer[], $2::integer[]) WITH ORDINALITY AS u (document, place, at) \
            JOIN rag_chunk c ON c.document = u.document AND c.place = u.place ORDER BY u.at";
        let statement = transaction.prepare_cached(sql).await?;
        let (documents, places): (Vec<i32>, Vec<i32>) = rows.places.iter().copied().unzip();
        let packed = transaction.query(&statement, &[&documents, &places]).await?;
        if packed.len() != rows.places.len() {
            return Err(StoreError::damaged("some chunks are missing"));
        }
        let mut terms = Vec::new();
        for row in packed {
            codec::decode(row.try_get(0)?, dimension, &mut terms, |row| {
                rows.vectors.push(row.scale, row.coarse, row.fine);
                rows.shares.push(wanted.share(row.terms));
            })?;
        }
        Ok(rows)
    }

    fn fuse(&self, query: &Query<'_>, nearest: &Nearest, best: &BestByWords) -> Vec<FoundRow> {
        let semantic = Ranking {
            best: self.by_similarity(&nearest.chunks, query.depth()),
            of_documents: self.by_similarity(&nearest.of_documents, query.depth()),
        };
        let keyword = Ranking {
            best: self.by_score(&best.chunks),
            of_documents: self.by_score(&best.of_documents),
        };
        fuse(query, &semantic, &keyword, self)
    }

    /// Returns the rows of the nearest chunks, ordered by exact cosines: the database has ordered
    /// them by rounded vectors.
    fn by_similarity(&self, places: &[Place], depth: usize) -> Vec<(f32, u32)> {
        let mut ranking: Vec<(f32, u32)> = places
            .iter()
            .map(|place| self.numbers[place])
            .filter_map(|row| Some((self.similarity(row)?, row)))
            .collect();
        ranking.sort_by(|left, right| {
            let order = self.places[left.1 as usize].cmp(&self.places[right.1 as usize]);
            right.0.total_cmp(&left.0).then(order)
        });
        ranking.truncate(depth);
        ranking
    }

    /// Returns the rows of the best chunks by words, which are in order.
    fn by_score(&self, best: &[(f32, Place)]) -> Vec<(f32, u32)> {
        best.iter().map(|(score, place)| (*score, self.numbers[place])).collect()
    }
}

impl RankedRows for Rows<'_> {
    fn document(&self, row: u32) -> u32 {
        self.places[row as usize].0.cast_unsigned()
    }

    fn chunk(&self, row: u32) -> u32 {
        self.places[row as usize].1.cast_unsigned()
    }

    fn similarity(&self, row: u32) -> Option<f32> {
        self.vectors.cosine(row, self.probe?)
    }

    fn share(&self, row: u32) -> f32 {
        self.shares[row as usize]
    }
}

async fn read_hits(
    transaction: &Transaction<'_>,
    request: &SearchRequest,
    found: Vec<FoundRow>,
) -> Result<Vec<Hit>, StoreError> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT d.number, c.place, d.chunks, c.fields, c.content, d.fields \
        FROM unnest($1::integer[], $2::integer[]) WITH ORDINALITY AS u (document, place, at) \
        JOIN rag_document d ON d.number = u.document \
        JOIN rag_chunk c ON c.document = u.document AND c.place = u.place ORDER BY u.at";
    let statement = transaction.prepare_cached(sql).await?;
    let (documents, places): (Vec<i32>, Vec<i32>) =
        found.iter().map(|found| (found.document.cast_signed(), found.index.cast_signed())).unzip();
    let rows = transaction.query(&statement, &[&documents, &places]).await?;
    if rows.len() != found.len() {
        return Err(StoreError::damaged("some chunks are missing"));
    }
    found
        .into_iter()
        .zip(&rows)
        .map(|(found, row)| {
            let (document, chunk) = document_and_chunk(row)?;
            Ok(found.into_hit(request, &document, chunk))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, ops::Range};

    use proptest::prelude::*;

    use super::{super::postings::Posting, *};

    proptest! {
        /// The result is the same whether the postings come block by block or all at once.
        #[test]
        fn batches_give_the_same_ranking_as_one(
            chunks in prop::collection::btree_map((0_u32..40, 0_u32..3), prop::collection::vec(0_u8..3, 3), 0..60),
            cuts in prop::collection::btree_set(0_u32..40, 0..6),
            (depth, distinct, all) in (1_usize..12, any::<bool>(), any::<bool>()),
        ) {
            let wanted = QueryWords {
                terms: vec![(0, 1.0, 0), (1, 0.5, 1), (2, 1.5, 2)],
                words: vec![1.0, 0.5, 1.5],
                average: 3.0,
                total_weight: 3.0,
                possible: true,
            };
            let matching = if all { Matching::All } else { Matching::Any };
            let [mut whole, mut parts] = [(); 2].map(|()| {
                Accumulator { depth, distinct, matching, best: BestByWords::default() }
            });
            whole.add(&wanted, &lists(&wanted, &chunks, 0..40));
            let mut from = 0;
            for to in cuts.into_iter().chain([40]) {
                parts.add(&wanted, &lists(&wanted, &chunks, from..to));
                from = to;
            }
            prop_assert_eq!(parts.best, whole.best);
        }
    }

    /// Returns the postings of these documents.
    fn lists(
        wanted: &QueryWords,
        chunks: &BTreeMap<(u32, u32), Vec<u8>>,
        documents: Range<u32>,
    ) -> Vec<List> {
        let mut lists = wanted.lists();
        for (&(document, place), counts) in chunks.range((documents.start, 0)..(documents.end, 0)) {
            for (list, &count) in lists.iter_mut().zip(counts) {
                if count > 0 {
                    list.postings.push(Posting { document, place, count, length: 3 });
                }
            }
        }
        lists
    }
}
