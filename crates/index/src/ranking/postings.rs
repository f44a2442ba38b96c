//! Postings (the rows of each term), and BM25.

use std::ops::Range;

use super::terms::{Term, Word};
use crate::types::Matching;

/// BM25 term-frequency saturation (`k1`).
const K1: f32 = 1.2;
/// BM25 length normalisation (`b`).
const B: f32 = 0.75;

/// Returns the inverse document frequency of a word that occurs in `having` of `all` rows.
pub(crate) fn weight(all: usize, having: usize) -> f32 {
    let (all, having) = (all as f32, having as f32);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// Returns the average number of terms of a row.
pub(crate) fn average(total_length: u64, rows: usize) -> f32 {
    (total_length as f32 / rows.max(1) as f32).max(1.0)
}

/// Returns the BM25 score that a word of this weight adds to a row with this term frequency.
pub(crate) fn bm25(weight: f32, count: u8, length: u32, average: f32) -> f32 {
    let (count, length) = (f32::from(count), length as f32);
    let norm = K1 * (1.0 - B) + K1 * B / average * length;
    weight * count * (K1 + 1.0) / (count + norm)
}

/// The rows of each term, and the number of terms of each row.
#[derive(Debug, Default)]
pub(crate) struct Postings {
    lists: Vec<List>,
    lengths: Vec<u32>,
    /// Total number of terms of the rows that are not dead.
    total_length: u64,
}

/// The rows of one term, in their order.
#[derive(Debug, Default)]
struct List {
    postings: Vec<Posting>,
    /// Upper bound of the term frequency in the rows of this list.
    most: u8,
    /// Lower bound of the number of terms of the rows of this list.
    shortest: u32,
}

/// A row with a term.
///
/// Stored as bytes without padding, because there are more postings than any other data here.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Posting {
    row: [u8; 4],
    /// Term frequency; 255 also represents larger ones.
    count: u8,
}

impl Posting {
    fn new(row: u32, count: u8) -> Self {
        Self { row: row.to_ne_bytes(), count }
    }

    fn row(self) -> u32 {
        u32::from_ne_bytes(self.row)
    }
}

impl List {
    fn push(&mut self, row: u32, count: u8, length: u32) {
        self.shortest = if self.postings.is_empty() { length } else { self.shortest.min(length) };
        self.most = self.most.max(count);
        self.postings.push(Posting::new(row, count));
    }

    /// Returns the first position, at or after `from`, whose row is `row` or a later one. Near
    /// positions are found quickly.
    fn position(&self, from: usize, row: u32) -> usize {
        let rest = &self.postings[from..];
        let mut step = 1;
        while rest.get(step - 1).is_some_and(|there| there.row() < row) {
            step *= 2;
        }
        let near = step / 2..step.min(rest.len() + 1) - 1;
        from + near.start + rest[near].partition_point(|there| there.row() < row)
    }
}

/// The rows from which weights of words are computed: those that the searcher may read, so that
/// scores reveal nothing about others.
pub(crate) struct Weighed {
    rows: usize,
    total_length: u64,
    /// One bit per row, set for the rows that count; `None` if all rows count.
    is_in: Option<Vec<u64>>,
}

impl Weighed {
    /// Returns the number of rows of a list that count.
    fn count(&self, list: &List) -> usize {
        match &self.is_in {
            None => list.postings.len(),
            Some(bits) => {
                let is_in = |row: u32| bits[(row / 64) as usize] >> (row % 64) & 1;
                list.postings.iter().map(|posting| is_in(posting.row()) as usize).sum()
            }
        }
    }
}

/// A term of a question with its postings and its weight.
struct QueryTerm<'a> {
    list: &'a List,
    weight: f32,
    /// Index of the term's word in the question.
    word: usize,
}

impl QueryTerm<'_> {
    fn count(&self, row: u32) -> Option<u8> {
        let postings = &self.list.postings;
        postings
            .binary_search_by_key(&row, |it| it.row())
            .ok()
            .map(|position| postings[position].count)
    }
}

/// Scores all rows for the words of a question.
pub(crate) struct Scorer<'a> {
    postings: &'a Postings,
    wanted: Vec<QueryTerm<'a>>,
    /// Weight of each word, without its frequency in the question.
    words: Vec<f32>,
    average: f32,
    /// Whether all words of the question are known; if not, no row has all of them.
    complete: bool,
    /// Sum of the weights of all words, including unknown ones.
    total_weight: f32,
}

impl Postings {
    /// Adds a row. `terms` has each term once, with its frequency.
    pub(crate) fn push(&mut self, terms: &[(Term, u8)], length: u32) {
        let row = u32::try_from(self.lengths.len()).expect("rows are counted in 32 bits");
        for &(term, count) in terms {
            let term = term as usize;
            if term >= self.lists.len() {
                self.lists.resize_with(term + 1, List::default);
            }
            self.lists[term].push(row, count, length);
        }
        self.lengths.push(length);
        self.total_length += u64::from(length);
    }

    /// Marks a row as dead.
    pub(crate) fn forget(&mut self, row: u32) {
        self.total_length -= u64::from(self.lengths[row as usize]);
    }

    /// Returns the rows of these runs as those from which weights are computed. `alive` is the
    /// number of all rows that are not dead.
    pub(crate) fn weighed(&self, runs: &[Range<u32>], alive: usize) -> Weighed {
        let rows = runs.iter().map(Range::len).sum();
        if rows == self.lengths.len() && rows == alive {
            return Weighed { rows, total_length: self.total_length, is_in: None };
        }
        let mut bits = vec![0_u64; self.lengths.len().div_ceil(64)];
        let mut total_length = 0;
        for run in runs {
            let lengths = &self.lengths[run.start as usize..run.end as usize];
            total_length += lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
            for row in run.clone() {
                bits[(row / 64) as usize] |= 1 << (row % 64);
            }
        }
        Weighed { rows, total_length, is_in: Some(bits) }
    }

    /// Returns a scorer for these words of a question, each once.
    pub(crate) fn scorer(&self, words: &[Word], weighed: &Weighed) -> Scorer<'_> {
        let mut wanted = Vec::new();
        let mut weights = Vec::with_capacity(words.len());
        let mut complete = true;
        for word in words {
            let lists = word.terms.iter().filter_map(|&term| self.lists.get(term as usize));
            let lists: Vec<_> = lists
                .map(|list| (list, weighed.count(list)))
                .filter(|(_, count)| *count > 0)
                .collect();
            if word.is_optional && lists.is_empty() {
                continue;
            }
            let count: usize = lists.iter().map(|(_, count)| count).sum();
            let weight = weight(weighed.rows, count.min(weighed.rows));
            let at = weights.len();
            weights.push(weight);
            complete &= !lists.is_empty();
            let weight = weight * word.count as f32;
            wanted.extend(lists.into_iter().map(|(list, _)| QueryTerm { list, weight, word: at }));
        }
        Scorer {
            postings: self,
            complete,
            total_weight: weights.iter().sum(),
            words: weights,
            wanted,
            average: average(weighed.total_length, weighed.rows),
        }
    }

    /// Renumbers rows. `new_rows` has the new number of each row, or `u32::MAX` for a row to
    /// remove.
    pub(crate) fn renumber(&mut self, new_rows: &[u32]) {
        for list in &mut self.lists {
            list.postings.retain_mut(|posting| {
                let row = new_rows[posting.row() as usize];
                *posting = Posting::new(row, posting.count);
                row != u32::MAX
            });
        }
        let mut new_rows = new_rows.iter();
        self.lengths.retain(|_| *new_rows.next().expect("a new number for each row") != u32::MAX);
    }
}

/// Number of rows that are scored together: their scores fit into the first-level cache.
const WINDOW: u32 = 1 << 13;
/// A window extends over gaps of unwanted rows that are shorter than this.
const GAP: u32 = 64;

/// The position of a scan in the postings of one term.
struct Cursor<'a> {
    wanted: &'a QueryTerm<'a>,
    /// Upper bound of this term's score for any row.
    bound: i32,
    position: usize,
}

impl Scorer<'_> {
    fn score(&self, wanted: &QueryTerm<'_>, length: u32, count: u8) -> f32 {
        bm25(wanted.weight, count, length, self.average)
    }

    fn score_of_row(&self, wanted: &QueryTerm<'_>, row: u32, count: u8) -> f32 {
        self.score(wanted, self.postings.lengths[row as usize], count)
    }

    /// Passes matching rows of the ranges, which are in order, with their BM25 scores to `see`, in
    /// order. `see` returns the score that later rows must exceed.
    pub(crate) fn scan(
        &self,
        matching: Matching,
        runs: &[Range<u32>],
        mut see: impl FnMut(u32, f32) -> f32,
    ) {
        if self.wanted.is_empty() {
            return;
        }
        match matching {
            Matching::Any => self.scan_any(runs, see),
            Matching::All if !self.complete => {}
            Matching::All => {
                let mut sizes = vec![0; self.words.len()];
                for wanted in &self.wanted {
                    sizes[wanted.word] += wanted.list.postings.len();
                }
                let rarest = (0..sizes.len()).min_by_key(|&word| sizes[word]);
                let lists = self.wanted.iter().filter(|wanted| Some(wanted.word) == rarest);
                let mut rows: Vec<u32> =
                    lists.flat_map(|it| it.list.postings.iter().map(|it| it.row())).collect();
                rows.sort_unstable();
                rows.dedup();
                let mut rest = runs.iter().peekable();
                let mut has = vec![false; self.words.len()];
                for row in rows {
                    while rest.next_if(|run| run.end <= row).is_some() {}
                    if rest.peek().is_none_or(|run| row < run.start) {
                        continue;
                    }
                    has.fill(false);
                    let mut score = 0.0;
                    for wanted in &self.wanted {
                        if let Some(count) = wanted.count(row) {
                            has[wanted.word] = true;
                            score += self.score_of_row(wanted, row, count);
                        }
                    }
                    if !has.contains(&false) {
                        see(row, score);
                    }
                }
            }
        }
    }

    /// Scores rows by MaxScore (Turtle and Flood 1995), one window at a time. Once enough rows are
    /// known, terms that cannot lift a row among the best by themselves are looked up only for rows
    /// that other terms have brought close.
    fn scan_any(&self, runs: &[Range<u32>], mut see: impl FnMut(u32, f32) -> f32) {
        // Scores are summed as integers, so that equal scores are equal in whatever order terms
        // come. The rounding depends on no row, which could belong to another user.
        let bound =
            |wanted: &QueryTerm<'_>| self.score(wanted, wanted.list.shortest, wanted.list.most);
        let all: f32 = self.wanted.iter().map(|wanted| wanted.weight * (K1 + 1.0)).sum();
        let unit = (2.0_f32.powi(29) / all).log2().floor().exp2();
        let units = |score: f32| (score * unit) as i32;

        let mut terms: Vec<_> = (self.wanted.iter())
            // One more, because of rounding.
            .map(|wanted| Cursor { wanted, bound: units(bound(wanted)) + 1, position: 0 })
            .collect();
        terms.sort_by_key(|term| term.bound);
        // The number of leading terms that cannot bring a row among the best together, and the
        // bound of their sum.
        let (mut minor, mut of_minor) = (0, 0);
        // The score that a row must exceed.
        let mut least = 0;
        let mut scores = vec![0_i32; WINDOW as usize];
        for (window, runs) in windows(runs) {
            while let Some(term) = terms.get(minor)
                && of_minor + term.bound <= least
            {
                of_minor += term.bound;
                minor += 1;
            }
            let (minor_terms, major_terms) = terms.split_at_mut(minor);
            if major_terms.is_empty() {
                return;
            }
            let lengths = &self.postings.lengths[window.start as usize..window.end as usize];
            let scores = &mut scores[..lengths.len()];
            for Cursor { wanted, position, .. } in major_terms {
                let list = wanted.list;
                let start = list.position(*position, window.start);
                *position = list.position(start, window.end);
                for posting in &list.postings[start..*position] {
                    let at = (posting.row() - window.start) as usize;
                    scores[at] += units(self.score(wanted, lengths[at], posting.count));
                }
            }
            for run in runs {
                let run = run.start.max(window.start)..run.end.min(window.end);
                let first = run.start - window.start;
                let scores = &scores[first as usize..(run.end - window.start) as usize];
                for (rows, scores) in run.step_by(LANES).zip(scores.chunks(LANES)) {
                    // Most rows are far below the threshold. The compiler turns this into one
                    // comparison of many rows.
                    if !scores.iter().fold(false, |any, &score| any | (score > least - of_minor)) {
                        continue;
                    }
                    for (row, &score) in (rows..).zip(scores) {
                        let (mut score, mut rest) = (score, of_minor);
                        for Cursor { wanted, bound, position } in minor_terms.iter_mut().rev() {
                            if score + rest <= least {
                                break;
                            }
                            *position = wanted.list.position(*position, row);
                            let posting = wanted.list.postings.get(*position);
                            if let Some(posting) = posting.filter(|posting| posting.row() == row) {
                                score += units(self.score_of_row(wanted, row, posting.count));
                            }
                            rest -= *bound;
                        }
                        if score > least {
                            least = units(see(row, score as f32 / unit)).max(least);
                        }
                    }
                }
            }
            scores.fill(0);
        }
    }

    /// Returns the share of the question's words that a row has, by weight, from 0 to 1.
    pub(crate) fn share(&self, row: u32) -> f32 {
        let mut has = vec![false; self.words.len()];
        for wanted in self.wanted.iter().filter(|wanted| wanted.count(row).is_some()) {
            has[wanted.word] = true;
        }
        let weights = self.words.iter().zip(has).filter(|(_, has)| *has);
        let weight: f32 = weights.map(|(weight, _)| weight).sum();
        if self.total_weight > 0.0 { weight / self.total_weight } else { 0.0 }
    }
}

/// Number of rows that are compared together.
const LANES: usize = 32;

/// Returns the windows of a scan, each with the wanted runs that it overlaps.
fn windows(runs: &[Range<u32>]) -> impl Iterator<Item = (Range<u32>, &[Range<u32>])> {
    let (mut first, mut start) = (0, runs.first().map_or(0, |run| run.start));
    std::iter::from_fn(move || {
        let rest = runs.get(first..).filter(|rest| !rest.is_empty())?;
        let limit = start.saturating_add(WINDOW);
        let (mut end, mut met) = (start, 0);
        for run in rest {
            if run.start >= limit || (met > 0 && run.start - end > GAP) {
                break;
            }
            end = run.end.min(limit);
            met += 1;
        }
        let window = start..end;
        let runs = &rest[..met];
        // A run that is longer than the window continues in the next window.
        let is_cut = runs.last().is_some_and(|run| run.end > end);
        first += met - usize::from(is_cut);
        start = if is_cut { end } else { rest.get(met).map_or(end, |run| run.start) };
        Some((window, runs))
    })
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "rows are given as a list of ranges")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ranking::top::Top;

    fn postings() -> Postings {
        let mut postings = Postings::default();
        postings.push(&[(0, 1), (1, 2)], 3);
        postings.push(&[(1, 1)], 1);
        postings.push(&[(2, 1)], 5);
        postings
    }

    /// Returns a scorer for words of one term each; `None` is a term without rows.
    fn scorer<'a>(postings: &'a Postings, terms: &[Option<Term>]) -> Scorer<'a> {
        let word = |term: &Option<Term>| Word {
            terms: term.iter().copied().collect(),
            count: 1,
            ..Word::default()
        };
        let words: Vec<_> = terms.iter().map(word).collect();
        let rows = postings.lengths.len();
        postings.scorer(&words, &postings.weighed(&[0..rows as u32], rows))
    }

    fn found(postings: &Postings, terms: &[Option<Term>], matching: Matching) -> Vec<(u32, f32)> {
        let mut top = Top::new(10);
        scorer(postings, terms).scan(matching, &[0..2, 2..3], |row, score| {
            top.push(score, row);
            top.least()
        });
        top.into_sorted().into_iter().map(|(score, row)| (row, score)).collect()
    }

    #[test]
    fn scores_are_bm25() {
        // Three rows with 3, 1 and 5 terms, 3 on average. Two of them have the term 1.
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
        assert_eq!(scorer(&postings, &[Some(0), Some(1)]).share(0), 1.0);
        let share = scorer(&postings, &[Some(0), None]).share(0);
        assert!(share > 0.0 && share < 0.5, "{share}");
        assert_eq!(scorer(&postings, &[None]).share(0), 0.0);
    }

    #[test]
    fn a_word_that_is_said_twice_counts_twice() {
        let postings = postings();
        let score = |count| {
            let word = Word { terms: vec![1], count, ..Word::default() };
            let all = postings.weighed(&[0..3], 3);
            let mut scores = Vec::new();
            postings.scorer(&[word], &all).scan(Matching::Any, &[0..3], |_, score| {
                scores.push(score);
                f32::NEG_INFINITY
            });
            scores
        };
        for (once, twice) in score(1).into_iter().zip(score(2)) {
            assert!((twice - 2.0 * once).abs() < 1e-6, "{once} {twice}");
        }
    }

    #[test]
    fn terms_of_one_word_are_one_word() {
        let postings = postings();
        let all = postings.weighed(&[0..3], 3);
        let words = [vec![0, 2], vec![1]].map(|terms| Word { terms, count: 1, ..Word::default() });
        let scorer = postings.scorer(&words, &all);
        let mut rows = Vec::new();
        scorer.scan(Matching::All, &[0..3], |row, _| {
            rows.push(row);
            f32::NEG_INFINITY
        });
        assert_eq!(rows, [0]);
        assert_eq!(scorer.share(0), 1.0);
    }

    #[test]
    fn rows_of_others_do_not_weigh() {
        let (mut alone, mut beside) = (Postings::default(), Postings::default());
        for (terms, length) in [(&[(0, 1), (1, 2)][..], 3), (&[(1, 1)], 1)] {
            alone.push(terms, length);
            beside.push(terms, length);
        }
        beside.push(&[(0, 9), (2, 1)], 1_000);
        let score = |postings: &Postings| {
            let words =
                [0, 1, 2].map(|term| Word { terms: vec![term], count: 1, ..Word::default() });
            let weighed = postings.weighed(&[0..2], postings.lengths.len());
            let (mut scores, scorer) = (Vec::new(), postings.scorer(&words, &weighed));
            scorer.scan(Matching::Any, &[0..2], |row, score| {
                scores.push((row, score, scorer.share(row)));
                f32::NEG_INFINITY
            });
            scores
        };
        assert_eq!(score(&alone), score(&beside));
    }

    #[test]
    fn positions_are_found_from_anywhere() {
        let postings = (0..100).map(|row| Posting::new(3 * row, 1)).collect();
        let list = List { postings, ..List::default() };
        for from in 0..=100 {
            for row in 0..310 {
                let want = from.max((row as usize).div_ceil(3).min(100));
                assert_eq!(list.position(from, row), want, "{row} from {from}");
            }
        }
    }

    #[test]
    fn windows_cover_all_runs_and_little_else() {
        let check = |runs: &[Range<u32>], want: &[(Range<u32>, usize)]| {
            let got: Vec<_> = windows(runs).map(|(window, runs)| (window, runs.len())).collect();
            assert_eq!(got, want, "{runs:?}");
        };
        check(&[], &[]);
        check(&[3..9, 9..10], &[(3..10, 2)]);
        check(&[3..9, 11..20, 200..201], &[(3..20, 2), (200..201, 1)]);
        check(&[0..WINDOW + 5, WINDOW + 6..WINDOW + 7], &[(0..WINDOW, 1), (WINDOW..WINDOW + 7, 2)]);
        check(&[0..5, 9..WINDOW + 1], &[(0..WINDOW, 2), (WINDOW..WINDOW + 1, 1)]);
        check(&[0..WINDOW, WINDOW..WINDOW + 1], &[(0..WINDOW, 1), (WINDOW..WINDOW + 1, 1)]);
    }

    proptest! {
        /// Skipping rows does not change the result: the best rows equal those of a plain sum over
        /// all rows.
        #[test]
        fn the_best_are_the_best_of_all(
            seed: u64, rows in 1_u32..40_000, limit in 1_usize..30,
            cuts in prop::collection::btree_set(0_u32..40_000, 0..12),
        ) {
            // The terms range from frequent to rare; some occur several times in a row.
            let mut state = seed | 1;
            let mut random = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 40) as u32
            };
            let mut postings = Postings::default();
            for _ in 0..rows {
                let terms = (0..6).filter(|term| random() % (1 << (2 * term)) == 0);
                let terms: Vec<_> = terms.collect::<Vec<_>>().into_iter().map(|term| (term, 1 + (random() % 3) as u8)).collect();
                postings.push(&terms, 1 + random() % 50);
            }
            let terms: Vec<_> = (0..7).map(Some).collect();
            let scorer = scorer(&postings, &terms);
            let cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(rows)).collect();
            let runs: Vec<_> = cuts.chunks_exact(2).map(|cut| cut[0]..cut[1]).filter(|run| !run.is_empty()).collect();
            let runs = if runs.is_empty() { vec![0..1, 1..rows] } else { runs };

            let mut top = Top::new(limit);
            scorer.scan(Matching::Any, &runs, |row, score| {
                top.push(score, row);
                top.least()
            });
            let mut all = Top::new(limit);
            for row in runs.iter().cloned().flatten() {
                let scores = scorer.wanted.iter().filter_map(|it| Some(scorer.score_of_row(it, row, it.count(row)?)));
                let score: f32 = scores.sum();
                if score > 0.0 {
                    all.push(score, row);
                }
            }
            let (got, want) = (top.into_sorted(), all.into_sorted());
            prop_assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got.0 - want.0).abs() < 1e-4, "{:?} {:?}", got, want);
            }
        }
    }

    #[test]
    fn renumbering_leaves_no_trace() {
        let mut postings = postings();
        postings.forget(0);
        postings.renumber(&[u32::MAX, 0, 1]);
        assert_eq!(postings.lengths, [1, 5]);
        assert_eq!(postings.total_length, 6);
        assert_eq!(postings.lists[0].postings, []);
        assert_eq!(postings.lists[1].postings, [Posting::new(0, 1)]);
        assert_eq!(postings.lists[2].postings, [Posting::new(1, 1)]);
    }
}
