//! Opens the store that the options name.

use std::{io, sync::Arc};

#[cfg(feature = "directory")]
use crate::store::{DirectoryOptions, DirectoryStore};
use crate::{
    settings::{ArtifactOptions, StoreKind},
    store::{ArtifactStore, MemoryLimits, MemoryStore},
};

impl ArtifactOptions {
    /// Opens the store. This may block: call it at the start of a program.
    ///
    /// # Errors
    /// Returns an error if the directory store lacks a directory, or cannot be opened; if the store
    /// is a bucket, which another crate opens.
    pub fn open_store(&self) -> io::Result<Arc<dyn ArtifactStore>> {
        match self.store {
            StoreKind::Memory => Ok(Arc::new(MemoryStore::new(self.memory_limits()))),
            StoreKind::Directory => self.open_directory(),
            StoreKind::Bucket => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a bucket is opened by marquetry-artifact-bucket",
            )),
        }
    }

    /// Checks whether the directory can hold artifacts, without creating it.
    ///
    /// # Errors
    /// Returns an error if it is not a directory, is read-only, or holds other files.
    pub fn check_directory(&self) -> io::Result<()> {
        let Some(directory) = &self.directory else { return Err(no_directory()) };
        if directory.as_os_str().is_empty() {
            return Err(io::Error::other("the path is empty; expected a directory, or no setting"));
        }
        // A missing directory is created below its nearest existing ancestor.
        let nearest = directory.ancestors().find_map(|path| Some((path, path.metadata().ok()?)));
        match nearest {
            Some((path, found)) if !found.is_dir() => {
                Err(io::Error::other(format!("{path:?} is not a directory")))
            }
            Some((path, found)) if found.permissions().readonly() => {
                Err(io::Error::other(format!("{path:?} cannot be written")))
            }
            #[cfg(feature = "directory")]
            _ => DirectoryStore::check(directory)
                .map_err(|error| io::Error::new(error.kind(), format!("{directory:?}: {error}"))),
            #[cfg(not(feature = "directory"))]
            _ => Ok(()),
        }
    }

    fn memory_limits(&self) -> MemoryLimits {
        MemoryLimits::default().with_max_total_bytes(self.memory_max_bytes)
    }

    #[cfg(feature = "directory")]
    fn directory_options(&self) -> DirectoryOptions {
        DirectoryOptions::default()
            .with_durable(self.durable)
            .with_max_artifact_bytes(self.directory_max_artifact_bytes)
            .with_max_total_bytes(self.directory_max_bytes)
    }

    #[cfg(feature = "directory")]
    fn open_directory(&self) -> io::Result<Arc<dyn ArtifactStore>> {
        let directory = self.directory.as_ref().ok_or_else(no_directory)?;
        Ok(Arc::new(DirectoryStore::open(directory, self.directory_options())?))
    }

    #[cfg(not(feature = "directory"))]
    fn open_directory(&self) -> io::Result<Arc<dyn ArtifactStore>> {
        let message =
            "this program was built without the feature `directory` of marquetry-artifacts";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }
}

fn no_directory() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the directory store needs a directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_stores() {
        let options = ArtifactOptions::default();
        let memory = MemoryLimits::default();
        assert_eq!(options.memory_limits().max_total_bytes, memory.max_total_bytes);
        #[cfg(feature = "directory")]
        assert_eq!(options.directory_options(), DirectoryOptions::default());
    }

    #[test]
    fn a_directory_store_needs_a_directory() {
        let options = ArtifactOptions { store: StoreKind::Directory, ..ArtifactOptions::default() };
        for error in [options.check_directory(), options.open_store().map(drop)] {
            assert_eq!(error.unwrap_err().to_string(), no_directory().to_string());
        }
    }
}
