#![doc = include_str!("../README.md")]

use std::{
    fs::{self, DirBuilder, File, FileType, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

/// The users who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone: mode 0600 on Unix.
    Owner,
    /// Those whom the umask of the process allows.
    Everyone,
}

/// Writes a file in place of an existing one, or a new one.
///
/// # Errors
///
/// Returns an error if the path is a link or a folder, or if the file cannot be written; an
/// existing file is then unchanged.
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    match target(path)? {
        Target::Stream => write_to_stream(path, bytes),
        Target::File => {
            let new = NewFile::create(path, readers)?;
            new.write(bytes)?;
            new.rename_to(path)
        }
    }
}

/// Writes a new file.
///
/// # Errors
///
/// Returns an error if the path exists, even as a link that leads nowhere
/// ([`ErrorKind::AlreadyExists`]), or if the file cannot be written; it is then removed.
pub fn create(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut file = open_new(path, readers)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Removing it may fail for the same reason.
        _ = fs::remove_file(path);
    }
    written
}

/// Checks that [`replace`] could write a file here, and changes nothing.
///
/// # Errors
///
/// Returns an error if the path is a link or a folder, or if its folder cannot be written to.
pub fn check(path: &Path) -> io::Result<()> {
    match target(path)? {
        // Opening a pipe would wait for its reader.
        Target::Stream => Ok(()),
        Target::File => NewFile::create(path, Readers::Owner).map(drop),
    }
}

/// Creates a folder and the missing ones above it, of mode 0700 on Unix. An existing folder keeps
/// its mode.
///
/// # Errors
///
/// Returns an error if the folder cannot be created.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// How a path is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A regular file, or nothing: a new file gets the name.
    File,
    /// A pipe or a device, which takes bytes and cannot be replaced.
    Stream,
}

fn target(path: &Path) -> io::Result<Target> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Target::File),
        found => found?.file_type(),
    };
    if found.is_file() {
        return Ok(Target::File);
    }
    if found.is_symlink() && !fs::metadata(path).is_ok_and(|behind| is_stream(behind.file_type())) {
        let problem = "is a link, which is not followed; remove it, or name the file behind it";
        return Err(io::Error::new(ErrorKind::InvalidInput, problem));
    }
    if found.is_symlink() || is_stream(found) {
        return Ok(Target::Stream);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "is not a file; name a file"))
}

#[cfg(unix)]
fn is_stream(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    kind.is_fifo() || kind.is_char_device()
}

#[cfg(not(unix))]
fn is_stream(_: FileType) -> bool {
    false
}

fn write_to_stream(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    // A file may have taken the place of the stream since.
    if !is_stream(file.metadata()?.file_type()) {
        return Err(io::Error::other("was replaced while it was opened; try again"));
    }
    file.write_all(bytes)
}

/// A file beside the one that it replaces. It is removed unless it is renamed.
struct NewFile {
    file: File,
    /// Empty once it is renamed.
    path: PathBuf,
}

impl NewFile {
    fn create(beside: &Path, readers: Readers) -> io::Result<Self> {
        let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        // The name of the file itself may already be as long as a name can be.
        let path = beside.with_file_name(format!(".marquetry-{random:016x}.new"));
        Ok(Self { file: open_new(&path, readers)?, path })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).write_all(bytes)?;
        self.file.sync_all()
    }

    fn rename_to(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.path = PathBuf::new();
        // Without this, a power failure may bring the old file back. Not every system can do it.
        #[cfg(unix)]
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            _ = File::open(folder).and_then(|folder| folder.sync_all());
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a file that does not exist. A link is a file that exists.
fn open_new(path: &Path, readers: Readers) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names in a folder, sorted.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x".repeat(255));
        fs::write(&path, "a longer old text").unwrap();
        check(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a longer old text");
        replace(&path, b"new", Readers::Owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let error = create(&path, b"other", Readers::Owner).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()).len(), 1);
    }

    #[test]
    fn what_is_no_file_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing/file")] {
            assert!(check(&path).is_err(), "{path:?}");
            assert!(replace(&path, b"x", Readers::Owner).is_err(), "{path:?}");
        }
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn files_and_folders_are_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        fn mode(path: &Path) -> u32 {
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        replace(&path, b"new", Readers::Owner).unwrap();
        assert_eq!(mode(&path), 0o600);
        let new = folder.path().join("new");
        create(&new, b"new", Readers::Owner).unwrap();
        assert_eq!(mode(&new), 0o600);
        let deep = folder.path().join("a/b");
        create_folder(&deep).unwrap();
        assert_eq!((mode(&deep), mode(deep.parent().unwrap())), (0o700, 0o700));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "of somebody else").unwrap();
        let link = folder.path().join("link");
        for behind in [&other, &folder.path().join("missing"), folder.path()] {
            symlink(behind, &link).unwrap();
            for error in
                [replace(&link, b"x", Readers::Owner).unwrap_err(), check(&link).unwrap_err()]
            {
                assert!(error.to_string().contains("is a link"), "{error}");
            }
            let error = create(&link, b"x", Readers::Owner).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            fs::remove_file(&link).unwrap();
        }
        assert_eq!(fs::read(&other).unwrap(), b"of somebody else");
        assert_eq!(names(folder.path()), ["other"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_to_and_stays() {
        use std::io::Read as _;
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(status.success());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            let reading = std::thread::spawn({
                let pipe = pipe.clone();
                move || {
                    let mut text = String::new();
                    File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
                    text
                }
            });
            check(path).unwrap();
            replace(path, b"report", Readers::Owner).unwrap();
            assert_eq!(reading.join().unwrap(), "report");
        }
        assert_eq!(names(folder.path()), ["link", "pipe"]);
    }
}
