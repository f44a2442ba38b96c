//! A search: candidates from the database, ranked here.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
};

use deadpool_postgres::Transaction;
use futures_util::TryStreamExt;
use tokio_postgres::Row;

use super::{
    document_and_chunk,
    filter::Condition,
    half::HalfVector,
    postings::{self, List, Scored},
    schema::{STATE, State},
    vector_index::VectorIndex,
};
use crate::{
    postgres::Parameter,
    search::{
        Collector, Found, Hit, Matching, Matrix, Probe, Query, Ranked, SearchRequest, Term,
        average, fuse, unit, weight,
    },
    store::{EmbeddingModel, StoreError, blocking, codec},
};

/// Where is searched.
enum Scope {
    All,
    /// So few documents that each of their chunks is looked at. Their numbers are in order.
    These {
        numbers: Vec<i32>,
        blocks: Vec<i32>,
    },
    /// More than that.
    Many(Condition),
}

/// A chunk by its document's number and its place.
type Place = (i32, i32);

/// Finds the best chunks. All statements of the transaction must see one state of the database.
pub(super) async fn search(
    transaction: &Transaction<'_>,
    model: &EmbeddingModel,
    request: &SearchRequest,
    words: Vec<String>,
    index: &VectorIndex,
    scan_up_to: i64,
) -> Result<Vec<Hit>, StoreError> {
    let vector = request.vector.as_deref();
    let vector = vector.and_then(|vector| Some((Probe::new(vector)?, unit(vector)?)));
    if vector.is_none() && words.is_empty() {
        return Ok(Vec::new());
    }
    let (state, terms, scope) = tokio::try_join!(
        state(transaction, model),
        terms(transaction, &words),
        scope(transaction, Condition::new(&request.filter), scan_up_to),
    )?;
    let query = Query::new(request, &[], model);
    let wanted = Arc::new(Wanted::new(&words, &terms, &state, request.matching));
    let (nearest, best) = tokio::try_join!(
        async {
            match &vector {
                Some((_, unit)) => {
                    let narrow = matches!(scope, Scope::These { .. });
                    let indexed = !narrow && index.serves(transaction, state.chunks).await?;
                    nearest(transaction, &query, &scope, unit, indexed).await
                }
                None => Ok(Vec::new()),
            }
        },
        best_by_words(transaction, &query, &scope, &wanted),
    )?;
    let probe = vector.as_ref().map(|(probe, _)| probe);
    let rows = Rows::read(transaction, probe, &wanted, &nearest, &best, model.dimension).await?;
    let found = rows.fuse(&query, &nearest, &best);
    read_hits(transaction, found).await
}

async fn state(transaction: &Transaction<'_>, model: &EmbeddingModel) -> Result<State, StoreError> {
    let statement = transaction.prepare_cached(STATE).await?;
    State::read(&transaction.query_one(&statement, &[]).await?, model)
}

/// The number of each known word, and how many chunks have it.
async fn terms(
    transaction: &Transaction<'_>,
    words: &[String],
) -> Result<HashMap<Vec<u8>, (i32, i32)>, StoreError> {
    if words.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT term, number, chunks FROM rag_term WHERE term = ANY ($1) AND chunks > 0";
    let statement = transaction.prepare_cached(sql).await?;
    let words: Vec<_> = words.iter().map(String::as_bytes).collect();
    let rows = transaction.query(&statement, &[&words]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, (row.try_get(1)?, row.try_get(2)?)))).collect()
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
    let (documents, chunks): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
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

/// The nearest chunks, or the nearest chunk of each of the nearest documents: some more than are fused, since they are
/// ordered by rounded vectors.
async fn nearest(
    transaction: &Transaction<'_>,
    query: &Query<'_>,
    scope: &Scope,
    unit: &[f32],
    indexed: bool,
) -> Result<Vec<Place>, StoreError> {
    let vector = HalfVector::new(unit);
    let want = query.depth() + query.depth() / 8 + 8;
    if indexed {
        let limit = if query.distinct { 4 * want } else { want };
        let mut places = by_index(transaction, scope, &vector, limit).await?;
        if query.distinct {
            let mut seen = HashSet::new();
            places.retain(|(document, _)| seen.insert(*document));
        }
        if places.len() >= want {
            return Ok(places);
        }
    }
    by_scan(transaction, query.distinct, scope, &vector, want).await
}

/// The condition on `rag_vector v`, with its parameters after others.
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
    // The index goes on until enough rows pass the filter; 1,000 is the most that it looks for at once. In strict order
    // it would leave out what it finds late.
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
    // The sum is no distance, so that no index can order by it.
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

/// A question's words.
struct Wanted {
    /// The known ones, with how much each weighs.
    terms: Vec<(Term, f32)>,
    average: f32,
    /// Of all words, also of those that no chunk has.
    total_weight: f32,
    /// Whether any chunk can match.
    possible: bool,
}

impl Wanted {
    fn new(
        words: &[String],
        terms: &HashMap<Vec<u8>, (i32, i32)>,
        state: &State,
        matching: Matching,
    ) -> Self {
        let all = state.chunks as usize;
        let known = words.iter().filter_map(|word| terms.get(word.as_bytes()));
        let terms: Vec<_> = known
            .map(|&(term, chunks)| (term.cast_unsigned(), weight(all, chunks as usize)))
            .collect();
        let unknown = words.len() - terms.len();
        let known: f32 = terms.iter().map(|(_, weight)| weight).sum();
        Self {
            average: average(state.length.cast_unsigned(), all),
            total_weight: known + unknown as f32 * weight(all, 0),
            possible: !terms.is_empty() && (unknown == 0 || matching == Matching::Any),
            terms,
        }
    }

    fn terms(&self) -> Vec<i32> {
        self.terms.iter().map(|(term, _)| term.cast_signed()).collect()
    }

    /// A list of each, still empty.
    fn lists(&self) -> Vec<List> {
        let list = |&(term, weight): &(Term, f32)| List { term, weight, postings: Vec::new() };
        self.terms.iter().map(list).collect()
    }

    /// How much of the question is said by a chunk that has these terms, which are in order.
    fn share(&self, of: &[(Term, u8)]) -> f32 {
        let has = |term: &Term| of.binary_search_by_key(term, |(term, _)| *term).is_ok();
        let weights = self.terms.iter().filter(|(term, _)| has(term)).map(|(_, weight)| weight);
        let weight: f32 = weights.sum();
        if self.total_weight > 0.0 { weight / self.total_weight } else { 0.0 }
    }
}

/// The best chunks by their words, as many as are fused.
async fn best_by_words(
    transaction: &Transaction<'_>,
    query: &Query<'_>,
    scope: &Scope,
    wanted: &Arc<Wanted>,
) -> Result<Vec<(f32, Place)>, StoreError> {
    if !wanted.possible {
        return Ok(Vec::new());
    }
    let Scope::Many(condition) = scope else {
        return best(transaction, query, scope, wanted, query.depth()).await;
    };
    // Which documents pass is asked for the best ones only; many do, so that these are nearly always enough.
    let mut depth = query.depth() * 4;
    loop {
        let mut best = best(transaction, query, scope, wanted, depth).await?;
        let all = best.len() < depth;
        let documents: Vec<i32> = best.iter().map(|(_, (document, _))| *document).collect();
        let sql = format!(
            "SELECT d.number FROM rag_document d WHERE d.number = ANY ($1) AND {}",
            condition.sql(2)
        );
        let statement = transaction.prepare_cached(&sql).await?;
        let rows = transaction.query(&statement, &condition.parameters(&[&documents])).await?;
        let passing: HashSet<i32> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        best.retain(|(_, (document, _))| passing.contains(document));
        if all || best.len() >= query.depth() {
            best.truncate(query.depth());
            return Ok(best);
        }
        depth *= 8;
    }
}

/// So many bytes of postings are scored at once, and the rest of a block of documents.
const BATCH_BYTES: usize = 2 << 20;

/// The best chunks by their words, of all documents or of those that are few. The postings come block by block, and
/// are forgotten again: a question of many frequent words has many.
async fn best(
    transaction: &Transaction<'_>,
    query: &Query<'_>,
    scope: &Scope,
    wanted: &Arc<Wanted>,
    depth: usize,
) -> Result<Vec<(f32, Place)>, StoreError> {
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
    let mut best =
        Best { depth, distinct: query.distinct, matching: query.matching, best: Vec::new() };
    let (mut batch, mut bytes, mut last) = (Vec::new(), 0, None);
    loop {
        let row = rows.try_next().await?;
        let block: Option<i32> = row.as_ref().map(|row| row.try_get(0)).transpose()?;
        // A document lies in one block.
        if row.is_none() || bytes > BATCH_BYTES && block != last {
            let (batch, wanted) = (std::mem::take(&mut batch), Arc::clone(wanted));
            let numbers = numbers.clone();
            bytes = 0;
            best = blocking(move || {
                best.add(&wanted, &decode(&batch, &wanted, numbers.as_deref())?);
                Ok(best)
            })
            .await?;
        }
        let Some(row) = row else { return Ok(best.best) };
        last = block;
        bytes += row.try_get::<_, &[u8]>(2)?.len();
        batch.push(row);
    }
}

/// Reads the postings of each term, in the order of the documents; only of these documents, if some are named.
fn decode(rows: &[Row], wanted: &Wanted, numbers: Option<&[i32]>) -> Result<Vec<List>, StoreError> {
    let mut lists = wanted.lists();
    let places: HashMap<i32, usize> =
        (0..).zip(&lists).map(|(at, list)| (list.term.cast_signed(), at)).collect();
    for row in rows {
        let (term, bytes): (i32, &[u8]) = (row.try_get(1)?, row.try_get(2)?);
        let Some(&at) = places.get(&term) else { continue };
        postings::decode(bytes, &mut lists[at].postings)?;
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

/// The best chunks of all that were added, the best first; of equals, the one that lies before.
struct Best {
    depth: usize,
    /// Only the best chunk of each document.
    distinct: bool,
    matching: Matching,
    best: Vec<(f32, Place)>,
}

impl Best {
    /// Adds postings of documents of which none has come before.
    fn add(&mut self, wanted: &Wanted, lists: &[List]) {
        let scored = postings::score(lists, self.matching, wanted.average);
        let documents: Vec<u32> =
            if self.distinct { scored.iter().map(|at| at.document).collect() } else { Vec::new() };
        let mut top = Collector::of(self.depth, self.distinct.then_some(&documents[..]));
        for (row, at) in (0..).zip(&scored) {
            top.see(at.score, row);
        }
        self.best.extend(top.into_sorted().into_iter().map(|(score, row)| {
            let Scored { document, place, .. } = scored[row as usize];
            (score, (document.cast_signed(), place.cast_signed()))
        }));
        self.best
            .sort_by(|left, right| right.0.total_cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
        self.best.truncate(self.depth);
    }
}

/// The candidates of both rankings with their vectors, and how much of the question each says.
struct Rows<'a> {
    places: Vec<Place>,
    /// Where each candidate is in `places` and `vectors`.
    numbers: HashMap<Place, u32>,
    vectors: Matrix,
    shares: Vec<f32>,
    probe: Option<&'a Probe>,
}

impl<'a> Rows<'a> {
    async fn read(
        transaction: &Transaction<'_>,
        probe: Option<&'a Probe>,
        wanted: &Wanted,
        nearest: &[Place],
        best: &[(f32, Place)],
        dimension: usize,
    ) -> Result<Self, StoreError> {
        let (mut places, mut numbers) = (Vec::new(), HashMap::new());
        for place in nearest.iter().chain(best.iter().map(|(_, place)| place)) {
            numbers.entry(*place).or_insert_with(|| {
                places.push(*place);
                places.len() as u32 - 1
            });
        }
        let (vectors, shares) = (Matrix::new(dimension), Vec::new());
        let mut rows = Self { places, numbers, vectors, shares, probe };
        if rows.places.is_empty() {
            return Ok(rows);
        }
        let sql = "SELECT c.packed FROM unnest($1::integer[], $2::integer[]) WITH ORDINALITY AS u (document, place, at) \
            JOIN rag_chunk c ON c.document = u.document AND c.place = u.place ORDER BY u.at";
        let statement = transaction.prepare_cached(sql).await?;
        let (documents, places): (Vec<i32>, Vec<i32>) = rows.places.iter().copied().unzip();
        let packed = transaction.query(&statement, &[&documents, &places]).await?;
        if packed.len() != rows.places.len() {
            return Err(StoreError::Damaged("some chunks are missing".to_owned()));
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

    fn fuse(&self, query: &Query<'_>, nearest: &[Place], best: &[(f32, Place)]) -> Vec<Found> {
        let mut semantic: Vec<(f32, u32)> = nearest
            .iter()
            .map(|place| self.numbers[place])
            .filter_map(|row| Some((self.similarity(row)?, row)))
            .collect();
        semantic.sort_by(|left, right| {
            let place = |row: u32| self.places[row as usize];
            right.0.total_cmp(&left.0).then_with(|| place(left.1).cmp(&place(right.1)))
        });
        semantic.truncate(query.depth());
        let keyword: Vec<_> =
            best.iter().map(|(score, place)| (*score, self.numbers[place])).collect();
        fuse(query, &semantic, &keyword, self)
    }
}

impl Ranked for Rows<'_> {
    fn document(&self, row: u32) -> u32 {
        self.places[row as usize].0.cast_unsigned()
    }

    fn place(&self, row: u32) -> u32 {
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
    found: Vec<Found>,
) -> Result<Vec<Hit>, StoreError> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT d.number, c.place, d.chunks, c.fields, c.content, d.fields \
        FROM unnest($1::integer[], $2::integer[]) WITH ORDINALITY AS u (document, place, at) \
        JOIN rag_document d ON d.number = u.document \
        JOIN rag_chunk c ON c.document = u.document AND c.place = u.place ORDER BY u.at";
    let statement = transaction.prepare_cached(sql).await?;
    let number = |found: &Found| (found.document.cast_signed(), found.index.cast_signed());
    let (documents, places): (Vec<i32>, Vec<i32>) = found.iter().map(number).unzip();
    let rows = transaction.query(&statement, &[&documents, &places]).await?;
    if rows.len() != found.len() {
        return Err(StoreError::Damaged("some chunks are missing".to_owned()));
    }
    let hit = |(found, row): (Found, &Row)| {
        let (document, chunk) = document_and_chunk(row)?;
        Ok(found.into_hit(&document, chunk))
    };
    found.into_iter().zip(&rows).map(hit).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::postings::Posting, *};

    proptest! {
        /// However the postings come, block by block or all at once.
        #[test]
        fn parts_give_what_the_whole_does(
            chunks in prop::collection::btree_map((0_u32..40, 0_u32..3), prop::collection::vec(0_u8..3, 3), 0..60),
            cuts in prop::collection::btree_set(0_u32..40, 0..6),
            (depth, distinct, all) in (1_usize..12, any::<bool>(), any::<bool>()),
        ) {
            let wanted = Wanted {
                terms: vec![(0, 1.0), (1, 0.5), (2, 1.5)],
                average: 3.0,
                total_weight: 3.0,
                possible: true,
            };
            let lists = |from: u32, to: u32| {
                let mut lists = wanted.lists();
                for (&(document, place), counts) in chunks.range((from, 0)..(to, 0)) {
                    for (list, &count) in lists.iter_mut().zip(counts) {
                        let length = 3;
                        list.postings.extend((count > 0).then_some(Posting { document, place, count, length }));
                    }
                }
                lists
            };
            let matching = if all { Matching::All } else { Matching::Any };
            let new = || Best { depth, distinct, matching, best: Vec::new() };
            let (mut whole, mut parts, mut from) = (new(), new(), 0);
            whole.add(&wanted, &lists(0, 40));
            for to in cuts.into_iter().chain([40]) {
                parts.add(&wanted, &lists(from, to));
                from = to;
            }
            prop_assert_eq!(parts.best, whole.best);
        }
    }
}
