//! Addresses of buckets.

use std::{fmt, str::FromStr};

/// The address of a bucket, and the prefix of its keys that belongs to a store: for example
/// `s3://bucket/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketAddress {
    service: Service,
    bucket: String,
    prefix: String,
}

/// A protocol of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// S3 and servers that are compatible with it, `s3://`.
    S3,
    /// Google Cloud Storage, `gs://`.
    Google,
    /// Azure Blob Storage, `az://`.
    Azure,
}

/// Error for text that is not a [`BucketAddress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The scheme is missing or unknown.
    #[error("expected \"s3://bucket/prefix\", \"gs://bucket/prefix\" or \"az://container/prefix\"")]
    Scheme,
    /// The name of the bucket is no name of a bucket.
    #[error(
        "the name of a bucket has 3 to 222 letters, digits, \".\", \"-\" and \"_\"; the prefix follows after a \"/\""
    )]
    Bucket,
    /// The prefix has a part that some services do not keep.
    #[error(
        "the prefix has up to {} letters, digits, \".\", \"-\", \"_\" and \"/\", and no part is empty, \".\" or \"..\"",
        BucketAddress::MAX_PREFIX_BYTES
    )]
    Prefix,
}

impl Service {
    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }
}

impl BucketAddress {
    /// The longest prefix, in bytes. A key has at most 1,024 bytes in every service.
    pub const MAX_PREFIX_BYTES: usize = 200;

    /// Returns the protocol.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Returns the name of the bucket; Azure calls it a container.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Returns the prefix, without slashes at its ends. It may be empty.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl FromStr for BucketAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let service = [Service::S3, Service::Google, Service::Azure]
            .into_iter()
            .find(|service| service.scheme() == scheme)
            .ok_or(AddressError::Scheme)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !(3..=222).contains(&bucket.len()) || !is_plain(bucket) {
            return Err(AddressError::Bucket);
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_good = prefix.is_empty() || prefix.split('/').all(is_plain);
        if prefix.len() > Self::MAX_PREFIX_BYTES || !is_good {
            return Err(AddressError::Prefix);
        }
        Ok(Self { service, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for BucketAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", self.service.scheme(), self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(out, "/{}", self.prefix) }
    }
}

fn is_plain(part: &str) -> bool {
    let is_dots = part == "." || part == "..";
    let mut bytes = part.bytes();
    !part.is_empty()
        && !is_dots
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, want) in [
            ("s3://bucket", Ok("s3://bucket")),
            ("s3://bucket/", Ok("s3://bucket")),
            ("gs://my.bucket/a/b-c", Ok("gs://my.bucket/a/b-c")),
            ("az://container/a/", Ok("az://container/a")),
            ("", Err(AddressError::Scheme)),
            ("bucket", Err(AddressError::Scheme)),
            ("https://bucket.s3.amazonaws.com", Err(AddressError::Scheme)),
            ("s3://", Err(AddressError::Bucket)),
            ("s3://key:secret@bucket", Err(AddressError::Bucket)),
            ("s3://bucket?region=x", Err(AddressError::Bucket)),
            ("s3://bucket//a", Err(AddressError::Prefix)),
            ("s3://bucket/a/../b", Err(AddressError::Prefix)),
            ("s3://bucket/ä", Err(AddressError::Prefix)),
        ] {
            let read = text.parse::<BucketAddress>().map(|address| address.to_string());
            assert_eq!(read, want.map(str::to_owned), "{text}");
        }
        assert_eq!(
            format!("s3://bucket/{}", "a".repeat(201)).parse::<BucketAddress>(),
            Err(AddressError::Prefix)
        );
    }
}
