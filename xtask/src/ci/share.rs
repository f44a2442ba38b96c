//! Fills a new build directory with the outputs of another one.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// The folders of a build directory that later builds use. Fingerprints come last: cargo trusts
/// them, so the outputs that they describe must already be there if the copy is interrupted.
const PARTS: [&str; 3] = ["deps", "build", ".fingerprint"];

/// Files up to this size are copied, because cargo writes some of them in place. Larger files are
/// outputs of compilers, which replace them, so that hard links are safe.
const MAX_COPIED_BYTES: u64 = 64 << 10;

/// Fills the build directory `to` with the outputs of `from`, so that nothing is compiled twice.
/// Most files become hard links, which need no space. Does nothing if `to` exists.
pub(super) fn share(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    PARTS.iter().try_for_each(|part| share_folder(&from.join(part), &to.join(part)))
}

fn share_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let path = entry.path();
        let to = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            share_folder(&path, &to)?;
        } else if kind.is_file() {
            let metadata = entry.metadata()?;
            if metadata.len() > MAX_COPIED_BYTES {
                fs::hard_link(&path, &to)?;
            } else {
                fs::copy(&path, &to)?;
                // Cargo rebuilds what is older than its sources.
                File::options().append(true).open(&to)?.set_modified(metadata.modified()?)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_directory_gets_outputs_and_fingerprints_with_their_times() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("debug");
        let to = folder.path().join("features/debug");
        for part in ["deps", "build/a-1/out", ".fingerprint/a-1", "incremental"] {
            fs::create_dir_all(from.join(part)).unwrap();
        }
        fs::write(from.join("deps/liba.rlib"), vec![1; 100_000]).unwrap();
        let hash = from.join(".fingerprint/a-1/lib-a");
        fs::write(&hash, "abc").unwrap();
        let long_ago =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        File::options().append(true).open(&hash).unwrap().set_modified(long_ago).unwrap();
        share(&from, &to).unwrap();
        // Written in place, as cargo does.
        fs::write(&hash, "def").unwrap();
        let copied = to.join(".fingerprint/a-1/lib-a");
        assert_eq!(fs::read_to_string(&copied).unwrap(), "abc");
        assert_eq!(fs::metadata(&copied).unwrap().modified().unwrap(), long_ago);
        assert_eq!(fs::metadata(to.join("deps/liba.rlib")).unwrap().len(), 100_000);
        assert!(to.join("build/a-1/out").is_dir() && !to.join("incremental").exists());
        // Later runs use the existing directory.
        fs::remove_file(from.join("deps/liba.rlib")).unwrap();
        share(&from, &to).unwrap();
        assert!(to.join("deps/liba.rlib").exists());
    }
}
