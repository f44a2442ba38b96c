//! Hashes of names, by which rows are filtered.

/// Returns a hash of a kind, of the values in `first` (each with its length, so that neighbouring
/// values are not confused), and of `last`.
///
/// The hash is cryptographic, since a name that collides with another user's would pass that user's
/// filters. Two colliding names of one user give that user nothing, so 64 bits are enough. The
/// hashes are stored in databases: they must not change.
pub fn label_hash(kind: u8, first: &[&str], last: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[kind]);
    for value in first {
        hasher.update(&(value.len() as u64).to_le_bytes());
        hasher.update(value.as_bytes());
    }
    hasher.update(last.as_bytes());
    let hash = hasher.finalize();
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes are stored in databases, so they must not change.
    #[test]
    fn hashes_stay_as_they_are() {
        assert_eq!(label_hash(1, &["ab", "c"], ""), 264_547_189_207_923_067);
        assert_ne!(label_hash(1, &["ab"], "c"), label_hash(1, &["ab", "c"], ""));
        assert_ne!(label_hash(1, &["a", "bc"], ""), label_hash(1, &["ab", "c"], ""));
    }
}
