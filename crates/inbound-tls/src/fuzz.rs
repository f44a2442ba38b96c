//! The functions of the fuzz targets in `fuzz/`. Compiled only for them and for the test that
//! replays their corpora.

use crate::validity::Validity;

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("certificate", certificate)];

/// Checks that the validity of a certificate is read without a panic.
pub fn certificate(data: &[u8]) {
    if let Some(validity) = Validity::of(data) {
        assert!(validity.not_before <= i64::MAX / 2);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpora() {
        test_corpus::replay(super::TARGETS);
    }
}
