//! Bodies of answers, which may be compressed.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use marquetry_protocol_wire::RpcError;

use crate::answer_memory::AnswerCount;

/// The encodings that this client asks for.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip");

/// The body of an answer, decompressed piece by piece.
pub(super) struct Body {
    incoming: Incoming,
    gzip: Option<Gzip>,
    turn: Turn,
}

/// How much was read since other tasks could run.
///
/// A server that sends faster than the client parses, such as one whose stream is a gzip bomb of
/// comments, never lets a read wait. The reading task would then hold its thread, and the time
/// limit around it, which is checked when the task waits, would never end it.
#[derive(Default)]
struct Turn {
    bytes: usize,
}

/// Why a body was not received as a whole.
#[derive(Debug)]
pub(super) enum WholeError {
    /// The connection broke, or the body is too long.
    Io(io::Error),
    /// Other requests use the memory.
    Memory(RpcError),
}

impl WholeError {
    fn too_long() -> Self {
        Self::Io(io::Error::other("length limit exceeded"))
    }
}

/// A compressed body.
struct Gzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// Compressed bytes that are not yet decoded.
    waiting: Bytes,
    has_ended: bool,
}

impl Body {
    /// Returns the body of an answer with these headers.
    ///
    /// # Errors
    /// Returns an error if it has an unknown encoding.
    pub(super) fn new(headers: &HeaderMap, incoming: Incoming) -> io::Result<Self> {
        let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
        let encoding = encoding.unwrap_or_default().trim_ascii().to_ascii_lowercase();
        let gzip = match &*encoding {
            b"" | b"identity" => None,
            b"gzip" | b"x-gzip" => Some(Gzip::new()),
            other => {
                let other = String::from_utf8_lossy(other);
                let other = marquetry_protocol_wire::shortened(&other);
                return Err(io::Error::other(format!("unknown content-encoding '{other}'")));
            }
        };
        Ok(Self { incoming, gzip, turn: Turn::default() })
    }

    /// Returns the next bytes; [`None`] at the end. A piece that is decompressed has about a MiB at
    /// most, however much is compressed in it.
    ///
    /// # Errors
    /// Returns an error if the connection breaks, or the bytes cannot be decompressed.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            self.turn.yield_if_over().await;
            if let Some(gzip) = &mut self.gzip {
                let decoded = gzip.decode()?;
                self.turn.bytes += decoded.len();
                if !decoded.is_empty() {
                    return Ok(Some(decoded));
                }
                if gzip.has_ended {
                    return Ok(None);
                }
                if !gzip.waiting.is_empty() {
                    continue;
                }
            }
            let received = match self.incoming.frame().await {
                None => None,
                Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(io::Error::other(error)),
            };
            self.turn.bytes += received.as_ref().map_or(0, Bytes::len);
            match (&mut self.gzip, received) {
                (None, received) => return Ok(received),
                (Some(gzip), Some(received)) => gzip.waiting = received,
                (Some(gzip), None) => gzip.has_ended = true,
            }
        }
    }

    /// Returns the length of the body, if it is known before it arrives.
    fn length(&self) -> Option<usize> {
        let length = self.gzip.is_none().then(|| self.incoming.size_hint().exact())??;
        usize::try_from(length).ok()
    }

    /// Returns the whole body, and counts its bytes before they are in memory.
    ///
    /// # Errors
    /// Returns an error as [`Self::next`] does, or if there are more than `max` bytes, or no memory
    /// for them.
    pub(super) async fn whole(
        mut self,
        max: usize,
        mut count: AnswerCount<'_>,
    ) -> Result<Bytes, WholeError> {
        let length = self.length().unwrap_or_default();
        if length > max {
            return Err(WholeError::too_long());
        }
        count.count(length).await.map_err(WholeError::Memory)?;
        let mut whole = BytesMut::with_capacity(length);
        while let Some(piece) = self.next().await.map_err(WholeError::Io)? {
            let length = whole.len() + piece.len();
            if length > max {
                return Err(WholeError::too_long());
            }
            count.count(length).await.map_err(WholeError::Memory)?;
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// Returns the beginning of the body, at most `max` bytes, and drops the rest.
    ///
    /// # Errors
    /// Returns an error as [`Self::next`] does.
    pub(super) async fn beginning(mut self, max: usize) -> io::Result<Bytes> {
        let mut beginning = BytesMut::new();
        while beginning.len() < max
            && let Some(piece) = self.next().await?
        {
            beginning.extend_from_slice(&piece[..piece.len().min(max - beginning.len())]);
        }
        Ok(beginning.freeze())
    }
}

impl Turn {
    /// A millisecond of parsing, about.
    const MAX_BYTES: usize = 1 << 20;

    async fn yield_if_over(&mut self) {
        if self.bytes >= Self::MAX_BYTES {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

impl Gzip {
    fn new() -> Self {
        let decoder = MultiGzDecoder::new(Vec::new());
        Self { decoder, waiting: Bytes::new(), has_ended: false }
    }

    /// Decodes a part of the waiting bytes.
    fn decode(&mut self) -> io::Result<Bytes> {
        // At best, a byte becomes a thousand: a whole piece could fill the memory.
        const STEP: usize = 1 << 10;
        if self.has_ended {
            self.decoder.try_finish()?;
        } else {
            let part = self.waiting.split_to(self.waiting.len().min(STEP));
            self.decoder.write_all(&part)?;
            // Events are read as soon as they arrive.
            self.decoder.flush()?;
        }
        Ok(std::mem::take(self.decoder.get_mut()).into())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn pieces_are_bounded_however_much_they_expand() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b' '; 64 << 20]).unwrap();
        let mut gzip = Gzip::new();
        gzip.waiting = encoder.finish().unwrap().into();
        let mut total = 0;
        while !gzip.waiting.is_empty() {
            let piece = gzip.decode().unwrap();
            assert!(piece.len() <= 2 << 20, "{}", piece.len());
            total += piece.len();
        }
        assert_eq!(total, 64 << 20);
        gzip.has_ended = true;
        assert!(gzip.decode().unwrap().is_empty());
    }

    #[test]
    fn a_body_that_was_cut_is_an_error() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"some text").unwrap();
        let mut gzip = Gzip::new();
        let whole = encoder.finish().unwrap();
        gzip.waiting = whole[..whole.len() - 3].to_vec().into();
        assert_eq!(&*gzip.decode().unwrap(), b"some text");
        gzip.has_ended = true;
        assert!(gzip.decode().is_err());
    }
}
