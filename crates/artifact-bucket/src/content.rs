//! The bytes of artifacts: equal ones of an owner are stored once, and all are checked when they
//! are read.

use std::{
    collections::HashSet,
    ops::Range,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::{TryStreamExt as _, future::try_join_all};
use marquetry_artifacts::{
    StoreError,
    store::{ContentHash, NewArtifact},
};
use object_store::{
    Error, MultipartUpload, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};

use crate::{
    keys::{ContentKey, content_folder, hex, parse_content},
    problem::{Action, problem},
    shared::Shared,
};

/// Size of the pieces whose hashes are in a record, so that a range can be checked alone.
pub(crate) const PIECE_BYTES: u64 = 1024 * 1024;
/// Size of the parts of a large upload.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Parts of one upload that are sent at the same time.
const CONCURRENT_PARTS: usize = 4;

/// Bytes in the bucket that no server deletes for some time.
#[derive(Debug)]
pub(crate) struct ContentLease {
    pub(crate) key: ContentKey,
    since: Instant,
}

/// Damage of stored bytes, or the error of a request.
#[derive(Debug)]
pub(crate) enum ReadError {
    Damaged(&'static str),
    Failed(StoreError),
}

impl Shared {
    /// Returns whether a record may still name the bytes. The time is far below that after which
    /// they may be deleted.
    pub(crate) fn is_valid_lease(&self, lease: &ContentLease) -> bool {
        lease.since.elapsed() < self.options.garbage_age / 6
    }

    /// Stores the bytes, unless the owner has equal ones.
    pub(crate) async fn lease_content(
        &self,
        owner: &str,
        artifact: &NewArtifact,
    ) -> Result<ContentLease, StoreError> {
        let since = Instant::now();
        let bytes = artifact.content();
        let hash = artifact.hash();
        let mut objects = self.bucket.list(Some(&content_folder(&self.root, owner, &hash)));
        let mut whole = Vec::new();
        let mut garbage = HashSet::new();
        while let Some(object) =
            objects.try_next().await.map_err(|error| problem(Action::List, &error))?
        {
            match parse_content(&self.root, &object.location) {
                Some((key, true)) => drop(garbage.insert(key)),
                Some((key, false)) if object.size == bytes.len() as u64 => whole.push(key),
                _ => {}
            }
        }
        if let Some(key) = whole.into_iter().find(|key| !garbage.contains(key)) {
            return Ok(ContentLease { key, since });
        }
        let key = ContentKey { owner: owner.to_owned(), hash, generation: random_id()? };
        self.upload(&key, bytes).await.map_err(|error| problem(Action::Write, &error))?;
        // The upload may have taken long. No other server deletes bytes that are this young.
        Ok(ContentLease { key, since: Instant::now() })
    }

    async fn upload(&self, key: &ContentKey, bytes: &Bytes) -> Result<(), Error> {
        let path = key.path(&self.root);
        if bytes.len() <= PART_BYTES {
            return self.bucket.put(&path, PutPayload::from_bytes(bytes.clone())).await.map(drop);
        }
        let mut upload = self.bucket.put_multipart(&path).await?;
        let sent = send_parts(&mut *upload, bytes).await;
        if sent.is_err() {
            // Parts that remain are invisible; a rule of the bucket's lifecycle removes them.
            let _ = upload.abort().await;
        }
        sent
    }

    /// Returns all bytes, unchecked but for their length.
    pub(crate) async fn read_all(&self, key: &ContentKey, size: u64) -> Result<Bytes, ReadError> {
        let read = async {
            let found = self.bucket.get(&key.path(&self.root)).await?;
            if found.meta.size == size { found.bytes().await.map(Some) } else { Ok(None) }
        };
        match within(size, read).await {
            Ok(Some(bytes)) if bytes.len() as u64 == size => Ok(bytes),
            Ok(_) => Err(ReadError::Damaged("its bytes do not have the length that was recorded")),
            Err(error) => Err(read_error(error)),
        }
    }

    /// Returns a range that is not empty and not beyond the end, after a check of its pieces.
    pub(crate) async fn read_range(
        &self,
        key: &ContentKey,
        pieces: &[String],
        size: u64,
        range: Range<u64>,
    ) -> Result<Bytes, ReadError> {
        let first = range.start / PIECE_BYTES;
        let start = first * PIECE_BYTES;
        let end = range.end.next_multiple_of(PIECE_BYTES).min(size);
        let path = key.path(&self.root);
        let read = self.bucket.get_range(&path, start..end);
        let bytes = match within(end - start, read).await {
            Ok(bytes) if bytes.len() as u64 == end - start => bytes,
            // The server has fewer bytes than the range.
            Ok(_) => {
                return Err(ReadError::Damaged(
                    "its bytes do not have the length that was recorded",
                ));
            }
            Err(error) => return Err(read_error(error)),
        };
        for (piece, number) in bytes.chunks(PIECE_BYTES as usize).zip(first as usize..) {
            let is_good = match pieces.get(number) {
                Some(hash) => *hash == piece_hash(piece),
                // Bytes of one piece have the hash of the whole.
                None => pieces.is_empty() && ContentHash::of(piece) == key.hash,
            };
            if !is_good {
                return Err(ReadError::Damaged("its bytes do not have the hash that was recorded"));
            }
        }
        Ok(bytes.slice((range.start - start) as usize..(range.end - start) as usize))
    }

    /// Marks bytes so that no further record names them. Equal bytes are uploaded again.
    pub(crate) async fn mark_garbage(&self, key: &ContentKey) -> Result<(), StoreError> {
        let path = key.garbage(&self.root);
        let create = PutOptions::from(PutMode::Create);
        match self.bucket.put_opts(&path, PutPayload::new(), create).await {
            // The time of the first mark counts.
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(problem(Action::Write, &error)),
        }
    }
}

/// Sends all parts, a few at once. They share the bytes.
async fn send_parts(upload: &mut dyn MultipartUpload, bytes: &Bytes) -> Result<(), Error> {
    let starts: Vec<usize> = (0..bytes.len()).step_by(PART_BYTES).collect();
    for group in starts.chunks(CONCURRENT_PARTS) {
        let parts = group.iter().map(|start| {
            let end = bytes.len().min(start + PART_BYTES);
            upload.put_part(PutPayload::from_bytes(bytes.slice(*start..end)))
        });
        let parts: Vec<_> = parts.collect();
        try_join_all(parts).await?;
    }
    upload.complete().await.map(drop)
}

/// Limits the time of a download, since a connection can stop without an end.
async fn within<T>(bytes: u64, read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit = Duration::from_secs(60 + bytes / (128 * 1024));
    match tokio::time::timeout(limit, read).await {
        Ok(read) => read,
        Err(_) => Err(Error::Generic {
            store: "bucket",
            source: format!("HTTP error: no whole answer within {} s", limit.as_secs()).into(),
        }),
    }
}

fn read_error(error: Error) -> ReadError {
    match error {
        Error::NotFound { .. } if !is_about_bucket(&error) => {
            ReadError::Damaged("its bytes are missing")
        }
        error if error.to_string().contains("status code: 416") => {
            ReadError::Damaged("its bytes do not have the length that was recorded")
        }
        error => ReadError::Failed(problem(Action::Read, &error)),
    }
}

/// Returns whether a missing object is missing because its bucket is.
pub(crate) fn is_about_bucket(error: &Error) -> bool {
    let details = error.to_string();
    details.contains("NoSuchBucket") || details.contains("ContainerNotFound")
}

/// Returns the hashes of the pieces; none for bytes of one piece.
pub(crate) fn piece_hashes(bytes: &[u8]) -> Vec<String> {
    if bytes.len() as u64 <= PIECE_BYTES {
        return Vec::new();
    }
    bytes.chunks(PIECE_BYTES as usize).map(piece_hash).collect()
}

fn piece_hash(piece: &[u8]) -> String {
    blake3::hash(piece).to_hex().to_string()
}

/// Returns 32 random hex digits.
pub(crate) fn random_id() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Backend(error.to_string()))?;
    Ok(hex(&bytes))
}
