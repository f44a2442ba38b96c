//! Repeatable random numbers (SplitMix64, Steele and others, OOPSLA 2014).

/// A generator that gives the same numbers for the same seed.
pub(crate) struct Shuffle(u64);

impl Shuffle {
    /// Returns the generator of a seed and the number of its use.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut first = Self(seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        first.next();
        first
    }

    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // Providers read seeds as signed numbers, and JavaScript holds 53 bits.
        (mixed ^ (mixed >> 31)) >> 11
    }

    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }

    /// Shuffles a list (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64, number: u64) -> Vec<i32> {
        let mut items: Vec<_> = (0..8).collect();
        Shuffle::new(seed, number).shuffle(&mut items);
        items
    }

    #[test]
    fn a_seed_repeats_and_a_number_differs() {
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
        let mut sorted = order(1, 0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
    }
}
