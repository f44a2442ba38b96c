//! Which rows have which terms, and BM25.

use std::ops::Range;

use crate::search::Matching;

/// How soon more of the same word stops to count.
const K1: f32 = 1.2;
/// How much long chunks are held back.
const B: f32 = 0.75;

/// How much a word weighs that `having` of `all` rows have.
pub(crate) fn weight(all: usize, having: usize) -> f32 {
    let (all, having) = (all as f32, having as f32);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// How many terms a row has on average, when all rows together have so many.
pub(crate) fn average(total_length: u64, rows: usize) -> f32 {
    (total_length as f32 / rows.max(1) as f32).max(1.0)
}

/// What a word of this weight adds to the score of a row that has it so often.
pub(crate) fn bm25(weight: f32, count: u8, length: u32, average: f32) -> f32 {
    let (count, length) = (f32::from(count), length as f32);
    let norm = K1 * (1.0 - B + B * length / average);
    weight * count * (K1 + 1.0) / (count + norm)
}

/// Number of a term; the store that has the terms gives them, from 0 and without large gaps.
pub(crate) type Term = u32;

/// The rows of each term, and how many terms each row has.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    lists: Vec<List>,
    lengths: Vec<u32>,
    /// Of the rows that are alive.
    total_length: u64,
}

/// The rows of one term, in their order, and how often each has it; 255 stands for more.
#[derive(Debug, Default)]
struct List {
    rows: Vec<u32>,
    counts: Vec<u8>,
}

impl List {
    /// The places of the list that have rows of the ranges. The whole list, if finding them costs more than it saves.
    fn within(&self, runs: &[Range<u32>]) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        // Finding a range takes some twenty steps.
        if runs.len() * 20 > self.rows.len() {
            parts.push(0..self.rows.len());
            return parts;
        }
        let mut start = 0;
        for run in runs {
            start += self.rows[start..].partition_point(|&row| row < run.start);
            let end = start + self.rows[start..].partition_point(|&row| row < run.end);
            if start < end {
                parts.push(start..end);
            }
            start = end;
        }
        parts
    }
}

/// One term of a question: where it stands, and how rare it is.
struct Wanted<'a> {
    list: &'a List,
    weight: f32,
}

impl Wanted<'_> {
    fn count(&self, row: u32) -> Option<u8> {
        self.list.rows.binary_search(&row).ok().map(|place| self.list.counts[place])
    }
}

/// A question's words against all rows.
pub(crate) struct Scorer<'a> {
    postings: &'a Postings,
    wanted: Vec<Wanted<'a>>,
    average: f32,
    /// Whether each of the question's words is known; if not, no row has all of them.
    complete: bool,
    /// Of all words, also of those that no row has.
    total_weight: f32,
}

impl Postings {
    /// A new row: its terms, each once, with how often it has them.
    pub(crate) fn push(&mut self, terms: &[(Term, u8)], length: u32) {
        let row = u32::try_from(self.lengths.len()).expect("rows are counted in 32 bits");
        for &(term, count) in terms {
            let term = term as usize;
            if term >= self.lists.len() {
                self.lists.resize_with(term + 1, List::default);
            }
            self.lists[term].rows.push(row);
            self.lists[term].counts.push(count);
        }
        self.lengths.push(length);
        self.total_length += u64::from(length);
    }

    /// A row counts no longer.
    pub(crate) fn forget(&mut self, row: u32) {
        self.total_length -= u64::from(self.lengths[row as usize]);
    }

    /// A question of these terms, each once; None is a word that no chunk has.
    pub(crate) fn scorer(
        &self,
        terms: &[Option<Term>],
        alive: usize,
        is_alive: Option<&dyn Fn(u32) -> bool>,
    ) -> Scorer<'_> {
        let mut wanted = Vec::new();
        for list in terms.iter().flatten().filter_map(|&term| self.lists.get(term as usize)) {
            let count = match is_alive {
                None => list.rows.len(),
                Some(is_alive) => list.rows.iter().filter(|row| is_alive(**row)).count(),
            };
            if count > 0 {
                wanted.push(Wanted { list, weight: weight(alive, count) });
            }
        }
        let unknown = terms.len() - wanted.len();
        let known: f32 = wanted.iter().map(|wanted| wanted.weight).sum();
        Scorer {
            postings: self,
            complete: unknown == 0,
            total_weight: known + unknown as f32 * weight(alive, 0),
            wanted,
            average: average(self.total_length, alive),
        }
    }

    /// Renumbers rows: `places` has the new number of each, or `u32::MAX` for those that go.
    pub(crate) fn renumber(&mut self, places: &[u32]) {
        for list in &mut self.lists {
            let mut to = 0;
            for from in 0..list.rows.len() {
                let row = places[list.rows[from] as usize];
                if row != u32::MAX {
                    list.rows[to] = row;
                    list.counts[to] = list.counts[from];
                    to += 1;
                }
            }
            list.rows.truncate(to);
            list.counts.truncate(to);
        }
        let mut places = places.iter();
        self.lengths.retain(|_| *places.next().expect("a place for each row") != u32::MAX);
    }
}

impl Scorer<'_> {
    fn score(&self, wanted: &Wanted<'_>, row: u32, count: u8) -> f32 {
        bm25(wanted.weight, count, self.postings.lengths[row as usize], self.average)
    }

    /// Shows rows with their BM25 to `see`, in their order: those of the ranges, which are in order, and maybe others.
    pub(crate) fn scan(
        &self,
        matching: Matching,
        runs: &[Range<u32>],
        mut see: impl FnMut(u32, f32),
    ) {
        if self.wanted.is_empty() {
            return;
        }
        match matching {
            Matching::Any => {
                let mut scores = vec![0.0_f32; self.postings.lengths.len()];
                for wanted in &self.wanted {
                    for part in wanted.list.within(runs) {
                        let List { rows, counts } = wanted.list;
                        for (&row, &count) in rows[part.clone()].iter().zip(&counts[part]) {
                            scores[row as usize] += self.score(wanted, row, count);
                        }
                    }
                }
                for row in runs.iter().cloned().flatten() {
                    let score = scores[row as usize];
                    if score > 0.0 {
                        see(row, score);
                    }
                }
            }
            Matching::All if !self.complete => {}
            Matching::All => {
                let rarest = self.wanted.iter().min_by_key(|wanted| wanted.list.rows.len());
                for &row in rarest.map_or(&[][..], |rarest| &rarest.list.rows) {
                    let scores = self.wanted.iter().map(|wanted| {
                        wanted.count(row).map(|count| self.score(wanted, row, count))
                    });
                    if let Some(score) = scores.sum::<Option<f32>>() {
                        see(row, score);
                    }
                }
            }
        }
    }

    /// How much of the question's words a row has, by their weight: 0 to 1.
    pub(crate) fn share(&self, row: u32) -> f32 {
        let has = self.wanted.iter().filter(|wanted| wanted.count(row).is_some());
        let weight: f32 = has.map(|wanted| wanted.weight).sum();
        if self.total_weight > 0.0 { weight / self.total_weight } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::top::Top;

    fn postings() -> Postings {
        let mut postings = Postings::default();
        postings.push(&[(0, 1), (1, 2)], 3);
        postings.push(&[(1, 1)], 1);
        postings.push(&[(2, 1)], 5);
        postings
    }

    fn found(postings: &Postings, terms: &[Option<Term>], matching: Matching) -> Vec<(u32, f32)> {
        let mut top = Top::new(10);
        postings
            .scorer(terms, 3, None)
            .scan(matching, &[0..2, 2..3], |row, score| top.push(score, row));
        top.into_sorted().into_iter().map(|(score, row)| (row, score)).collect()
    }

    #[test]
    fn scores_are_bm25() {
        // Three rows of 3, 1 and 5 terms, 3 on average; the term 1 is in two of them.
        let weight = (1.0_f32 + 1.5 / 2.5).ln();
        let first = weight * 2.0 * 2.2 / (2.0 + 1.2);
        let second = weight * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 / 3.0));
        let got = found(&postings(), &[Some(1)], Matching::Any);
        assert_eq!(got.len(), 2);
        assert!((got[0].1 - second.max(first)).abs() < 1e-6, "{got:?} {first} {second}");
        assert!((got[1].1 - second.min(first)).abs() < 1e-6, "{got:?} {first} {second}");
    }

    #[test]
    fn all_words_are_fewer_rows_than_any() {
        let rows = |matching| {
            let mut rows: Vec<_> = found(&postings(), &[Some(0), Some(1)], matching)
                .into_iter()
                .map(|f| f.0)
                .collect();
            rows.sort_unstable();
            rows
        };
        assert_eq!(rows(Matching::Any), [0, 1]);
        assert_eq!(rows(Matching::All), [0]);
        assert!(found(&postings(), &[Some(0), None], Matching::All).is_empty());
    }

    #[test]
    fn shares_count_unknown_words() {
        let postings = postings();
        assert_eq!(postings.scorer(&[Some(0), Some(1)], 3, None).share(0), 1.0);
        let share = postings.scorer(&[Some(0), None], 3, None).share(0);
        assert!(share > 0.0 && share < 0.5, "{share}");
        assert_eq!(postings.scorer(&[None], 3, None).share(0), 0.0);
    }

    #[test]
    fn only_the_places_of_the_ranges_are_looked_at() {
        let list = List { rows: (0..100).map(|row| 3 * row).collect(), counts: vec![1; 100] };
        assert_eq!(list.within(&[3..7, 9..10, 11..12, 290..900]), [1..3, 3..4, 97..100]);
        assert_eq!(list.within(&vec![3..7; 6]).first(), Some(&(0..100)));
    }

    #[test]
    fn renumbering_leaves_no_trace() {
        let mut postings = postings();
        postings.forget(0);
        postings.renumber(&[u32::MAX, 0, 1]);
        assert_eq!(postings.lengths, [1, 5]);
        assert_eq!(postings.total_length, 6);
        assert_eq!(postings.lists[0].rows, [0; 0]);
        assert_eq!(postings.lists[1].rows, [0]);
        assert_eq!(postings.lists[2].rows, [1]);
    }
}
