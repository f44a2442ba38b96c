//! Limits how often a repeated event is logged.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts events of one kind and selects those to log: the first ten, then those whose number is a
/// power of two.
#[derive(Debug, Default)]
pub(super) struct LogRate(AtomicU64);

impl LogRate {
    /// Counts an event. Returns its number if it should be logged.
    pub(super) fn count(&self) -> Option<u64> {
        const FIRST: u64 = 10;
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        (number <= FIRST || number.is_power_of_two()).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines() {
        let rate = LogRate::default();
        let logged: Vec<u64> = (0..1_000_000).filter_map(|_| rate.count()).collect();
        assert_eq!(logged[..11], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16]);
        assert_eq!((logged.len(), logged[logged.len() - 1]), (26, 524_288));
    }
}
