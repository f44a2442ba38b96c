//! Selects the best rows of many.

/// Keeps the rows with the highest scores. Of rows with equal scores, it keeps the first ones.
pub(crate) struct TopRows {
    limit: usize,
    /// The score that a row must exceed to be among the best.
    threshold: f32,
    rows: Vec<(f32, u32)>,
}

impl TopRows {
    pub(crate) fn new(limit: usize) -> Self {
        // More than twice the limit, so that each selection drops at least as many rows as it
        // keeps. The cost of selecting is then constant for each row.
        let rows = Vec::with_capacity(2 * limit + 64);
        Self { limit, threshold: f32::NEG_INFINITY, rows }
    }

    /// Returns the score that a row must exceed to be kept; negative infinity at first.
    pub(crate) fn threshold(&self) -> f32 {
        self.threshold
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, score: f32, row: u32) {
        if score > self.threshold {
            self.insert(score, row);
        }
    }

    /// Adds a row that may be among the best. Not inlined: a scan calls `push` for each row, and
    /// few rows come here.
    #[inline(never)]
    fn insert(&mut self, score: f32, row: u32) {
        if self.rows.len() == self.rows.capacity() {
            self.keep_best();
        }
        self.rows.push((score, row));
    }

    /// Drops all rows but the best, and raises the threshold to the worst of them.
    fn keep_best(&mut self) {
        if self.rows.len() > self.limit && self.limit > 0 {
            let (_, last, _) = self.rows.select_nth_unstable_by(self.limit - 1, best_first);
            self.threshold = last.0;
        }
        self.rows.truncate(self.limit);
    }

    /// Returns the rows, best first.
    pub(crate) fn into_sorted(mut self) -> Vec<(f32, u32)> {
        self.keep_best();
        self.rows.sort_unstable_by(best_first);
        self.rows
    }
}

/// Compares by score, highest first; rows with equal scores by their number.
pub(crate) fn best_first(left: &(f32, u32), right: &(f32, u32)) -> std::cmp::Ordering {
    right.0.total_cmp(&left.0).then(left.1.cmp(&right.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_order() {
        let mut top = TopRows::new(3);
        for row in 0..1_000_u32 {
            top.push((row * 7 % 1_000) as f32, row);
        }
        let scores: Vec<_> = top.into_sorted().into_iter().map(|(score, _)| score).collect();
        assert_eq!(scores, [999.0, 998.0, 997.0]);
    }

    #[test]
    fn the_first_of_equal_rows_is_kept() {
        let mut top = TopRows::new(2);
        (0..500).for_each(|row| top.push(1.0, row));
        assert_eq!(top.into_sorted(), [(1.0, 0), (1.0, 1)]);
    }
}
