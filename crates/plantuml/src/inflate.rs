//! Decompresses the three formats that codes may contain.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

/// The compression of the bytes of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Raw DEFLATE (RFC 1951): a code without prefix, or with `~0`.
    Deflate,
    /// A zlib stream (RFC 1950): `~1`, which PlantUML calls Huffman.
    Zlib,
    /// A gzip member (RFC 1952): `~g`.
    Gzip,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deflate => "deflate",
            Self::Zlib => "zlib",
            Self::Gzip => "gzip",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InflateError {
    Corrupt,
    Truncated,
    TooLong,
}

/// Decompresses the stream at the start of `packed`. Data after the stream is ignored, since codes
/// end in padding.
///
/// Memory stays near `max_bytes`, since a few kilobytes can decompress to a thousand times as much.
pub(crate) fn inflate(
    compression: Compression,
    packed: &[u8],
    max_bytes: usize,
) -> Result<Vec<u8>, InflateError> {
    // The largest window, so that every stream is accepted.
    const WINDOW_BITS: u8 = 15;
    let mut stream = match compression {
        Compression::Deflate => Decompress::new(false),
        Compression::Zlib => Decompress::new(true),
        Compression::Gzip => Decompress::new_gzip(WINDOW_BITS),
    };
    let mut bytes = Vec::new();
    let mut unread = packed;
    loop {
        // One byte over the limit shows that the text is too long.
        let left = max_bytes.saturating_sub(bytes.len()).saturating_add(1);
        bytes.reserve_exact(bytes.len().max(packed.len().saturating_mul(3)).max(256).min(left));
        let before = stream.total_in();
        let status = stream.decompress_vec(unread, &mut bytes, FlushDecompress::None);
        unread = &unread[(stream.total_in() - before) as usize..];
        let status = status.map_err(|_| InflateError::Corrupt)?;
        if bytes.len() > max_bytes {
            return Err(InflateError::TooLong);
        }
        if status == Status::StreamEnd {
            return Ok(bytes);
        }
        if bytes.len() < bytes.capacity() {
            // The output has room left, so input is missing.
            return Err(InflateError::Truncated);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const KINDS: [Compression; 3] = [Compression::Deflate, Compression::Zlib, Compression::Gzip];

    #[test]
    fn every_format_is_decompressed_and_padding_ignored() {
        for kind in KINDS {
            for text in [&b""[..], b"A --> B", &b"A --> B\n".repeat(5_000)] {
                let mut packed = pack(kind, text);
                assert_eq!(inflate(kind, &packed, 100_000).as_deref(), Ok(text), "{kind}");
                packed.extend([0, 0]);
                assert_eq!(inflate(kind, &packed, 100_000).as_deref(), Ok(text), "{kind}");
            }
        }
    }

    #[test]
    fn the_limit_is_exact() {
        for kind in KINDS {
            for length in [0, 1, 255, 256, 257, 4_096, 70_000] {
                let packed = pack(kind, &vec![b'x'; length]);
                assert_eq!(
                    inflate(kind, &packed, length).map(|bytes| bytes.len()),
                    Ok(length),
                    "{kind}"
                );
                if length > 0 {
                    assert_eq!(
                        inflate(kind, &packed, length - 1),
                        Err(InflateError::TooLong),
                        "{kind} {length}"
                    );
                }
            }
        }
        assert!(
            inflate(Compression::Deflate, &pack(Compression::Deflate, b"x"), usize::MAX).is_ok()
        );
    }

    #[test]
    fn a_bomb_takes_no_more_memory_than_the_limit() {
        let bomb = pack(Compression::Deflate, &vec![0; 32 << 20]);
        assert!(bomb.len() < 40_000);
        assert_eq!(inflate(Compression::Deflate, &bomb, 1 << 20), Err(InflateError::TooLong));
    }

    #[test]
    fn every_truncation_is_an_error() {
        for kind in KINDS {
            let packed = pack(kind, "日本語 -> 数据 : 🙂\n".repeat(40).as_bytes());
            for end in 0..packed.len() {
                assert_eq!(
                    inflate(kind, &packed[..end], 100_000),
                    Err(InflateError::Truncated),
                    "{kind} {end}"
                );
            }
        }
    }

    #[test]
    fn garbage_is_corrupt() {
        for kind in KINDS {
            assert_eq!(inflate(kind, &[0xff; 40], 100), Err(InflateError::Corrupt), "{kind}");
        }
        for kind in [Compression::Zlib, Compression::Gzip] {
            // These two carry a checksum, the last bytes of one and the last but four of the other.
            let mut packed = pack(kind, b"A --> B");
            let at = packed.len() - 5;
            packed[at + 1 - 4 * usize::from(kind == Compression::Gzip)] ^= 1;
            assert_eq!(inflate(kind, &packed, 100), Err(InflateError::Corrupt), "{kind}");
        }
    }

    fn pack(kind: Compression, text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::best();
        let packed = match kind {
            Compression::Deflate => {
                let mut encoder = DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(text).and_then(|()| encoder.finish())
            }
            Compression::Zlib => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(text).and_then(|()| encoder.finish())
            }
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(text).and_then(|()| encoder.finish())
            }
        };
        packed.unwrap()
    }
}
