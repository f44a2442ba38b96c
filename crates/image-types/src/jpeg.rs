//! Reads the segments of JPEG.

use crate::{Defect, Size, field};

pub(crate) const TYPE: &str = "image/jpeg";
pub(crate) const SIGNATURE: &[u8] = b"\xff\xd8\xff";

/// Walks over the segments to the frame header, which has the size, and on to the first scan.
pub(crate) fn size(bytes: &[u8]) -> Result<Size, Defect> {
    let mut at = 2;
    let mut size = None;
    loop {
        let [prefix, marker] = field(bytes, at)?;
        if prefix != 0xff {
            return Err(Defect::Damaged);
        }
        match marker {
            // Fill bytes before a marker.
            0xff => {
                at += 1;
                continue;
            }
            // Start of scan: the picture follows.
            0xda => return size.ok_or(Defect::Damaged),
            // SOF0 to SOF15 without DHT, JPG and DAC.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let height = u16::from_be_bytes(field(bytes, at + 5)?);
                let width = u16::from_be_bytes(field(bytes, at + 7)?);
                size = Some(Size { width: width.into(), height: height.into() });
            }
            // Markers that stand alone belong between scans. The end marker begins no picture.
            0x00 | 0x01 | 0xd0..=0xd9 => return Err(Defect::Damaged),
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(field(bytes, at + 2)?));
        if length < 2 {
            return Err(Defect::Damaged);
        }
        at += 2 + length;
    }
}
