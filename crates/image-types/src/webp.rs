//! Reads the first chunk of WebP.

use crate::{Defect, Size, field};

pub(crate) const TYPE: &str = "image/webp";

pub(crate) fn is_webp(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")
}

/// Reads the size, and checks that the file is as long as it declares.
pub(crate) fn size(bytes: &[u8]) -> Result<Size, Defect> {
    let declared = u32::from_le_bytes(field(bytes, 4)?) as usize;
    if bytes.len() - 8 < declared {
        return Err(Defect::EndsEarly);
    }
    let size = match &field(bytes, 12)? {
        b"VP8 " => {
            if field(bytes, 23)? != [0x9d, 0x01, 0x2a] {
                return Err(Defect::Damaged);
            }
            let width = u16::from_le_bytes(field(bytes, 26)?);
            let height = u16::from_le_bytes(field(bytes, 28)?);
            // The upper two bits are a scale.
            Size { width: u32::from(width & 0x3fff), height: u32::from(height & 0x3fff) }
        }
        b"VP8L" => {
            if field(bytes, 20)? != [0x2f] {
                return Err(Defect::Damaged);
            }
            let bits = u32::from_le_bytes(field(bytes, 21)?);
            Size { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 }
        }
        b"VP8X" => Size { width: three_bytes(bytes, 24)? + 1, height: three_bytes(bytes, 27)? + 1 },
        _ => return Err(Defect::Damaged),
    };
    Ok(size)
}

fn three_bytes(bytes: &[u8], at: usize) -> Result<u32, Defect> {
    let [low, middle, high] = field(bytes, at)?;
    Ok(u32::from_le_bytes([low, middle, high, 0]))
}
