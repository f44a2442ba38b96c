//! What something is found by, as a hash.

/// The hash of a kind and of values: of those that are named first each with its length, so that none runs into the
/// next, and of what comes last.
///
/// Cryptographic, since a name that collides with another's would pass the other's filters. Nobody gains by making two
/// of their own collide, so 64 bits are enough.
pub(crate) fn hash(kind: u8, first: &[&str], last: &str) -> u64 {
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

    /// They are kept in databases.
    #[test]
    fn hashes_stay_as_they_are() {
        assert_eq!(hash(1, &["ab", "c"], ""), 264_547_189_207_923_067);
        assert_ne!(hash(1, &["ab"], "c"), hash(1, &["ab", "c"], ""));
        assert_ne!(hash(1, &["a", "bc"], ""), hash(1, &["ab", "c"], ""));
    }
}
