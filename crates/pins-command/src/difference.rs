//! The shortest difference of two lists, by their longest common subsequence.

/// Most comparisons. Longer lists are taken as wholly different.
const MAX_COMPARISONS: usize = 4_000_000;

/// A part of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit<T> {
    /// Both lists have it.
    Kept(T),
    /// Only the old one has it.
    Removed(T),
    /// Only the new one has it.
    Added(T),
}

/// Returns what leads from the old list to the new one.
pub(crate) fn difference<T: Copy + PartialEq>(old: &[T], new: &[T]) -> Vec<Edit<T>> {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = rest.take_while(|(one, other)| one == other).count();
    let middle_of_old = &old[head..old.len() - tail];
    let middle_of_new = &new[head..new.len() - tail];
    let mut edits: Vec<_> = old[..head].iter().map(|&it| Edit::Kept(it)).collect();
    edits.extend(middle(middle_of_old, middle_of_new));
    edits.extend(old[old.len() - tail..].iter().map(|&it| Edit::Kept(it)));
    edits
}

fn middle<T: Copy + PartialEq>(old: &[T], new: &[T]) -> Vec<Edit<T>> {
    let removed = old.iter().map(|&it| Edit::Removed(it));
    if old.len().saturating_mul(new.len()) > MAX_COMPARISONS {
        return removed.chain(new.iter().map(|&it| Edit::Added(it))).collect();
    }
    // The lengths of the longest common subsequences of all ends of both lists.
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for at in (0..old.len()).rev() {
        for other in (0..new.len()).rev() {
            lengths[at * width + other] = if old[at] == new[other] {
                lengths[(at + 1) * width + other + 1] + 1
            } else {
                lengths[(at + 1) * width + other].max(lengths[at * width + other + 1])
            };
        }
    }
    let mut edits = Vec::with_capacity(old.len() + new.len());
    let mut at = 0;
    let mut other = 0;
    while at < old.len() && other < new.len() {
        if old[at] == new[other] {
            edits.push(Edit::Kept(old[at]));
            at += 1;
            other += 1;
        } else if lengths[(at + 1) * width + other] >= lengths[at * width + other + 1] {
            edits.push(Edit::Removed(old[at]));
            at += 1;
        } else {
            edits.push(Edit::Added(new[other]));
            other += 1;
        }
    }
    edits.extend(old[at..].iter().map(|&it| Edit::Removed(it)));
    edits.extend(new[other..].iter().map(|&it| Edit::Added(it)));
    edits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the list before or after the edits.
    fn side(edits: &[Edit<u8>], is_new: bool) -> Vec<u8> {
        let kept = edits.iter().filter_map(|edit| match *edit {
            Edit::Kept(it) => Some(it),
            Edit::Removed(it) => (!is_new).then_some(it),
            Edit::Added(it) => is_new.then_some(it),
        });
        kept.collect()
    }

    #[test]
    fn the_common_part_is_kept() {
        use Edit::{Added, Kept, Removed};
        assert_eq!(
            difference(&[1, 2, 3, 4], &[1, 3, 5, 4]),
            [Kept(1), Removed(2), Kept(3), Added(5), Kept(4)]
        );
        assert_eq!(difference::<u8>(&[], &[]), []);
    }

    #[test]
    fn long_lists_are_different_as_a_whole() {
        let old: Vec<u32> = (0..3_000).collect();
        let new: Vec<u32> = old.iter().rev().copied().collect();
        assert_eq!(difference(&old, &new).len(), 6_000);
    }

    proptest! {
        #[test]
        fn both_lists_can_be_read_from_the_edits(
            old in prop::collection::vec(0_u8..4, 0..40), new in prop::collection::vec(0_u8..4, 0..40),
        ) {
            let edits = difference(&old, &new);
            prop_assert_eq!(side(&edits, false), &*old);
            prop_assert_eq!(side(&edits, true), &*new);
            let kept = edits.iter().all(|edit| matches!(edit, Edit::Kept(_)));
            prop_assert_eq!(kept, old == new);
        }
    }
}
