//! Counts the bytes of a document's compressed streams before they are unpacked into memory.

use std::{borrow::Cow, cell::Cell, io::Read};

use flate2::read::{DeflateDecoder, ZlibDecoder};

use super::{
    super::{ExtractError, Limits},
    filters::{lzw_length, without_text_encodings},
};
use crate::Stop;

/// Counts the bytes that all streams unpack to, without storing them. Finds streams by their
/// keyword, because the document's table may be damaged or wrong.
///
/// Streams come one after the other, so reading all of them reads about as many bytes as the
/// document has. If keywords are within the data of other streams, the same data would be read
/// again and again; such a document is refused early.
pub(super) fn check(bytes: &[u8], limits: &Limits, stop: &Stop) -> Result<u64, ExtractError> {
    let work = Work::new(bytes.len(), stop);
    let mut unpacked = 0;
    let mut from = 0;
    while let Some(found) = memchr::memmem::find(&bytes[from..], b"stream") {
        let after = from + found + b"stream".len();
        from = after;
        let data = &bytes[after..];
        let data = data.strip_prefix(b"\r").unwrap_or(data);
        // `endstream` is followed by a line break as well, but not by packed data.
        let Some(data) = data.strip_prefix(b"\n") else { continue };
        let dictionary = dictionary_before(bytes, after);
        work.add(dictionary.len())?;
        let is_text = may_be_encoded_as_text(dictionary);
        let data = if is_text { without_text_encodings(data) } else { Cow::Borrowed(data) };
        if is_text {
            unpacked += data.len() as u64;
            limits.check_unpacked(unpacked)?;
        }
        if let Cow::Owned(data) = &data {
            work.add(data.len())?;
        }
        let Some(stage) = unpack(&data, &work) else { continue };
        let left = limits.max_unpacked_bytes - unpacked;
        let counted = count(stage, left, 1, stop);
        work.check()?;
        let (lzw, read) = lzw_length(&data, left);
        work.add(read)?;
        unpacked += counted.max(lzw);
        limits.check_unpacked(unpacked)?;
    }
    Ok(unpacked)
}

/// Counts the bytes that were read, and limits them.
struct Work<'a> {
    read: Cell<u64>,
    max: u64,
    stop: &'a Stop,
}

impl<'a> Work<'a> {
    fn new(length: usize, stop: &'a Stop) -> Self {
        /// Maximum bytes that are read per byte of the document: its dictionaries, and its streams
        /// by two decoders, with a margin.
        const TIMES: u64 = 16;
        const AT_LEAST: u64 = 1 << 20;
        let max = (length as u64).saturating_mul(TIMES).max(AT_LEAST);
        Self { read: Cell::new(0), max, stop }
    }

    fn add(&self, bytes: usize) -> Result<(), ExtractError> {
        self.read.set(self.read.get() + bytes as u64);
        self.check()
    }

    fn is_over(&self) -> bool {
        self.read.get() > self.max || self.stop.check().is_err()
    }

    fn check(&self) -> Result<(), ExtractError> {
        self.stop.check()?;
        if self.read.get() > self.max {
            let reason = "its streams stand within one another".to_owned();
            return Err(ExtractError::Malformed { format: super::FORMAT, reason });
        }
        Ok(())
    }
}

/// Returns the bytes between the start of an object and this position.
fn dictionary_before(bytes: &[u8], here: usize) -> &[u8] {
    const LONGEST: usize = 1 << 16;
    let before = &bytes[here.saturating_sub(LONGEST)..here];
    let start = memchr::memmem::rfind(before, b" obj")
        .or_else(|| memchr::memmem::rfind(before, b"\nobj"))
        .unwrap_or(0);
    &before[start..]
}

/// Returns whether a dictionary names a filter that encodes as text, or names filters in a form
/// that is not parsed here: by a reference to another object, or with escapes.
fn may_be_encoded_as_text(dictionary: &[u8]) -> bool {
    let filter = memchr::memmem::find(dictionary, b"/Filter").map(|at| &dictionary[at + 7..]);
    let is_reference =
        filter.is_some_and(|it| it.trim_ascii_start().first().is_some_and(u8::is_ascii_digit));
    is_reference
        || [&b"85"[..], b"Hex", b"AHx", b"#"]
            .iter()
            .any(|name| memchr::memmem::find(dictionary, name).is_some())
}

/// Maximum compression stages of one stream.
const MAX_STAGES: usize = 4;

/// Counts the unpacked bytes of a stage and of the stages within it, up to one more than `allowed`.
fn count(mut stage: Box<dyn Read + '_>, allowed: u64, depth: usize, stop: &Stop) -> u64 {
    let mut start = [0; 2];
    let mut got = 0;
    while got < start.len() {
        match stage.read(&mut start[got..]) {
            Ok(0) | Err(_) => return got as u64,
            Ok(more) => got += more,
        }
    }
    let mut stage = start.as_slice().chain(stage);
    if depth < MAX_STAGES && is_zlib(start) {
        let mut counted = CountingReader { inner: stage, count: 0 };
        let next = Box::new(ZlibDecoder::new(&mut counted));
        let inner = count(next, allowed, depth + 1, stop);
        if inner > allowed {
            return inner;
        }
        let mut rest = counted.inner;
        let so_far = counted.count;
        let left = allowed.saturating_sub(inner + so_far);
        return (inner + so_far).saturating_add(drain(&mut rest, left, stop));
    }
    drain(&mut stage, allowed, stop)
}

/// Counts bytes, up to one more than `allowed`. Damaged data ends the count.
fn drain(stage: &mut dyn Read, allowed: u64, stop: &Stop) -> u64 {
    let mut buffer = [0; 1 << 14];
    let mut total = 0;
    while total <= allowed && stop.check().is_ok() {
        match stage.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(more) => total += more as u64,
        }
    }
    total
}

fn unpack<'a>(data: &'a [u8], work: &'a Work<'a>) -> Option<Box<dyn Read + 'a>> {
    let start = *data.first_chunk::<2>()?;
    let data = Packed { data, work };
    // A lenient reader may also unpack data without a header.
    Some(if is_zlib(start) {
        Box::new(ZlibDecoder::new(data))
    } else {
        Box::new(DeflateDecoder::new(data))
    })
}

/// Returns whether the data is Deflate with a checksum of the header (RFC 1950, 2.2).
fn is_zlib(start: [u8; 2]) -> bool {
    start[0] & 0x0F == 8 && u16::from_be_bytes(start).is_multiple_of(31)
}

/// Compressed data whose reads are counted. It ends after too many bytes were read.
struct Packed<'a> {
    data: &'a [u8],
    work: &'a Work<'a>,
}

impl Read for Packed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        /// Bytes per read. It limits the cost of data that is damaged at its start, because a
        /// decoder reads ahead.
        const AT_ONCE: usize = 64;
        if self.work.is_over() {
            return Ok(0);
        }
        let length = buffer.len().min(AT_ONCE);
        let read = self.data.read(&mut buffer[..length])?;
        self.work.read.set(self.work.read.get() + read as u64);
        Ok(read)
    }
}

struct CountingReader<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}
