//! Combines the ranking by vectors and the ranking by words.

use std::collections::{HashMap, HashSet};

use super::{page::page_of_match, query::Query, top::TopRows};
use crate::types::{Document, Hit, SearchRequest, StoredChunk};

/// Smallest number of rows of each ranking that are fused. More do not improve the results.
const DEPTH: usize = 100;

impl Query<'_> {
    /// Returns the number of rows of each ranking that are fused.
    pub(crate) fn depth(&self) -> usize {
        self.limit.max(DEPTH)
    }
}

/// The rows that are ranked.
pub(crate) trait RankedRows {
    /// Returns the number of the row's document.
    fn document(&self, row: u32) -> u32;
    /// Returns the index of the row in its document.
    fn chunk(&self, row: u32) -> u32;
    /// Returns the cosine of the row's vector and the question's, if both exist.
    fn similarity(&self, row: u32) -> Option<f32>;
    /// Returns the share of the question's words that the row has, weighted, from 0 to 1.
    fn share(&self, row: u32) -> f32;
}

/// Rows with their scores, best first.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    pub(crate) best: Vec<(f32, u32)>,
    /// The best row of each of the best documents, for a search with `distinct`.
    pub(crate) of_documents: Vec<(f32, u32)>,
}

/// Returns the best rows of both rankings, best first.
///
/// With `distinct`, documents are in the order of their best rows; documents without a row among
/// the best follow.
pub(crate) fn fuse(
    query: &Query<'_>,
    semantic: &Ranking,
    keyword: &Ranking,
    rows: &impl RankedRows,
) -> Vec<FoundRow> {
    let ranked =
        fuse_ranks(query, &ranks(&semantic.best, 1), &ranks(&keyword.best, 1), rows, |row| row);
    if !query.distinct {
        return in_order_of_relevance(found(query, ranked, rows).take(query.limit).collect());
    }
    let mut seen = HashSet::new();
    let known: HashSet<u32> = ranked.iter().map(|(_, fused)| rows.document(fused.row)).collect();
    let last = ranked.last().map_or(f64::INFINITY, |(score, _)| *score);
    let mut all: Vec<FoundRow> =
        found(query, ranked, rows).filter(|found| seen.insert(found.document)).collect();
    if all.len() < query.limit {
        let more_semantic = ranks_of_others(semantic, &known, rows);
        let more_keyword = ranks_of_others(keyword, &known, rows);
        let mut more =
            fuse_ranks(query, &more_semantic, &more_keyword, rows, |row| rows.document(row));
        // Such a document may have the ranks of two rows, and the sum could exceed the score of a
        // document before it.
        for (score, _) in &mut more {
            *score = score.min(last);
        }
        all.extend(found(query, more, rows));
    }
    all.truncate(query.limit);
    in_order_of_relevance(all)
}

/// Raises the relevance of rows to that of the rows below them.
///
/// The order comes from both rankings, and is better than that of the relevance. A reader who stops
/// at a relevance must not miss a better one below.
fn in_order_of_relevance(mut found: Vec<FoundRow>) -> Vec<FoundRow> {
    let mut least = 0.0_f64;
    for row in found.iter_mut().rev() {
        least = least.max(row.relevance);
        row.relevance = least;
    }
    found
}

/// A row, or the best row of a document, with its ranks in both rankings.
struct FusedRow {
    row: u32,
    semantic: Option<u32>,
    keyword: Option<u32>,
}

/// Fuses rankings of rows, or with `key` rankings of all rows of a document.
fn fuse_ranks(
    query: &Query<'_>,
    semantic: &[(u32, u32)],
    keyword: &[(u32, u32)],
    rows: &impl RankedRows,
    key: impl Fn(u32) -> u32,
) -> Vec<(f64, FusedRow)> {
    // A document's best row by vectors may differ from its best row by words. The document gets the
    // ranks of both, and the row that contributes more is shown.
    let mut ranked: HashMap<u32, FusedRow> = HashMap::new();
    for &(rank, row) in semantic {
        ranked.insert(key(row), FusedRow { row, semantic: Some(rank), keyword: None });
    }
    for &(rank, row) in keyword {
        let entry =
            ranked.entry(key(row)).or_insert(FusedRow { row, semantic: None, keyword: None });
        entry.keyword = Some(rank);
        if query.fusion.score(None, Some(rank)) > query.fusion.score(entry.semantic, None) {
            entry.row = row;
        }
    }
    let mut ranked: Vec<_> = ranked
        .into_values()
        .map(|fused| (query.fusion.score(fused.semantic, fused.keyword), fused))
        .collect();
    // Sorts equal scores by document, because the order of rows depends on earlier replacements.
    ranked.sort_unstable_by_key(|(_, fused)| (rows.document(fused.row), rows.chunk(fused.row)));
    // A threshold and `distinct` take rows away later, so all are needed until then.
    let limit = if query.threshold > 0.0 || query.distinct { ranked.len() } else { query.limit };
    sort_and_limit(&mut ranked, limit, |(score, _)| *score);
    ranked
}

/// Returns the rows that are relevant enough.
fn found<'a>(
    query: &'a Query<'_>,
    ranked: Vec<(f64, FusedRow)>,
    rows: &'a impl RankedRows,
) -> impl Iterator<Item = FoundRow> + 'a {
    ranked
        .into_iter()
        .map(|(score, FusedRow { row, semantic, keyword })| {
            let similarity = rows.similarity(row).map(|cosine| f64::from(cosine.clamp(-1.0, 1.0)));
            FoundRow {
                document: rows.document(row),
                index: rows.chunk(row),
                score,
                // The sum makes 0 of -0, which `max` may return.
                relevance: f64::from(rows.share(row))
                    .max(similarity.unwrap_or(0.0) * query.trust)
                    .min(1.0)
                    + 0.0,
                similarity,
                semantic_rank: semantic,
                keyword_rank: keyword,
            }
        })
        .filter(|found| found.relevance >= query.threshold)
}

/// Returns the rows of documents that are not known, with their ranks after the best rows.
fn ranks_of_others(
    ranking: &Ranking,
    known: &HashSet<u32>,
    rows: &impl RankedRows,
) -> Vec<(u32, u32)> {
    let others: Vec<_> = (ranking.of_documents.iter().copied())
        .filter(|(_, row)| !known.contains(&rows.document(*row)))
        .collect();
    ranks(&others, ranking.best.len() as u32 + 1)
}

/// Returns ranks with their rows, from `first`; equal rows share a rank.
///
/// The order of rows with equal scores depends on earlier replacements, so it must not decide.
fn ranks(sorted: &[(f32, u32)], first: u32) -> Vec<(u32, u32)> {
    let mut ranks = Vec::with_capacity(sorted.len());
    let mut last_score = f32::NAN;
    let mut last_rank = 0;
    for (rank, &(score, row)) in (first..).zip(sorted) {
        if score != last_score {
            last_score = score;
            last_rank = rank;
        }
        ranks.push((last_rank, row));
    }
    ranks
}

/// A found row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundRow {
    /// Number of the row's document.
    pub(crate) document: u32,
    /// Index of the row in its document.
    pub(crate) index: u32,
    pub(crate) score: f64,
    pub(crate) relevance: f64,
    pub(crate) similarity: Option<f64>,
    pub(crate) semantic_rank: Option<u32>,
    pub(crate) keyword_rank: Option<u32>,
}

impl FoundRow {
    /// Returns a hit from this row and its chunk, which was read from the store.
    pub(crate) fn into_hit(
        self,
        request: &SearchRequest,
        document: &Document,
        chunk: StoredChunk,
    ) -> Hit {
        let Self { score, relevance, similarity, semantic_rank, keyword_rank, .. } = self;
        Hit {
            page: page_of_match(&chunk, &request.text),
            chunk,
            kind: document.kind.clone(),
            object_id: document.object_id.clone(),
            title: document.title.clone(),
            score,
            relevance,
            similarity,
            semantic_rank,
            keyword_rank,
        }
    }
}

/// Collects the best rows, and with `distinct` the best row of each of the best documents.
pub(crate) struct Collector<'a> {
    top: TopRows,
    documents: Option<OfDocuments<'a>>,
}

/// The best row of each of the best documents.
struct OfDocuments<'a> {
    /// The document of each row. The rows of a document are consecutive.
    documents: &'a [u32],
    top: TopRows,
    /// The document whose rows are being added, with the score and number of its best row so far.
    open: Option<(u32, f32, u32)>,
}

impl<'a> Collector<'a> {
    /// Returns a collector for as many rows as a query fuses. `documents` has the document of each
    /// row.
    pub(crate) fn new(query: &Query<'_>, documents: &'a [u32]) -> Self {
        Self::with_depth(query.depth(), query.distinct.then_some(documents))
    }

    /// Returns a collector for `depth` rows, and for `depth` documents if `documents` has the
    /// document of each row.
    pub(crate) fn with_depth(depth: usize, documents: Option<&'a [u32]>) -> Self {
        Self {
            top: TopRows::new(depth),
            documents: documents.map(|documents| OfDocuments {
                documents,
                top: TopRows::new(depth),
                open: None,
            }),
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, score: f32, row: u32) {
        self.top.push(score, row);
        if let Some(documents) = &mut self.documents {
            documents.push(score, row);
        }
    }

    /// Returns the score that a row must exceed to be kept; negative infinity at first.
    pub(crate) fn threshold(&self) -> f32 {
        // A document has one row among the best documents, and any number among the best rows.
        self.documents.as_ref().map_or(&self.top, |documents| &documents.top).threshold()
    }

    pub(crate) fn into_ranking(self) -> Ranking {
        let of_documents = self.documents.map(OfDocuments::into_sorted).unwrap_or_default();
        Ranking { best: self.top.into_sorted(), of_documents }
    }
}

impl OfDocuments<'_> {
    fn push(&mut self, score: f32, row: u32) {
        let document = self.documents[row as usize];
        match &mut self.open {
            Some((open, best, at)) if *open == document => {
                if score > *best {
                    *best = score;
                    *at = row;
                }
            }
            open => {
                if let Some((_, score, row)) = open.replace((document, score, row)) {
                    self.top.push(score, row);
                }
            }
        }
    }

    fn into_sorted(mut self) -> Vec<(f32, u32)> {
        if let Some((_, score, row)) = self.open {
            self.top.push(score, row);
        }
        self.top.into_sorted()
    }
}

/// Sorts hits, best first, and keeps at most `limit`.
fn sort_and_limit<T>(hits: &mut Vec<T>, limit: usize, score: impl Fn(&T) -> f64) {
    hits.sort_by(|left, right| score(right).total_cmp(&score(left)));
    hits.truncate(limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// seed: 003/VectorUtilStoreTest.testSortAndLimitOrdering
    #[test]
    fn the_best_come_first() {
        check(&[0.5, 0.9, 0.3, 0.7], 2, &[0.9, 0.7]);
    }

    /// seed: 003/VectorUtilStoreTest.testSortAndLimitLargerThanList
    #[test]
    fn a_limit_beyond_the_list_keeps_all() {
        check(&[0.8], 100, &[0.8]);
    }

    /// seed: 003/VectorUtilStoreTest.testSortAndLimitEmptyList
    #[test]
    fn empty_rankings_fuse_to_an_empty_list() {
        check(&[], 10, &[]);
    }

    #[test]
    fn relevance_falls_with_the_rank() {
        let found = [0.5, 0.2, 0.4, 0.1].map(|relevance| FoundRow {
            document: 0,
            index: 0,
            score: 1.0,
            relevance,
            similarity: None,
            semantic_rank: None,
            keyword_rank: None,
        });
        let shown = in_order_of_relevance(found.into());
        let relevance: Vec<f64> = shown.iter().map(|found| found.relevance).collect();
        assert_eq!(relevance, [0.5, 0.4, 0.4, 0.1]);
    }

    #[track_caller]
    fn check(scores: &[f64], limit: usize, want: &[f64]) {
        let mut scores = scores.to_vec();
        sort_and_limit(&mut scores, limit, |score| *score);
        assert_eq!(scores, want);
    }
}
