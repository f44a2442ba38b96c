//! Postings (the rows of each term), and BM25.

use std::ops::Range;

use super::terms::{Term, Word};
use crate::types::Matching;

/// BM25 term-frequency saturation (`k1`). This value and [`B`] are the usual ones; with them words
/// alone reach .387 / .745 on Cranfield (docs/benchmarks.md).
const K1: f32 = 1.2;
/// BM25 length normalisation (`b`).
const B: f32 = 0.75;

/// Returns the inverse document frequency of a word that occurs in `having` of `all` rows.
pub(crate) fn weight(all: usize, having: usize) -> f32 {
    let all = all as f32;
    let having = having as f32;
    // The 1 keeps the weight of a word positive that more than half of the rows have.
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// Returns the average number of terms of a row.
pub(crate) fn average(total_length: u64, rows: usize) -> f32 {
    (total_length as f32 / rows.max(1) as f32).max(1.0)
}

/// Returns the BM25 score that a word of this weight adds to a row with this term frequency.
pub(crate) fn bm25(weight: f32, count: u8, length: u32, average: f32) -> f32 {
    let count = f32::from(count);
    let norm = K1 * (1.0 - B) + K1 * B / average * length as f32;
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
    max_count: u8,
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
        self.max_count = self.max_count.max(count);
        self.postings.push(Posting::new(row, count));
    }

    /// Returns the first position, at or after `from`, whose row is `row` or a later one.
    ///
    /// Doubles the step before it divides: a scan asks for rows in order, so the position is nearly
    /// always close, and a binary search of the whole list would touch far memory each time.
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

/// Statistics of the rows that the searcher may read, from which weights of words are computed.
/// Other rows are left out, so that scores reveal nothing about them.
pub(crate) struct Statistics {
    rows: usize,
    total_length: u64,
    /// One bit per row, set for the rows that count; `None` if all rows count.
    is_in: Option<Vec<u64>>,
}

impl Statistics {
    /// Returns the number of rows of a list that count.
    fn count(&self, list: &List) -> usize {
        let Some(bits) = &self.is_in else { return list.postings.len() };
        let mut count = 0;
        for posting in &list.postings {
            let row = posting.row();
            count += (bits[(row / 64) as usize] >> (row % 64) & 1) as usize;
        }
        count
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

    /// Marks a row as dead. Its postings stay until [`Self::renumber`]: removing them at once would
    /// search the list of each of its terms.
    pub(crate) fn mark_dead(&mut self, row: u32) {
        self.total_length -= u64::from(self.lengths[row as usize]);
    }

    /// Returns the statistics of the rows of these runs. `alive` is the number of all rows that are
    /// not dead.
    pub(crate) fn statistics(&self, runs: &[Range<u32>], alive: usize) -> Statistics {
        let rows = runs.iter().map(Range::len).sum();
        // The lists contain dead rows until the index is compacted, so their lengths are exact only
        // if no row is dead.
        if rows == self.lengths.len() && rows == alive {
            return Statistics { rows, total_length: self.total_length, is_in: None };
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
        Statistics { rows, total_length, is_in: Some(bits) }
    }

    /// Returns a scorer for these words of a question, each once.
    pub(crate) fn scorer(&self, words: &[Word], statistics: &Statistics) -> Scorer<'_> {
        let mut wanted = Vec::new();
        let mut weights = Vec::with_capacity(words.len());
        let mut complete = true;
        for word in words {
            // A list without readable rows is treated as if it were absent: the searcher must not
            // notice that others have the term.
            let lists: Vec<(&List, usize)> = (word.terms.iter())
                .filter_map(|&term| self.lists.get(term as usize))
                .map(|list| (list, statistics.count(list)))
                .filter(|(_, count)| *count > 0)
                .collect();
            if word.is_optional && lists.is_empty() {
                continue;
            }
            let count: usize = lists.iter().map(|(_, count)| count).sum();
            // A row with two terms of the word is counted twice, so the sum can exceed the rows.
            let word_weight = weight(statistics.rows, count.min(statistics.rows));
            let index = weights.len();
            weights.push(word_weight);
            complete &= !lists.is_empty();
            let weight = word_weight * word.count as f32;
            wanted.extend(lists.into_iter().map(|(list, _)| QueryTerm {
                list,
                weight,
                word: index,
            }));
        }
        Scorer {
            postings: self,
            complete,
            total_weight: weights.iter().sum(),
            words: weights,
            wanted,
            average: average(statistics.total_length, statistics.rows),
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
/// A window extends over gaps of unwanted rows that are no longer than this. Scoring a few rows in
/// vain costs less than another window, which looks up its place in each list.
const GAP: u32 = 64;

impl Scorer<'_> {
    fn score(&self, wanted: &QueryTerm<'_>, length: u32, count: u8) -> f32 {
        bm25(wanted.weight, count, length, self.average)
    }

    fn score_of_row(&self, wanted: &QueryTerm<'_>, row: u32, count: u8) -> f32 {
        self.score(wanted, self.postings.lengths[row as usize], count)
    }

    /// Passes matching rows of the runs, which are in order, with their BM25 scores to `visit`, in
    /// order. `visit` returns the score that later rows must exceed.
    pub(crate) fn scan(
        &self,
        matching: Matching,
        runs: &[Range<u32>],
        mut visit: impl FnMut(u32, f32) -> f32,
    ) {
        if self.wanted.is_empty() {
            return;
        }
        match matching {
            Matching::Any => self.scan_any(runs, visit),
            Matching::All if !self.complete => {}
            // Only rows of the rarest word are scored, so a threshold would save little.
            Matching::All => self.scan_all(runs, |row, score| {
                visit(row, score);
            }),
        }
    }

    /// Scores the rows that have all words. Only rows of the rarest word are looked up in the lists
    /// of the others.
    fn scan_all(&self, runs: &[Range<u32>], mut visit: impl FnMut(u32, f32)) {
        let mut sizes = vec![0; self.words.len()];
        for wanted in &self.wanted {
            sizes[wanted.word] += wanted.list.postings.len();
        }
        let rarest = (0..sizes.len()).min_by_key(|&word| sizes[word]);
        let mut rows: Vec<u32> = (self.wanted.iter())
            .filter(|wanted| Some(wanted.word) == rarest)
            .flat_map(|wanted| wanted.list.postings.iter().map(|posting| posting.row()))
            .collect();
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
                visit(row, score);
            }
        }
    }

    /// Scores the rows that have any word, one window at a time.
    fn scan_any(&self, runs: &[Range<u32>], mut visit: impl FnMut(u32, f32) -> f32) {
        let mut scan = MaxScore::new(self);
        let mut scores = vec![0_i32; WINDOW as usize];
        for (window, runs) in windows(runs) {
            scan.update_minor_terms();
            if scan.minor == scan.terms.len() {
                return;
            }
            let scores = &mut scores[..window.len()];
            scan.add_major_scores(&window, scores);
            for run in runs {
                let run = run.start.max(window.start)..run.end.min(window.end);
                let first = (run.start - window.start) as usize;
                let scores = &scores[first..first + run.len()];
                scan.visit_run(run, scores, &mut visit);
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

/// A scan by MaxScore (Turtle and Flood 1995). Once enough rows are known, terms that cannot lift a
/// row among the best by themselves are minor: they are looked up only for rows that other terms
/// have brought close.
struct MaxScore<'a> {
    scorer: &'a Scorer<'a>,
    units: Units,
    /// All terms in ascending order of their bounds, so that as many as possible become minor.
    terms: Vec<Cursor<'a>>,
    /// Number of leading terms that even together cannot bring a row among the best.
    minor: usize,
    /// Sum of the bounds of the minor terms.
    minor_bound: i32,
    /// The score that a row must exceed.
    threshold: i32,
}

/// The position of a scan in the postings of one term.
struct Cursor<'a> {
    wanted: &'a QueryTerm<'a>,
    /// Upper bound of this term's score for any row.
    bound: i32,
    position: usize,
}

impl<'a> MaxScore<'a> {
    fn new(scorer: &'a Scorer<'a>) -> Self {
        let all: f32 = scorer.wanted.iter().map(|wanted| wanted.weight * (K1 + 1.0)).sum();
        let units = Units::up_to(all);
        let mut terms: Vec<_> = scorer
            .wanted
            .iter()
            .map(|wanted| {
                let bound = scorer.score(wanted, wanted.list.shortest, wanted.list.max_count);
                // One more, because of rounding.
                Cursor { wanted, bound: units.of(bound) + 1, position: 0 }
            })
            .collect();
        terms.sort_by_key(|term| term.bound);
        Self { scorer, units, terms, minor: 0, minor_bound: 0, threshold: 0 }
    }

    /// Makes terms minor that the threshold has outgrown.
    fn update_minor_terms(&mut self) {
        while let Some(term) = self.terms.get(self.minor)
            && self.minor_bound + term.bound <= self.threshold
        {
            self.minor_bound += term.bound;
            self.minor += 1;
        }
    }

    /// Adds the scores of the other terms to the rows of a window.
    fn add_major_scores(&mut self, window: &Range<u32>, scores: &mut [i32]) {
        let scorer = self.scorer;
        let units = self.units;
        let lengths = &scorer.postings.lengths[window.start as usize..window.end as usize];
        for Cursor { wanted, position, .. } in &mut self.terms[self.minor..] {
            let list = wanted.list;
            let start = list.position(*position, window.start);
            *position = list.position(start, window.end);
            for posting in &list.postings[start..*position] {
                let at = (posting.row() - window.start) as usize;
                scores[at] += units.of(scorer.score(wanted, lengths[at], posting.count));
            }
        }
    }

    /// Passes the rows of a run whose scores exceed the threshold to `visit`, which returns the new
    /// threshold. `scores` are the scores of the run's rows without the minor terms.
    fn visit_run(
        &mut self,
        run: Range<u32>,
        scores: &[i32],
        visit: &mut impl FnMut(u32, f32) -> f32,
    ) {
        for (first_row, scores) in run.step_by(LANES).zip(scores.chunks(LANES)) {
            // Most rows are far below the threshold.
            if !any_exceeds(scores, self.threshold - self.minor_bound) {
                continue;
            }
            for (row, &score) in (first_row..).zip(scores) {
                let score = self.with_minor_scores(row, score);
                if score > self.threshold {
                    let threshold = self.units.of(visit(row, self.units.score(score)));
                    self.threshold = self.threshold.max(threshold);
                }
            }
        }
    }

    /// Adds the scores of the minor terms to the score of a row. Stops as soon as the row cannot
    /// exceed the threshold any more.
    #[inline]
    fn with_minor_scores(&mut self, row: u32, mut score: i32) -> i32 {
        let scorer = self.scorer;
        let mut rest = self.minor_bound;
        // The terms with the largest bounds come first: after them, the rest of the row can be
        // given up soonest.
        for Cursor { wanted, bound, position } in self.terms[..self.minor].iter_mut().rev() {
            if score + rest <= self.threshold {
                break;
            }
            *position = wanted.list.position(*position, row);
            let posting = wanted.list.postings.get(*position);
            if let Some(posting) = posting.filter(|posting| posting.row() == row) {
                score += self.units.of(scorer.score_of_row(wanted, row, posting.count));
            }
            rest -= *bound;
        }
        score
    }
}

/// Returns whether any score exceeds `min`. It has no branch for each score, so that the compiler
/// compares many at once.
#[inline]
fn any_exceeds(scores: &[i32], min: i32) -> bool {
    scores.iter().fold(false, |any, &score| any | (score > min))
}

/// Scores as integers.
///
/// Sums of floating-point numbers depend on their order, and MaxScore adds terms in an order that
/// depends on the rows before. Sums of integers do not, so rows with equal scores share a rank.
#[derive(Clone, Copy)]
struct Units(f32);

impl Units {
    /// Returns units for scores up to `all`. The unit is a power of two, so that the conversion
    /// changes no digit, and it leaves a bit for the bounds, which are rounded up.
    ///
    /// It depends on no row: a row of another user could otherwise change the rounding.
    fn up_to(all: f32) -> Self {
        Self((2.0_f32.powi(29) / all).log2().floor().exp2())
    }

    #[inline(always)]
    fn of(self, score: f32) -> i32 {
        (score * self.0) as i32
    }

    #[inline(always)]
    fn score(self, units: i32) -> f32 {
        units as f32 / self.0
    }
}

/// Number of rows that are compared together.
const LANES: usize = 32;

/// Returns the windows of a scan, each with the wanted runs that it overlaps.
fn windows(runs: &[Range<u32>]) -> impl Iterator<Item = (Range<u32>, &[Range<u32>])> {
    let mut first = 0;
    let mut start = runs.first().map_or(0, |run| run.start);
    std::iter::from_fn(move || {
        let rest = runs.get(first..).filter(|rest| !rest.is_empty())?;
        let limit = start.saturating_add(WINDOW);
        let mut end = start;
        let mut met = 0;
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
    use crate::ranking::top::TopRows;

    fn postings() -> Postings {
        let mut postings = Postings::default();
        postings.push(&[(0, 1), (1, 2)], 3);
        postings.push(&[(1, 1)], 1);
        postings.push(&[(2, 1)], 5);
        postings
    }

    /// Returns a scorer for words of one term each; `None` is a term without rows.
    fn scorer<'a>(postings: &'a Postings, terms: &[Option<Term>]) -> Scorer<'a> {
        let words: Vec<_> = terms.iter().map(|term| word(term.iter().copied().collect())).collect();
        let rows = postings.lengths.len();
        postings.scorer(&words, &postings.statistics(&[0..rows as u32], rows))
    }

    /// Returns a word that a question has once.
    fn word(terms: Vec<Term>) -> Word {
        Word { terms, count: 1, ..Word::default() }
    }

    fn found(postings: &Postings, terms: &[Option<Term>], matching: Matching) -> Vec<(u32, f32)> {
        let mut top = TopRows::new(10);
        scorer(postings, terms).scan(matching, &[0..2, 2..3], |row, score| {
            top.push(score, row);
            top.threshold()
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
        for (matching, want) in [(Matching::Any, &[0, 1][..]), (Matching::All, &[0])] {
            let found = found(&postings(), &[Some(0), Some(1)], matching);
            let mut rows: Vec<_> = found.into_iter().map(|(row, _)| row).collect();
            rows.sort_unstable();
            assert_eq!(rows, want);
        }
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
    fn a_repeated_word_counts_twice() {
        let postings = postings();
        let all = postings.statistics(&[0..3], 3);
        let mut words = [word(vec![1])];
        let once = scores(&postings.scorer(&words, &all), &[0..3]);
        words[0].count = 2;
        let twice = scores(&postings.scorer(&words, &all), &[0..3]);
        assert_eq!((once.len(), twice.len()), (2, 2));
        for ((_, once), (_, twice)) in once.into_iter().zip(twice) {
            assert!((twice - 2.0 * once).abs() < 1e-6, "{once} {twice}");
        }
    }

    /// Returns all rows with any of the words, with their scores.
    fn scores(scorer: &Scorer<'_>, runs: &[Range<u32>]) -> Vec<(u32, f32)> {
        let mut scores = Vec::new();
        scorer.scan(Matching::Any, runs, |row, score| {
            scores.push((row, score));
            f32::NEG_INFINITY
        });
        scores
    }

    #[test]
    fn terms_of_one_word_are_one_word() {
        let postings = postings();
        let all = postings.statistics(&[0..3], 3);
        let words = [vec![0, 2], vec![1]].map(word);
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
    fn unreadable_rows_do_not_change_scores() {
        let mut alone = Postings::default();
        let mut beside = Postings::default();
        for (terms, length) in [(&[(0, 1), (1, 2)][..], 3), (&[(1, 1)], 1)] {
            alone.push(terms, length);
            beside.push(terms, length);
        }
        beside.push(&[(0, 9), (2, 1)], 1_000);
        let words = [0, 1, 2].map(|term| word(vec![term]));
        let [want, got] = [alone, beside].map(|postings| {
            let statistics = postings.statistics(&[0..2], postings.lengths.len());
            let scorer = postings.scorer(&words, &statistics);
            (scores(&scorer, &[0..2]), [scorer.share(0), scorer.share(1)])
        });
        assert_eq!(got, want);
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
        check_windows(&[], &[]);
        check_windows(&[3..9, 9..10], &[(3..10, 2)]);
        check_windows(&[3..9, 11..20, 200..201], &[(3..20, 2), (200..201, 1)]);
        check_windows(
            &[0..WINDOW + 5, WINDOW + 6..WINDOW + 7],
            &[(0..WINDOW, 1), (WINDOW..WINDOW + 7, 2)],
        );
        check_windows(&[0..5, 9..WINDOW + 1], &[(0..WINDOW, 2), (WINDOW..WINDOW + 1, 1)]);
        check_windows(&[0..WINDOW, WINDOW..WINDOW + 1], &[(0..WINDOW, 1), (WINDOW..WINDOW + 1, 1)]);
    }

    #[track_caller]
    fn check_windows(runs: &[Range<u32>], want: &[(Range<u32>, usize)]) {
        let got: Vec<_> = windows(runs).map(|(window, runs)| (window, runs.len())).collect();
        assert_eq!(got, want, "{runs:?}");
    }

    /// A xorshift generator.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 40) as u32
        }
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
            let mut random = Random(seed | 1);
            let mut postings = Postings::default();
            for _ in 0..rows {
                let mut terms = Vec::new();
                for term in 0..6 {
                    if random.next().is_multiple_of(1 << (2 * term)) {
                        terms.push((term, 1 + (random.next() % 3) as u8));
                    }
                }
                postings.push(&terms, 1 + random.next() % 50);
            }
            let terms: Vec<_> = (0..7).map(Some).collect();
            let scorer = scorer(&postings, &terms);
            let cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(rows)).collect();
            let runs: Vec<_> = cuts.chunks_exact(2).map(|cut| cut[0]..cut[1]).filter(|run| !run.is_empty()).collect();
            let runs = if runs.is_empty() { vec![0..1, 1..rows] } else { runs };

            let mut top = TopRows::new(limit);
            scorer.scan(Matching::Any, &runs, |row, score| {
                top.push(score, row);
                top.threshold()
            });
            let mut all = TopRows::new(limit);
            for row in runs.iter().cloned().flatten() {
                let scores = scorer.wanted.iter().filter_map(|it| Some(scorer.score_of_row(it, row, it.count(row)?)));
                let score: f32 = scores.sum();
                if score > 0.0 {
                    all.push(score, row);
                }
            }
            let got = top.into_sorted();
            let want = all.into_sorted();
            prop_assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got.0 - want.0).abs() < 1e-4, "{:?} {:?}", got, want);
            }
        }
    }

    #[test]
    fn renumbering_leaves_no_trace() {
        let mut postings = postings();
        postings.mark_dead(0);
        postings.renumber(&[u32::MAX, 0, 1]);
        assert_eq!(postings.lengths, [1, 5]);
        assert_eq!(postings.total_length, 6);
        assert_eq!(postings.lists[0].postings, []);
        assert_eq!(postings.lists[1].postings, [Posting::new(0, 1)]);
        assert_eq!(postings.lists[2].postings, [Posting::new(1, 1)]);
    }
}
