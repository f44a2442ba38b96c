#![doc = include_str!("../README.md")]

mod gif;
mod jpeg;
mod png;
mod webp;

/// MIME types of images that the services of all large models accept.
pub const USUAL_IMAGE_TYPES: [&str; 4] = [png::TYPE, jpeg::TYPE, gif::TYPE, webp::TYPE];

/// An image whose headers are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageHeader {
    /// MIME type, one of [`USUAL_IMAGE_TYPES`].
    pub mime_type: &'static str,
    /// Width in pixels, at least 1.
    pub width: u32,
    /// Height in pixels, at least 1.
    pub height: u32,
}

impl ImageHeader {
    /// Returns the number of pixels, which decides how much memory a decoder takes.
    #[must_use]
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// Why bytes are not an image that a decoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The first bytes are of none of the known types.
    #[error("the bytes are not a PNG, JPEG, GIF or WebP")]
    Unknown,
    /// The first bytes are of this MIME type, but the first picture is not whole.
    #[error("the {0} ends early")]
    EndsEarly(&'static str),
    /// The first bytes are of this MIME type, but a header is wrong.
    #[error("the {0} is damaged")]
    Damaged(&'static str),
}

/// Reads the headers of an image. Bytes after its end are not looked at: a file that is an image
/// and something else besides is an image.
///
/// # Errors
///
/// Returns an error if the bytes are not of a known type, if a header is wrong, or if the image
/// ends before its first picture does.
pub fn examine(bytes: &[u8]) -> Result<ImageHeader, ImageError> {
    let (mime_type, size) = if bytes.starts_with(png::SIGNATURE) {
        (png::TYPE, png::size(bytes))
    } else if bytes.starts_with(jpeg::SIGNATURE) {
        (jpeg::TYPE, jpeg::size(bytes))
    } else if gif::SIGNATURES.iter().any(|signature| bytes.starts_with(signature)) {
        (gif::TYPE, gif::size(bytes))
    } else if webp::is_webp(bytes) {
        (webp::TYPE, webp::size(bytes))
    } else {
        return Err(ImageError::Unknown);
    };
    match size {
        Ok(Size { width, height }) if width > 0 && height > 0 => {
            Ok(ImageHeader { mime_type, width, height })
        }
        Ok(_) | Err(Defect::Damaged) => Err(ImageError::Damaged(mime_type)),
        Err(Defect::EndsEarly) => Err(ImageError::EndsEarly(mime_type)),
    }
}

/// Width and height in pixels.
#[derive(Clone, Copy)]
struct Size {
    width: u32,
    height: u32,
}

enum Defect {
    EndsEarly,
    Damaged,
}

/// Returns the bytes of a field.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Defect> {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk::<N>);
    field.copied().ok_or(Defect::EndsEarly)
}
