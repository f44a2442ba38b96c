//! Locations of files: paths, `file:` URIs, the URIs of their records, and folders that no link
//! leads out of.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::{ambient_authority, fs::Dir};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

use super::problem::FileProblem;
use crate::{Caller, Record};

/// A named path that exists.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) root: Arc<Root>,
    /// The single file in the root; `None` for the whole root.
    pub(super) file: Option<PathBuf>,
}

/// A folder whose files are opened relative to a handle of it, so that no link leads out of it.
pub(super) struct Root {
    pub(super) dir: Dir,
    /// The path without links.
    pub(super) path: PathBuf,
}

impl Target {
    /// Returns the path without links.
    pub(super) fn path(&self) -> PathBuf {
        match &self.file {
            Some(file) => self.root.path.join(file),
            None => self.root.path.clone(),
        }
    }

    /// Opens a file or folder that is within one of `within`; an empty `within` allows every path.
    /// A link to a folder is followed. A link to a file is not, because the shell also passes links
    /// for `docs/*`, and their targets may be anywhere.
    pub(super) fn open(path: &Path, within: &[PathBuf]) -> Result<Self, FileProblem> {
        let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        if is_link && path.metadata().is_ok_and(|target| !target.is_dir()) {
            return Err(FileProblem::Link);
        }
        let path = path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileProblem::Missing,
            _ => error.into(),
        })?;
        check_within(&path, within)?;
        let metadata = path.metadata()?;
        let (folder, file) = if metadata.is_dir() {
            (path.as_path(), None)
        } else {
            if let Some(what) = special(metadata.file_type()) {
                return Err(FileProblem::Special(what));
            }
            // A path that is not a directory has a name and a parent.
            let name = path.file_name().map(PathBuf::from);
            (path.parent().unwrap_or(Path::new("/")), name)
        };
        let dir = Dir::open_ambient_dir(folder, ambient_authority())?;
        Ok(Self { root: Arc::new(Root { dir, path: folder.to_owned() }), file })
    }
}

/// Resolves the links of the existing part of a path, because a missing file may still be in the
/// index.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in path.ancestors() {
        if let Ok(existing) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() { existing } else { existing.join(rest) };
        }
    }
    path
}

/// Checks that a path is within one of these folders; an empty list allows every path.
fn check_within(path: &Path, within: &[PathBuf]) -> Result<(), FileProblem> {
    if within.is_empty()
        || within
            .iter()
            .any(|folder| folder.canonicalize().is_ok_and(|folder| path.starts_with(folder)))
    {
        return Ok(());
    }
    Err(FileProblem::Outside(within.to_vec()))
}

/// Returns the path from an argument, which is a path or a `file:` URI.
pub(super) fn path_of(argument: &OsStr) -> Result<PathBuf, FileProblem> {
    let bytes = argument.as_encoded_bytes();
    if bytes.starts_with(b"http://") || bytes.starts_with(b"https://") {
        return Err(FileProblem::Uri("documents are not fetched; download it first"));
    }
    if !bytes.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"file:")) {
        return Ok(argument.into());
    }
    let rest = &bytes[5..];
    let path = match rest.strip_prefix(b"//") {
        Some(rest) => rest.strip_prefix(b"localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with(b"/") {
        return Err(FileProblem::Uri("it names another machine, or its path is not absolute"));
    }
    if path.iter().any(|byte| matches!(byte, b'?' | b'#')) {
        return Err(FileProblem::Uri("it has a query or a fragment"));
    }
    let path: Vec<u8> = percent_decode(path).collect();
    if path.contains(&0) {
        return Err(FileProblem::Uri("its path contains a NUL"));
    }
    os_string(path).map(PathBuf::from).ok_or(FileProblem::Uri("its path is not valid UTF-8"))
}

/// Returns the `file:` URI of an absolute path, which need not be UTF-8.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(marquetry_rag::file_uri(Path::new("/home/zoë/my notes.md")), "file:///home/zo%C3%AB/my%20notes.md");
/// ```
pub fn file_uri(path: &Path) -> String {
    /// The characters that need no percent-encoding in a path (RFC 3986).
    const PATH: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'/')
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'+')
        .remove(b',')
        .remove(b'@')
        .remove(b'=')
        .remove(b':');
    format!("file://{}", percent_encode(path.as_os_str().as_encoded_bytes(), PATH))
}

/// Returns the URI of the record of a file, by its path or `file:` URI. The URI is always the same
/// for a caller, so two processes that index the file at the same time create only one record.
///
/// # Errors
///
/// Returns an error if the argument is a URI, but not the `file:` URI of a path.
pub fn file_record_uri(caller: &Caller, argument: &OsStr) -> Result<String, FileProblem> {
    let path = resolved(&path_of(argument)?);
    let (_, uri) = record_of_path(caller, &path);
    Ok(uri)
}

/// Returns object id and URI of the record of a file, by its path without links.
pub(super) fn record_of_path(caller: &Caller, path: &Path) -> (String, String) {
    let id = id(caller, path.as_os_str().as_encoded_bytes());
    let record = Record::new("data.data", "").with_organization(&caller.organization);
    let uri = record.with_object_id(&id).uri();
    (id, uri.unwrap_or_default())
}

/// Returns a UUID (version 8 of RFC 9562) that derives from the owner and the path of a file.
fn id(caller: &Caller, path: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("marquetry 2026 object id of a file");
    for part in [caller.organization.as_bytes(), caller.user.as_bytes(), path] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    uuid::Uuid::new_v8(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes")).to_string()
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Some(OsString::from_vec(bytes))
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

/// Returns the name of the kind of an entry that is not a file, folder or link.
pub(super) fn special(kind: std::fs::FileType) -> Option<&'static str> {
    if kind.is_file() || kind.is_dir() || kind.is_symlink() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let known = [
            (kind.is_fifo(), "named pipe"),
            (kind.is_socket(), "socket"),
            (kind.is_char_device(), "device"),
            (kind.is_block_device(), "device"),
        ];
        if let Some((_, what)) = known.into_iter().find(|(is_it, _)| *is_it) {
            return Some(what);
        }
    }
    Some("special file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_distinguished_from_paths() {
        check("notes/a b.md", Ok("notes/a b.md"));
        check("file:///a%20b/c.md", Ok("/a b/c.md"));
        check("FILE:/a", Ok("/a"));
        check("file://localhost/a", Ok("/a"));
        check("file://other/a", Err("it names another machine, or its path is not absolute"));
        check("file:a", Err("it names another machine, or its path is not absolute"));
        check("file:///a?b", Err("it has a query or a fragment"));
        check("file:///a%00b", Err("its path contains a NUL"));
    }

    #[track_caller]
    fn check(argument: &str, want: Result<&str, &str>) {
        let got = path_of(OsStr::new(argument));
        match (got, want) {
            (Ok(got), Ok(want)) => assert_eq!(got, Path::new(want)),
            (Err(FileProblem::Uri(got)), Err(want)) => assert_eq!(got, want),
            (got, want) => panic!("{got:?} is not {want:?}"),
        }
    }

    #[cfg(unix)]
    #[test]
    fn paths_of_any_bytes_round_trip_through_uris() {
        let bytes: Vec<u8> = std::iter::once(b'/').chain(1..=255).collect();
        let path = PathBuf::from(os_string(bytes).unwrap());
        assert_eq!(path_of(OsStr::new(&file_uri(&path))).unwrap(), path);
    }
}
