//! Everything that is searched, in memory: one row for each chunk.

use std::{collections::HashMap, ops::Range};

use super::{
    Fusion, Matching, SearchRequest,
    fuse::{Collector, Found, Ranked, fuse},
    postings::{Postings, Scorer, Term},
    vectors::{Matrix, Packed, Probe},
};
use crate::store::{
    EmbeddingModel,
    filter::{Label, LabelFilter},
};

/// Below this many rows a second thread costs more than it does.
const ROWS_FOR_THREADS: usize = 50_000;

/// A chunk, as it is searched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) vector: Packed,
    /// Its terms, each once, in their order, with how often it has them.
    pub(crate) terms: Vec<(Term, u8)>,
    /// How many terms it has, repetitions included.
    pub(crate) length: u32,
}

/// A document, as it is filtered by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The document's number in its store.
    pub(crate) number: u32,
    /// The label of its URI.
    pub(crate) uri: Label,
    /// Its other labels, sorted.
    pub(crate) labels: Vec<Label>,
}

/// What is looked for.
pub(crate) struct Query<'a> {
    pub(crate) vector: Option<&'a [f32]>,
    /// The question's terms, each once; None is a word that no chunk has.
    pub(crate) terms: &'a [Option<Term>],
    pub(crate) matching: Matching,
    /// The label of the URI of the one document that is searched.
    pub(crate) scope: Option<Label>,
    pub(crate) filter: LabelFilter,
    pub(crate) limit: usize,
    pub(crate) threshold: f64,
    pub(crate) distinct: bool,
    pub(crate) fusion: Fusion,
}

impl<'a> Query<'a> {
    pub(crate) fn new(
        request: &'a SearchRequest,
        terms: &'a [Option<Term>],
        model: &EmbeddingModel,
    ) -> Self {
        Self {
            vector: request.vector.as_deref(),
            terms,
            matching: request.matching,
            scope: request.filter.scope_label(),
            filter: request.filter.compile(),
            limit: request.limit,
            threshold: request.threshold,
            distinct: request.distinct,
            fusion: request.fusion(model),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    vectors: Matrix,
    postings: Postings,
    /// The document of each row, or [`DEAD`].
    documents_of_rows: Vec<u32>,
    /// By their numbers.
    documents: Vec<Option<Kept>>,
    numbers: HashMap<Label, u32>,
    dead: usize,
}

#[derive(Debug)]
struct Kept {
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

    /// Makes room for so many more rows.
    #[cfg(feature = "libsql")]
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.vectors.reserve(rows);
        self.documents_of_rows.reserve_exact(rows);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.documents_of_rows.len() - self.dead
    }

    /// How many numbers a vector has.
    #[cfg(feature = "libsql")]
    pub(crate) fn dimension(&self) -> usize {
        self.vectors.dimension()
    }

    /// Puts a document in the place of what had its number; its rows are still to come.
    pub(crate) fn add(&mut self, entry: Entry) -> Adding<'_> {
        self.remove(entry.number);
        let start = self.documents_of_rows.len() as u32;
        let number = entry.number as usize;
        if number >= self.documents.len() {
            self.documents.resize_with(number + 1, || None);
        }
        self.numbers.insert(entry.uri, entry.number);
        self.documents[number] = Some(Kept { entry, rows: start..start });
        Adding { number, index: self }
    }

    /// Removes a document, and says how many rows it had.
    pub(crate) fn remove(&mut self, number: u32) -> usize {
        let Some(kept) = self.documents.get_mut(number as usize).and_then(Option::take) else {
            return 0;
        };
        self.numbers.remove(&kept.entry.uri);
        for row in kept.rows.clone() {
            self.documents_of_rows[row as usize] = DEAD;
            self.postings.forget(row);
        }
        self.dead += kept.rows.len();
        self.tidy();
        kept.rows.len()
    }

    /// Gives the place of dead rows back when there are many, so that each costs little.
    fn tidy(&mut self) {
        if self.dead < 1_024 || self.dead < self.len() / 2 {
            return;
        }
        let mut alive = 0..;
        let places: Vec<u32> = (self.documents_of_rows.iter())
            .map(|&document| match document {
                DEAD => u32::MAX,
                _ => alive.next().expect("fewer rows than before"),
            })
            .collect();
        self.vectors.retain(|row| places[row] != u32::MAX);
        self.postings.renumber(&places);
        for kept in self.documents.iter_mut().flatten().filter(|kept| !kept.rows.is_empty()) {
            let start = places[kept.rows.start as usize];
            kept.rows = start..start + kept.rows.len() as u32;
        }
        self.documents_of_rows.retain(|&document| document != DEAD);
        self.dead = 0;
    }

    /// The number of the document with this URI.
    pub(crate) fn number(&self, uri: Label) -> Option<u32> {
        self.numbers.get(&uri).copied()
    }

    /// The documents that pass, with how many rows each has, in the order of their numbers.
    pub(crate) fn select(
        &self,
        scope: Option<Label>,
        filter: LabelFilter,
    ) -> impl Iterator<Item = (&Entry, u32)> {
        self.passing(scope, filter).map(|kept| (&kept.entry, kept.rows.len() as u32))
    }

    fn passing(&self, scope: Option<Label>, filter: LabelFilter) -> impl Iterator<Item = &Kept> {
        let numbers = match scope {
            None => 0..self.documents.len(),
            Some(uri) => self.number(uri).map_or(0..0, |at| at as usize..at as usize + 1),
        };
        self.documents[numbers]
            .iter()
            .flatten()
            .filter(move |kept| filter.matches(&kept.entry.labels))
    }

    /// The best rows first.
    pub(crate) fn search(&self, query: &Query<'_>) -> Vec<Found> {
        if query.limit == 0 || self.len() == 0 {
            return Vec::new();
        }
        let runs = self.runs(query);
        let probe = query.vector.and_then(Probe::new);
        let is_alive = |row: u32| self.documents_of_rows[row as usize] != DEAD;
        let is_alive: Option<&dyn Fn(u32) -> bool> =
            if self.dead > 0 { Some(&is_alive) } else { None };
        let scorer = self.postings.scorer(query.terms, self.len(), is_alive);
        let semantic =
            || probe.as_ref().map_or_else(Vec::new, |probe| self.by_vector(query, probe, &runs));
        let keyword = || self.by_words(query, &scorer, &runs);
        let (semantic, keyword) = if self.len() < ROWS_FOR_THREADS || query.terms.is_empty() {
            (semantic(), keyword())
        } else {
            std::thread::scope(|scope| {
                let semantic = scope.spawn(semantic);
                let keyword = keyword();
                (semantic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), keyword)
            })
        };
        let rows = Rows { index: self, probe: probe.as_ref(), scorer: &scorer };
        fuse(query, &semantic, &keyword, &rows)
    }

    /// The rows that pass the filter, as few ranges.
    fn runs(&self, query: &Query<'_>) -> Vec<Range<u32>> {
        let all = self.documents_of_rows.len() as u32;
        let mut runs: Vec<Range<u32>> = Vec::new();
        if query.scope.is_none() && query.filter.is_empty() {
            if self.dead == 0 {
                runs.push(0..all);
                return runs;
            }
            for (row, _) in (0..).zip(&self.documents_of_rows).filter(|(_, of)| **of != DEAD) {
                join(&mut runs, row..row + 1);
            }
            return runs;
        }
        let mut parts: Vec<_> =
            self.passing(query.scope, query.filter.clone()).map(|kept| kept.rows.clone()).collect();
        parts.sort_unstable_by_key(|rows| rows.start);
        parts.into_iter().filter(|rows| !rows.is_empty()).for_each(|rows| join(&mut runs, rows));
        runs
    }

    fn by_vector(&self, query: &Query<'_>, probe: &Probe, runs: &[Range<u32>]) -> Vec<(f32, u32)> {
        let mut top = Collector::new(query, &self.documents_of_rows);
        self.vectors.scan(
            probe,
            runs,
            #[inline(always)]
            |row, score| top.see(score, row),
        );
        let mut rows = top.into_sorted();
        for (score, row) in &mut rows {
            *score = self.vectors.cosine(*row, probe).unwrap_or(0.0);
        }
        rows.sort_by(|left, right| right.0.total_cmp(&left.0));
        rows
    }

    fn by_words(
        &self,
        query: &Query<'_>,
        scorer: &Scorer<'_>,
        runs: &[Range<u32>],
    ) -> Vec<(f32, u32)> {
        let mut top = Collector::new(query, &self.documents_of_rows);
        // Rows and ranges come in the same order.
        let mut rest = runs.iter().peekable();
        scorer.scan(query.matching, runs, |row, score| {
            while rest.next_if(|run| run.end <= row).is_some() {}
            if rest.peek().is_some_and(|run| run.start <= row) {
                top.see(score, row);
            }
        });
        top.into_sorted()
    }
}

/// The rows of an index, beside a question.
struct Rows<'a> {
    index: &'a Index,
    probe: Option<&'a Probe>,
    scorer: &'a Scorer<'a>,
}

impl Ranked for Rows<'_> {
    fn document(&self, row: u32) -> u32 {
        self.index.documents_of_rows[row as usize]
    }

    fn place(&self, row: u32) -> u32 {
        let kept = self.index.documents[self.document(row) as usize].as_ref();
        row - kept.expect("a row has a document").rows.start
    }

    fn similarity(&self, row: u32) -> Option<f32> {
        self.probe.and_then(|probe| self.index.vectors.cosine(row, probe))
    }

    fn share(&self, row: u32) -> f32 {
        self.scorer.share(row)
    }
}

/// A document whose rows are added.
pub(crate) struct Adding<'a> {
    index: &'a mut Index,
    number: usize,
}

impl Adding<'_> {
    /// The next row.
    pub(crate) fn row(&mut self, row: RowRef<'_>) {
        let Self { index, number } = self;
        index.vectors.push(row.scale, row.coarse, row.fine);
        index.postings.push(row.terms, row.length);
        index.documents_of_rows.push(*number as u32);
        if let Some(kept) = &mut index.documents[*number] {
            kept.rows.end += 1;
        }
    }
}

/// A row that is put into an [`Index`], wherever it lies.
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

fn join(runs: &mut Vec<Range<u32>>, rows: Range<u32>) {
    match runs.last_mut() {
        Some(last) if last.end == rows.start => last.end = rows.end,
        _ => runs.push(rows),
    }
}
