//! The best rows of many.

/// Keeps the rows with the highest scores. Of rows with equal scores, it keeps the first ones.
pub(crate) struct Top {
    limit: usize,
    /// The score that a row must exceed. Lower rows cannot be among the best any more.
    least: f32,
    rows: Vec<(f32, u32)>,
}

impl Top {
    pub(crate) fn new(limit: usize) -> Self {
        // Twice the limit, so that each cut drops as many rows as it keeps: the cost of selecting
        // is then constant for a row.
        let rows = Vec::with_capacity(2 * limit + 64);
        Self { limit, least: f32::NEG_INFINITY, rows }
    }

    /// Returns the score that a row must exceed to be kept, once it is known.
    pub(crate) fn least(&self) -> f32 {
        self.least
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, score: f32, row: u32) {
        if score > self.least {
            self.insert(score, row);
        }
    }

    /// Adds a row that may be among the best. Not inlined: a scan calls `push` for each row, and
    /// few rows come here.
    #[inline(never)]
    fn insert(&mut self, score: f32, row: u32) {
        if self.rows.len() == self.rows.capacity() {
            self.cut();
        }
        self.rows.push((score, row));
    }

    /// Drops all rows but the best.
    fn cut(&mut self) {
        if self.rows.len() > self.limit && self.limit > 0 {
            let (_, last, _) = self.rows.select_nth_unstable_by(self.limit - 1, order);
            self.least = last.0;
        }
        self.rows.truncate(self.limit);
    }

    /// Returns the rows, best first.
    pub(crate) fn into_sorted(mut self) -> Vec<(f32, u32)> {
        self.cut();
        self.rows.sort_unstable_by(order);
        self.rows
    }
}

/// Compares by score, highest first; equal scores by the order of rows.
pub(crate) fn order(left: &(f32, u32), right: &(f32, u32)) -> std::cmp::Ordering {
    right.0.total_cmp(&left.0).then(left.1.cmp(&right.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_in_order() {
        let mut top = Top::new(3);
        for row in 0..1_000_u32 {
            top.push((row * 7 % 1_000) as f32, row);
        }
        let scores: Vec<_> = top.into_sorted().into_iter().map(|(score, _)| score).collect();
        assert_eq!(scores, [999.0, 998.0, 997.0]);
    }

    #[test]
    fn the_first_of_equal_rows_is_kept() {
        let mut top = Top::new(2);
        (0..500).for_each(|row| top.push(1.0, row));
        assert_eq!(top.into_sorted(), [(1.0, 0), (1.0, 1)]);
    }
}
