//! The searchable data in memory: one row for each chunk.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    fuse::{Collector, FoundRow, RankedRows, Ranking, fuse},
    postings::{Postings, Scorer, Statistics},
    query::Query,
    terms::Term,
    top,
    vectors::{Matrix, PackedVector, Probe},
};
use crate::types::{Label, LabelFilter};

/// Number of vectors below which a second thread costs more time than it saves.
const ROWS_FOR_THREADS: usize = 50_000;
/// Number of vectors in one part of a thread's work.
const ROWS_AT_ONCE: u32 = 8_192;
/// Maximum number of threads of one search. A scan waits for memory, not for the processor, so more
/// threads would only wait together (docs/benchmarks.md, "1,000,000 chunks").
const MAX_THREADS: usize = 4;

/// The searchable data of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) vector: PackedVector,
    /// Terms with their frequencies, each term once, in order.
    pub(crate) terms: Vec<(Term, u8)>,
    /// Number of terms, including repetitions.
    pub(crate) length: u32,
}

/// The filterable data of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The document's number in its store.
    pub(crate) number: u32,
    /// Label of the URI.
    pub(crate) uri: Label,
    /// Other labels, sorted.
    pub(crate) labels: Vec<Label>,
}

#[derive(Debug)]
pub(crate) struct Index {
    vectors: Matrix,
    postings: Postings,
    /// The document of each row, or [`DEAD`].
    documents_of_rows: Vec<u32>,
    /// Documents by their numbers.
    documents: Vec<Option<DocumentRows>>,
    numbers: HashMap<Label, u32>,
    dead: usize,
}

#[derive(Debug)]
struct DocumentRows {
    entry: Entry,
    rows: Range<u32>,
}

const DEAD: u32 = u32::MAX;

impl Index {
    pub(crate) fn new(dimension: usize) -> Self {
        Self {
            vectors: Matrix::new(dimension),
            postings: Postings::default(),
            documents_of_rows: Vec::new(),
            documents: Vec::new(),
            numbers: HashMap::new(),
            dead: 0,
        }
    }

    /// Reserves memory for this many more rows.
    #[cfg(feature = "libsql")]
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.vectors.reserve(rows);
        self.documents_of_rows.reserve_exact(rows);
    }

    /// Sets the terms of rows that were added without terms.
    #[cfg(feature = "libsql")]
    pub(crate) fn set_postings(&mut self, postings: Postings) {
        self.postings = postings;
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.documents_of_rows.len() - self.dead
    }

    /// Returns the dimension of the vectors.
    #[cfg(feature = "libsql")]
    pub(crate) fn dimension(&self) -> usize {
        self.vectors.dimension()
    }

    /// Replaces the document with this number. The caller then adds its rows.
    pub(crate) fn add(&mut self, entry: Entry) -> RowAppender<'_> {
        self.remove(entry.number);
        // At the end even if it has no more rows than before: a list of postings is in the order of
        // its rows, so that a row can only be appended.
        let start = self.documents_of_rows.len() as u32;
        let number = entry.number as usize;
        if number >= self.documents.len() {
            self.documents.resize_with(number + 1, || None);
        }
        self.numbers.insert(entry.uri, entry.number);
        self.documents[number] = Some(DocumentRows { entry, rows: start..start });
        RowAppender { number, index: self }
    }

    /// Removes a document, and returns the number of its rows.
    pub(crate) fn remove(&mut self, number: u32) -> usize {
        let Some(document) = self.documents.get_mut(number as usize).and_then(Option::take) else {
            return 0;
        };
        self.numbers.remove(&document.entry.uri);
        for row in document.rows.clone() {
            self.documents_of_rows[row as usize] = DEAD;
            self.postings.mark_dead(row);
        }
        self.dead += document.rows.len();
        self.compact();
        document.rows.len()
    }

    /// Frees the memory of dead rows once a third of all rows is dead.
    ///
    /// Compacting moves every row. The share makes that a constant cost for each removed row; the
    /// least number keeps small indexes from compacting at each removal.
    fn compact(&mut self) {
        if self.dead < 1_024 || self.dead < self.len() / 2 {
            return;
        }
        let mut alive = 0..;
        let new_rows: Vec<u32> = (self.documents_of_rows.iter())
            .map(|&document| match document {
                DEAD => u32::MAX,
                _ => alive.next().expect("fewer rows than before"),
            })
            .collect();
        self.vectors.retain(|row| new_rows[row] != u32::MAX);
        self.postings.renumber(&new_rows);
        for document in
            self.documents.iter_mut().flatten().filter(|document| !document.rows.is_empty())
        {
            let start = new_rows[document.rows.start as usize];
            document.rows = start..start + document.rows.len() as u32;
        }
        self.documents_of_rows.retain(|&document| document != DEAD);
        self.dead = 0;
    }

    /// Returns the number of the document with this URI.
    pub(crate) fn number(&self, uri: Label) -> Option<u32> {
        self.numbers.get(&uri).copied()
    }

    /// Returns the vectors of a document's rows, in order.
    pub(crate) fn vectors(&self, number: u32) -> Vec<Vec<f32>> {
        let document = self.documents.get(number as usize).and_then(Option::as_ref);
        let rows = document.map_or(0..0, |document| document.rows.clone());
        rows.map(|row| self.vectors.vector(row)).collect()
    }

    /// Returns the documents that pass a filter, with their numbers of rows, in the order of their
    /// numbers.
    pub(crate) fn select(
        &self,
        scope: Option<Label>,
        filter: LabelFilter,
    ) -> impl Iterator<Item = (&Entry, u32)> {
        self.matching_documents(scope, filter)
            .map(|document| (&document.entry, document.rows.len() as u32))
    }

    fn matching_documents(
        &self,
        scope: Option<Label>,
        filter: LabelFilter,
    ) -> impl Iterator<Item = &DocumentRows> {
        let numbers = match scope {
            None => 0..self.documents.len(),
            Some(uri) => self.number(uri).map_or(0..0, |at| at as usize..at as usize + 1),
        };
        self.documents[numbers]
            .iter()
            .flatten()
            .filter(move |document| filter.matches(&document.entry.labels))
    }

    /// Returns the best rows, best first.
    pub(crate) fn search(&self, query: &Query<'_>) -> Vec<FoundRow> {
        if query.limit == 0 || self.len() == 0 {
            return Vec::new();
        }
        let runs = self.runs(query.scope, &query.filter);
        let probe = query.vector.and_then(Probe::new);
        let statistics = self.statistics(query, &runs);
        let scorer = self.postings.scorer(query.words, &statistics);
        let (semantic, keyword) = self.both_rankings(query, probe.as_ref(), &scorer, &runs);
        let rows = Rows { index: self, probe: probe.as_ref(), scorer: &scorer };
        fuse(query, &semantic, &keyword, &rows)
    }

    /// Returns the statistics of all rows that the readers of the query may read.
    ///
    /// Other conditions of the filter do not change the weights of words, so that a score in a
    /// narrow search equals the one in a wide search. Rows of others do not change them either:
    /// scores would reveal what those rows contain.
    fn statistics(&self, query: &Query<'_>, runs: &[Range<u32>]) -> Statistics {
        // The searched rows are all readable rows: the second walk over the documents is saved.
        if query.words.is_empty() || (query.scope.is_none() && query.filter == query.readers) {
            return self.postings.statistics(runs, self.len());
        }
        self.postings.statistics(&self.runs(None, &query.readers), self.len())
    }

    /// Returns the rows that pass a filter, as few ranges.
    fn runs(&self, scope: Option<Label>, filter: &LabelFilter) -> Vec<Range<u32>> {
        let all = self.documents_of_rows.len() as u32;
        let mut runs: Vec<Range<u32>> = Vec::new();
        if scope.is_none() && filter.is_empty() {
            if self.dead == 0 {
                runs.push(0..all);
                return runs;
            }
            for (row, _) in (0..).zip(&self.documents_of_rows).filter(|(_, of)| **of != DEAD) {
                join(&mut runs, row..row + 1);
            }
            return runs;
        }
        let mut parts: Vec<_> = self
            .matching_documents(scope, filter.clone())
            .map(|document| document.rows.clone())
            .collect();
        parts.sort_unstable_by_key(|rows| rows.start);
        parts.into_iter().filter(|rows| !rows.is_empty()).for_each(|rows| join(&mut runs, rows));
        runs
    }

    fn both_rankings(
        &self,
        query: &Query<'_>,
        probe: Option<&Probe>,
        scorer: &Scorer<'_>,
        runs: &[Range<u32>],
    ) -> (Ranking, Ranking) {
        let Some(probe) = probe else {
            return (Ranking::default(), self.by_words(query, scorer, runs));
        };
        let parts = parts(runs);
        let next = AtomicUsize::new(0);
        let rows: usize = runs.iter().map(Range::len).sum();
        let helpers = if rows < ROWS_FOR_THREADS { 0 } else { threads() - 1 };
        let (semantic, keyword) = thread::scope(|scope| {
            let helpers: Vec<_> = (0..helpers)
                .map(|_| scope.spawn(|| self.by_vectors(query, probe, &parts, &next)))
                .collect();
            // This thread ranks the words alone, which takes less time than the vectors, while the
            // other threads scan the vectors.
            let keyword = self.by_words(query, scorer, runs);
            let mut semantic = vec![self.by_vectors(query, probe, &parts, &next)];
            for helper in helpers {
                let found = helper.join();
                semantic.push(found.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            (semantic, keyword)
        });
        (self.exactly(query, probe, semantic), keyword)
    }

    /// Returns the best rows of the parts that this thread takes, by approximate cosines.
    ///
    /// A thread takes the next part when it has finished one. With fixed shares, all would wait for
    /// a thread whose processor another program uses.
    fn by_vectors(
        &self,
        query: &Query<'_>,
        probe: &Probe,
        parts: &[Vec<Range<u32>>],
        next: &AtomicUsize,
    ) -> Ranking {
        let mut top = Collector::new(query, &self.documents_of_rows);
        // Relaxed, because the counter only hands out numbers: `self` is not changed meanwhile.
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            self.vectors.scan(
                probe,
                part,
                // Compiled with the instructions of the scan, see `Scan`.
                #[inline(always)]
                |row, score| top.push(score, row),
            );
        }
        top.into_ranking()
    }

    /// Merges the rankings of all threads and orders them by exact cosines.
    fn exactly(&self, query: &Query<'_>, probe: &Probe, found: Vec<Ranking>) -> Ranking {
        let depth = query.depth();
        let is_one = found.len() == 1;
        let mut merged = Ranking::default();
        for part in found {
            merged.best.extend(part.best);
            merged.of_documents.extend(part.of_documents);
        }
        // One thread has sorted its rows already, and has each document once.
        if !is_one {
            merged.best.sort_unstable_by(top::best_first);
            merged.best.truncate(depth);
            merged.of_documents.sort_unstable_by(top::best_first);
            // Several threads may have handled rows of one document.
            let mut seen = HashSet::new();
            merged
                .of_documents
                .retain(|&(_, row)| seen.insert(self.documents_of_rows[row as usize]));
            merged.of_documents.truncate(depth);
        }
        self.sort_exactly(probe, &mut merged.best);
        self.sort_exactly(probe, &mut merged.of_documents);
        merged
    }

    /// Replaces approximate cosines by exact ones, and sorts by them. Rows with equal cosines keep
    /// their order.
    fn sort_exactly(&self, probe: &Probe, rows: &mut [(f32, u32)]) {
        for (score, row) in rows.iter_mut() {
            *score = self.vectors.cosine(*row, probe).unwrap_or(0.0);
        }
        rows.sort_by(|left, right| right.0.total_cmp(&left.0));
    }

    fn by_words(&self, query: &Query<'_>, scorer: &Scorer<'_>, runs: &[Range<u32>]) -> Ranking {
        let mut top = Collector::new(query, &self.documents_of_rows);
        scorer.scan(query.matching, runs, |row, score| {
            top.push(score, row);
            top.threshold()
        });
        top.into_ranking()
    }
}

/// The rows of an index, for one question.
struct Rows<'a> {
    index: &'a Index,
    probe: Option<&'a Probe>,
    scorer: &'a Scorer<'a>,
}

impl RankedRows for Rows<'_> {
    fn document(&self, row: u32) -> u32 {
        self.index.documents_of_rows[row as usize]
    }

    fn chunk(&self, row: u32) -> u32 {
        let document = self.index.documents[self.document(row) as usize].as_ref();
        row - document.expect("a row has a document").rows.start
    }

    fn similarity(&self, row: u32) -> Option<f32> {
        self.probe.and_then(|probe| self.index.vectors.cosine(row, probe))
    }

    fn share(&self, row: u32) -> f32 {
        self.scorer.share(row)
    }
}

/// Adds the rows of a document to the index.
pub(crate) struct RowAppender<'a> {
    index: &'a mut Index,
    number: usize,
}

impl RowAppender<'_> {
    /// Adds the next row.
    pub(crate) fn row(&mut self, row: RowRef<'_>) {
        self.index.postings.push(row.terms, row.length);
        self.row_without_terms(row);
    }

    /// Adds the next row; its terms are added later, together with those of all rows: see
    /// [`Index::set_postings`].
    pub(crate) fn row_without_terms(&mut self, row: RowRef<'_>) {
        let Self { index, number } = self;
        index.vectors.push(row.scale, row.coarse, row.fine);
        index.documents_of_rows.push(*number as u32);
        if let Some(document) = &mut index.documents[*number] {
            document.rows.end += 1;
        }
    }
}

/// A row to be added to an [`Index`], borrowed from any storage.
pub(crate) struct RowRef<'a> {
    pub(crate) scale: f32,
    pub(crate) coarse: &'a [u8],
    pub(crate) fine: &'a [u8],
    pub(crate) terms: &'a [(Term, u8)],
    pub(crate) length: u32,
}

impl Row {
    pub(crate) fn as_ref(&self) -> RowRef<'_> {
        let Self { vector, terms, length } = self;
        RowRef {
            scale: vector.scale,
            coarse: &vector.coarse,
            fine: &vector.fine,
            terms,
            length: *length,
        }
    }
}

/// Splits runs into parts with about the same number of rows; cuts long runs.
fn parts(runs: &[Range<u32>]) -> Vec<Vec<Range<u32>>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut room = ROWS_AT_ONCE;
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let end = run.end.min(start + room);
            part.push(start..end);
            room -= end - start;
            start = end;
            if room == 0 {
                parts.push(std::mem::take(&mut part));
                room = ROWS_AT_ONCE;
            }
        }
    }
    parts.push(part);
    parts
}

/// Returns the number of threads of one search.
fn threads() -> usize {
    // Asking the system takes longer than a small search.
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS
        .get_or_init(|| thread::available_parallelism().map_or(1, |all| all.get().min(MAX_THREADS)))
}

/// Appends rows to runs; extends the last run if they follow it.
fn join(runs: &mut Vec<Range<u32>>, rows: Range<u32>) {
    match runs.last_mut() {
        Some(last) if last.end == rows.start => last.end = rows.end,
        _ => runs.push(rows),
    }
}

#[cfg(test)]
mod tests {
    use marquetry_embed::EmbeddingModel;

    use super::*;
    use crate::types::SearchRequest;

    /// Compares enough rows for several threads. Documents have three rows, so that some are
    /// divided between threads.
    #[test]
    fn several_threads_find_the_same_rows_as_one() {
        let mut index = Index::new(8);
        let mut state = 1_u32;
        let mut vectors = Vec::new();
        for number in 0..20_000 {
            let mut adding = index.add(Entry { number, uri: number.into(), labels: Vec::new() });
            for _ in 0..3 {
                let vector = random_vector(&mut state);
                adding.row(
                    Row { vector: PackedVector::new(&vector), terms: vec![(0, 1)], length: 1 }
                        .as_ref(),
                );
                vectors.push(vector);
            }
        }
        assert!(index.len() > ROWS_FOR_THREADS);
        let question = random_vector(&mut state);
        let cosines: Vec<f64> = vectors.iter().map(|vector| cosine(vector, &question)).collect();
        for distinct in [false, true] {
            let request = SearchRequest {
                limit: 20,
                distinct,
                ..SearchRequest::new("", Some(question.clone()))
            };
            let found = index.search(&Query::new(&request, &[], &EmbeddingModel::new("test", 8)));
            let mut rows: Vec<usize> = (0..vectors.len()).collect();
            rows.sort_by(|&left, &right| cosines[right].total_cmp(&cosines[left]));
            let mut seen = HashSet::new();
            rows.retain(|row| !distinct || seen.insert(row / 3));
            assert_eq!(found.len(), 20);
            for (found, want) in found.iter().zip(rows) {
                let similarity = found.similarity.unwrap();
                assert!((similarity - cosines[want]).abs() < 1e-3, "{found:?} {want}");
            }
            let documents: HashSet<_> = found.iter().map(|found| found.document).collect();
            assert!(!distinct || documents.len() == 20);
        }
    }

    fn random_vector(state: &mut u32) -> Vec<f32> {
        (0..8)
            .map(|_| {
                *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (*state >> 8) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect()
    }

    fn cosine(left: &[f32], right: &[f32]) -> f64 {
        f64::from(dot(left, right) / dot(left, left).sqrt() / dot(right, right).sqrt())
    }

    fn dot(left: &[f32], right: &[f32]) -> f32 {
        left.iter().zip(right).map(|(left, right)| left * right).sum()
    }

    #[test]
    fn parts_cover_the_runs() {
        let runs = [3..9, 20..20_000, 30_000..30_001];
        let parts = parts(&runs);
        assert_eq!(parts.len(), 3);
        assert!(parts.concat().into_iter().flatten().eq(runs.into_iter().flatten()));
        for part in parts {
            assert!(part.iter().map(Range::len).sum::<usize>() <= ROWS_AT_ONCE as usize);
        }
    }
}
