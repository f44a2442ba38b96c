//! Ids of the records of files.

use std::{ffi::OsStr, path::Path};

use super::{FileProblem, location};
use crate::{Caller, Record};

/// Returns the URI of the record of a file, by its path or `file:` URI. The URI is always the same
/// for a caller, so two processes that index the file at the same time create only one record.
///
/// # Errors
///
/// Returns an error if the argument is a URI, but not the `file:` URI of a path.
pub fn file_record_uri(caller: &Caller, argument: &OsStr) -> Result<String, FileProblem> {
    let path = location::resolved(&location::path_of(argument)?);
    let (_, uri) = of_path(caller, &path);
    Ok(uri)
}

/// Returns object id and URI of the record of a file, by its path without links.
pub(super) fn of_path(caller: &Caller, path: &Path) -> (String, String) {
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
