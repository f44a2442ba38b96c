//! Reads the chunks of PNG.

use crate::{Defect, Size, field};

pub(crate) const TYPE: &str = "image/png";
pub(crate) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Length, type and checksum of a chunk, in bytes.
const CHUNK_OVERHEAD: usize = 12;

/// Reads the size from the first chunk, and walks over the others to the end of the image.
pub(crate) fn size(bytes: &[u8]) -> Result<Size, Defect> {
    let mut at = SIGNATURE.len();
    if field::<8>(bytes, at)? != *b"\0\0\0\x0dIHDR" {
        return Err(Defect::Damaged);
    }
    let width = u32::from_be_bytes(field(bytes, at + 8)?);
    let height = u32::from_be_bytes(field(bytes, at + 12)?);
    let [depth, color, compression, filter, interlace] = field(bytes, at + 16)?;
    // PNG (third edition), section 11.2.1.
    let is_right = matches!(
        (color, depth),
        (0, 1 | 2 | 4 | 8 | 16) | (2 | 4 | 6, 8 | 16) | (3, 1 | 2 | 4 | 8)
    ) && (compression, filter) == (0, 0)
        && interlace <= 1
        && width.max(height) <= i32::MAX.cast_unsigned();
    if !is_right {
        return Err(Defect::Damaged);
    }
    let mut has_data = false;
    loop {
        let length = u32::from_be_bytes(field(bytes, at)?) as usize;
        match &field(bytes, at + 4)? {
            b"IDAT" => has_data = true,
            b"IEND" if has_data => return Ok(Size { width, height }),
            b"IEND" => return Err(Defect::Damaged),
            kind if kind.iter().all(u8::is_ascii_alphabetic) => {}
            _ => return Err(Defect::Damaged),
        }
        at = at.saturating_add(length).saturating_add(CHUNK_OVERHEAD);
    }
}
