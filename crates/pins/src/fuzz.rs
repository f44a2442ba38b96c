//! The functions of the fuzz targets in `fuzz/`, compiled only for them and for tests.

use crate::{Definition, PinFile, record::record, snapshot::Snapshot};

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("pins", pins)];

/// Checks that a file of pins is read without a panic, and that its pins survive a rewrite.
pub fn pins(data: &[u8]) {
    let Ok(mut file) = PinFile::parse(data) else { return };
    let bytes = file.to_bytes().expect("pins are JSON");
    let again = PinFile::parse(&bytes).expect("a file that was written can be read");
    assert_eq!(again.to_bytes().expect("pins are JSON"), bytes);
    let pinned = file.items().filter(|item| item.accepted.is_some()).count();
    let servers: Vec<String> = file.servers().map(str::to_owned).collect();
    for server in &servers {
        let tool = Definition::tool("t", &"t").expect("a text is JSON");
        record(&mut file, server, &[tool]);
    }
    let after = file.items().filter(|item| item.accepted.is_some()).count();
    assert!(after >= pinned, "a pin was lost");
    _ = Snapshot::of(&file);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(TARGETS);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(data: Vec<u8>) {
            pins(&data);
        }
    }
}
