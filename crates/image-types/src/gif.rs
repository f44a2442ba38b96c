//! Reads the blocks of GIF.

use crate::{Defect, Size, field};

pub(crate) const TYPE: &str = "image/gif";
pub(crate) const SIGNATURES: [&[u8]; 2] = [b"GIF87a", b"GIF89a"];

/// Reads the size of the screen, and walks over extensions to the first picture.
pub(crate) fn size(bytes: &[u8]) -> Result<Size, Defect> {
    let width = u16::from_le_bytes(field(bytes, 6)?);
    let height = u16::from_le_bytes(field(bytes, 8)?);
    let [flags] = field(bytes, 10)?;
    let mut at = 13 + color_table_bytes(flags);
    loop {
        match field(bytes, at)? {
            // An extension: its label, and blocks up to an empty one.
            [0x21] => {
                at += 2;
                loop {
                    let [length] = field(bytes, at)?;
                    at += 1 + usize::from(length);
                    if length == 0 {
                        break;
                    }
                }
            }
            // A picture: its place, its colors, the size of codes, and its first block.
            [0x2c] => {
                let [flags] = field(bytes, at + 9)?;
                at += 10 + color_table_bytes(flags);
                let [code_bits, length] = field(bytes, at)?;
                if !(1..=11).contains(&code_bits) || length == 0 {
                    return Err(Defect::Damaged);
                }
                field::<1>(bytes, at + 1 + usize::from(length))?;
                return Ok(Size { width: width.into(), height: height.into() });
            }
            _ => return Err(Defect::Damaged),
        }
    }
}

/// Returns the size of the table of colors that follows, if the flags announce one.
fn color_table_bytes(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}
